"""Tasks whose job master has died, and who outlive it until the next one has them ended.

The rules this module lives by:

- When the master dies alone, its tasks know nothing of it: they read, store, acknowledge, and commit what
  they are told of by messages that are still under way. Nobody triggers or completes anything any more.
- The next master knows the job from durable storage alone. It claims the job, ends the tasks that are left,
  one after another as the schedule likes, and deploys when none is left: nothing of an attempt may run when
  the next one does.
- Metadata that the dead master was writing may reach the storage late, also when the job has been claimed.
  Then it is refused, as it would be of a master that was only taken for dead.
- A message finds its task by attempt as long as that lives; all others go to the master of the day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from onceproof.engine.job.events import OrphanEnded, StartJob
from onceproof.engine.task.events import TaskEvent
from onceproof.engine.task.task import Task
from onceproof.harness.systems.simulation.actions import CLASS_INDEX, Slot

if TYPE_CHECKING:
    from onceproof.harness.systems.simulation.job_process import SimulatedProcess
    from onceproof.harness.systems.simulation.world import World

_CONTROL: Final = CLASS_INDEX["message_control"]
LATEST: Final = 64
"""Milliseconds after the next master at which metadata of the dead one may still come."""


class Outliving:
    """The processes without a master that still have tasks."""

    __slots__ = ("_asked", "_awaited", "_world", "processes")

    def __init__(self, world: World) -> None:
        self._world = world
        self._asked: set[int] = set()
        self._awaited = 0
        self.processes: list[SimulatedProcess] = []

    def take(self, process: SimulatedProcess) -> None:
        """The master of these tasks has died."""
        process.is_headless = True
        world = self._world
        for action in [each for each in world.pending if process.lands_late(each)]:
            world.pending.remove(action)
            due = world.clock.now + world.scenario.restart_delay_ms + crc32(action.label.encode()) % LATEST
            world.add_later(due, action.class_index, action.label, action.perform, action.argument)
        if process.tasks:
            self.processes.append(process)

    def clear(self) -> None:
        """They have died, too."""
        self.processes.clear()
        self._asked.clear()
        self._awaited = 0

    def tasks(self) -> list[tuple[SimulatedProcess, Task]]:
        """All that live."""
        return [(process, task) for process in self.processes for task in process.tasks.values()]

    def slots(self) -> list[Slot]:
        """The inputs of these tasks."""
        return [slot for process in self.processes for slot in process.slots()]

    def task_event(self, task: Task, event: TaskEvent) -> None:
        """Hand an event to whichever process the task lives in."""
        for process in self.processes:
            if process.is_current(task):
                process.task_event(task, event)
                return
        process_of_the_day = self._world.process
        if process_of_the_day is not None:
            process_of_the_day.task_event(task, event)

    def receives(self, message: Any) -> bool:
        """Deliver a message whose task is one of these; whether it was."""
        for process in self.processes:
            task = process.tasks.get(message.task)
            if task is not None and task.attempt == message.attempt:
                process.task_event(task, message)
                return True
        return False

    def running_task(self) -> Task | None:
        """The task that handles an event now, with a master or without."""
        process_of_the_day = self._world.process
        if process_of_the_day is not None and process_of_the_day.current_task is not None:
            return process_of_the_day.current_task
        for process in self.processes:
            if process.current_task is not None:
                return process.current_task
        return None

    # The next master.

    def make_way(self) -> None:
        """The job has been claimed: have every task ended, then let the new master begin."""
        for process, task in self.tasks():
            if id(task) not in self._asked:
                self._asked.add(id(task))
                self._awaited += 1
                self._world.add(_CONTROL, f"end {task.name}", self._end, (process, task))
        self._report(StartJob(self._awaited))

    def _end(self, argument: tuple[SimulatedProcess, Task]) -> None:
        process, task = argument
        self._awaited -= 1
        if process.is_current(task):
            del process.tasks[task.id]
            process.cancel(task)
        self._report(OrphanEnded())

    def _report(self, event: StartJob | OrphanEnded) -> None:
        """Hand an event to the new job master, if there is one."""
        if not self._awaited:
            self.clear()
            self._world.renew_slots()
        process = self._world.process
        if process is not None:
            process.master_event(event)
