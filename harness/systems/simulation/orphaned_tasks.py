"""Tasks whose job master has died: they run on until the next job master has them ended.

The rules this module lives by:

- When the master dies alone, its tasks do not notice: they read, store, acknowledge, and commit on
  notifications that are still under way. No checkpoint is triggered or completed any more.
- The next master knows the job from durable storage alone. It claims the job, ends the tasks that are left,
  one after another as the schedule likes, and deploys when none is left.
- Metadata that the dead master was writing may reach the storage late, also when the job has been claimed.
  Then it is refused, as it would be of a master that was wrongly taken for dead.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from onceproof.engine.job.events import OrphanEnded, StartJob
from onceproof.engine.task.task import Task
from onceproof.harness.systems.simulation.actions import CLASS_INDEX
from onceproof.harness.systems.simulation.agenda import Agenda, Clock
from onceproof.harness.systems.simulation.job_process import SimulatedProcess
from onceproof.harness.systems.simulation.job_processes import JobProcesses

_CONTROL: Final = CLASS_INDEX["message_control"]
LATEST: Final = 64
"""Milliseconds after the start of the next master in which metadata of the dead one may still come."""


class OrphanedTasks:
    """Has orphaned tasks ended, and lets the next job master begin when none is left."""

    __slots__ = ("_agenda", "_asked", "_awaited", "_clock", "_processes", "_restart_delay_ms")

    def __init__(self, processes: JobProcesses, agenda: Agenda, clock: Clock, restart_delay_ms: int) -> None:
        self._processes = processes
        self._agenda = agenda
        self._clock = clock
        self._restart_delay_ms = restart_delay_ms
        self._asked: set[int] = set()
        self._awaited = 0

    def take(self, process: SimulatedProcess) -> None:
        """Take over the tasks of a process whose job master has died."""
        process.is_headless = True
        agenda = self._agenda
        for action in [each for each in agenda.pending if process.lands_late(each)]:
            agenda.pending.remove(action)
            due = self._clock.now + self._restart_delay_ms + crc32(action.label.encode()) % LATEST
            agenda.add_later(due, action.class_index, action.label, action.perform, action.argument)
        if process.tasks:
            self._processes.headless.append(process)

    def clear(self) -> None:
        """Forget all orphaned tasks: they have ended, or have died with their process."""
        self._processes.headless.clear()
        self._asked.clear()
        self._awaited = 0

    # The next master.

    def hand_over(self) -> None:
        """Start the job master that has claimed the job, and have every orphaned task ended."""
        for process, task in self._processes.orphaned_tasks():
            if id(task) not in self._asked:
                self._asked.add(id(task))
                self._awaited += 1
                self._agenda.add(_CONTROL, f"end {task.name}", self._end, (process, task))
        self._report(StartJob(self._awaited))

    def _end(self, argument: tuple[SimulatedProcess, Task]) -> None:
        process, task = argument
        self._awaited -= 1
        if process.is_current(task):
            del process.tasks[task.id]
            process.cancel(task)
        self._report(OrphanEnded())

    def _report(self, event: StartJob | OrphanEnded) -> None:
        """Hand an event to the new job master, if one lives."""
        if not self._awaited:
            self.clear()
            self._agenda.renew_slots()
        self._processes.master_event(event)
