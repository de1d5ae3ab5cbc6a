"""The processes of the simulated job that have tasks: the one with the living job master, and headless ones.

The rules this module lives by:

- At most one process has a job master. A process whose master has died is headless: its tasks are orphaned
  and run on until the next master has them ended (`orphaned_tasks.py`).
- A message finds its task by attempt in a headless process as long as that task lives there; all others go to
  the process with the job master.
"""

from __future__ import annotations

from typing import Any

from onceproof.engine.job.events import MasterEvent
from onceproof.engine.job.master import JobMaster
from onceproof.engine.messages import TO_TASK
from onceproof.engine.task.events import TaskEvent
from onceproof.engine.task.task import Task
from onceproof.harness.systems.simulation.actions import Slot, WaitingSlot
from onceproof.harness.systems.simulation.job_process import SimulatedProcess


class JobProcesses:
    """Finds the process in which a task or the job master lives."""

    __slots__ = ("current", "headless")

    def __init__(self) -> None:
        self.current: SimulatedProcess | None = None
        """The process whose job master lives."""
        self.headless: list[SimulatedProcess] = []
        """The processes whose job master has died, as far as they had tasks then."""

    @property
    def has_master(self) -> bool:
        """Whether a job master lives."""
        return self.current is not None

    @property
    def master(self) -> JobMaster | None:
        """The job master that lives, if one does."""
        return None if self.current is None else self.current.master

    @property
    def deployed_parallelism(self) -> int:
        """The parallelism of the graph that the job master has, if one lives; else 0."""
        return 0 if self.current is None else self.current.keyed_parallelism

    def tasks(self) -> list[tuple[SimulatedProcess, Task]]:
        """Return the tasks of the job master that lives, or the orphaned ones while there is none."""
        current = self.current
        if current is None:
            return self.orphaned_tasks()
        return [(current, task) for task in current.tasks.values()]

    def orphaned_tasks(self) -> list[tuple[SimulatedProcess, Task]]:
        """Return all tasks whose job master has died, each with its process."""
        return [(process, task) for process in self.headless for task in process.tasks.values()]

    def set_wall_clock(self, ahead_ms: int) -> None:
        """Let all processes see a wall clock that was set."""
        for process in (*self.headless, *([] if self.current is None else [self.current])):
            process.set_wall_clock(ahead_ms)

    def wake_sources(self) -> None:
        """Let every source that waits be polled again: records have arrived."""
        for slot in self.slots():
            if isinstance(slot, WaitingSlot):
                slot.source.waits = False

    def slots(self) -> list[Slot]:
        """Return the inputs of all tasks."""
        found = [] if self.current is None else self.current.slots()
        return found + [slot for process in self.headless for slot in process.slots()]

    def running_task(self) -> Task | None:
        """Return the task that handles an event now, orphaned or not."""
        if self.current is not None and self.current.current_task is not None:
            return self.current.current_task
        for process in self.headless:
            if process.current_task is not None:
                return process.current_task
        return None

    def task_event(self, task: Task, event: TaskEvent) -> None:
        """Hand an event to a task in the process in which it lives."""
        for process in self.headless:
            if process.is_current(task):
                process.task_event(task, event)
                return
        if self.current is not None:
            self.current.task_event(task, event)

    def master_event(self, event: MasterEvent) -> None:
        """Hand an event to the job master, if one lives."""
        if self.current is not None:
            self.current.master_event(event)

    def deliver(self, message: Any) -> None:
        """Let a message of the network arrive, if its receiver lives."""
        current = self.current
        if type(message) in TO_TASK:
            if self.headless and self._deliver_to_orphan(message):
                return
            task = None if current is None else current.tasks.get(message.task)
            if task is not None:
                current.task_event(task, message)  # type: ignore[union-attr]
        elif current is not None:
            current.master_event(message)

    def _deliver_to_orphan(self, message: Any) -> bool:
        for process in self.headless:
            task = process.tasks.get(message.task)
            if task is not None and task.attempt == message.attempt:
                process.task_event(task, message)
                return True
        return False

    def clear(self) -> None:
        """Drop all processes; the run is over."""
        self.current = None
        self.headless.clear()
