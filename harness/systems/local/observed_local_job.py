"""The local runtime under trial, with an event log and the scenario's faults.

The rules this module lives by:

- It derives from the local runtime and only adds to it (`event_logging_driver.py`). It logs each event before
  anything else can become visible.
- The tasks check their invariants after every event, as in the simulation. The first error that no fault
  injected ends the run.
"""

from __future__ import annotations

from collections.abc import Callable

from onceproof.engine.graph import JobGraph
from onceproof.engine.job.events import JobFailed, JobFinished
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.runtime.execution import Killed
from onceproof.engine.runtime.local import LocalExecution
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.task.events import StoreSnapshot, TaskEvent
from onceproof.engine.task.task import Task
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.injected_error import is_injected
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.clock_jumps import ShiftedClocks, ahead_after_ms
from onceproof.harness.systems.fault_clock import ProcessFaultClock
from onceproof.harness.systems.process.fault_actions import die
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.process.test_io import records_read
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.recording.event_logging_driver import (
    EventLoggingDriver,
    RunOver,
    log_error,
    log_snapshot,
    log_task_failure,
)
from onceproof.harness.systems.victims import is_victim


class ObservedLocalExecution(EventLoggingDriver, LocalExecution):
    """One run of a job in this process."""

    def __init__(
        self,
        spec: Spec,
        graph_of: Callable[[int], JobGraph],
        storage: MountedStorage,
        recovered: Recovered,
        log: EventLog,
    ) -> None:
        self.fault_clock = ProcessFaultClock(spec.faults, spec.in_turn, spec.waiting, self.strike)
        self.log = log
        self.parallelism = spec.parallelism
        self._graph_of = graph_of
        self._graph_parallelism = spec.parallelism
        self._logged_snapshots: set[str] = set()
        """Paths of the snapshots that are in the log already."""
        self._shifted = ShiftedClocks(ahead_after_ms(spec.faults, spec.waiting))
        LocalExecution.__init__(
            self, graph_of(spec.parallelism), storage, recovered, self.fault_clock.probe, self._shifted
        )

    def points_passed(self) -> dict[str, int]:
        """Return how often each protocol point was passed."""
        return self.fault_clock.points

    # Kills and failures.

    def strike(self, number: int, fault: Fault, name: str) -> None:
        """Log a fault, then set the clock or kill. Raises Killed where the running task is a victim."""
        if fault.rescale_to:
            self.parallelism = fault.rescale_to
        running = self.current_task
        # A task that is being cancelled has left ``tasks``, and can still be killed as it closes.
        living = {task.id: task for task in (*self.tasks.values(), *([] if running is None else [running]))}
        row = FAULTS[fault.kind]
        victims = [task for task in living.values() if is_victim(row, name, task.name)]
        if row.victims == "passing" and not victims:
            return
        self.log.write(
            event_log.FAULT_STRUCK,
            number=number,
            task=name,
            waiting=self.fault_clock.state(),
            points=self.fault_clock.points,
            read=self._positions(),
        )
        if row.strikes == "process":
            die()
        if row.strikes == "clock":
            self._shifted.jump(fault)
            return
        for task in victims:
            if task is not running:
                self.kill(task)
        if running in victims:
            raise Killed

    def task_killed(self, task: Task, cause: str) -> None:
        """Log that a fault has killed the task."""
        self._log_failure(task, cause, injected=True)

    def task_event(self, task: Task, event: TaskEvent) -> None:
        """Hand an event to a task, unless another task's fault has killed it during this round."""
        if self.is_current(task):
            super().task_event(task, event)

    def task_died(self, task: Task, error: BaseException) -> None:
        """Log a task that raised; an error that no fault injected ends the run."""
        injected = is_injected(error)
        self._log_failure(task, f"{type(error).__name__}: {error}", injected)
        if not injected:
            log_error(self.log, task.name, error)
            raise RunOver
        super().task_died(task, error)

    # Events of the job.

    def job_graph(self) -> JobGraph:
        """Return the graph at the parallelism that the last rescale asked for."""
        if self._graph_parallelism != self.parallelism:
            self._graph_parallelism = self.parallelism
            return self._graph_of(self.parallelism)
        return self.graph

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Log the snapshot's cut, once for each snapshot file."""
        if effect.path not in self._logged_snapshots:
            self._logged_snapshots.add(effect.path)
            log_snapshot(self.log, task, effect)

    def job_finished(self, effect: JobFinished) -> None:
        """Log the end of the job, after it is durable."""
        super().job_finished(effect)
        self.log_finished()

    def job_failed(self, effect: JobFailed) -> None:
        """Log why the job failed."""
        super().job_failed(effect)
        self.log_failed(effect.cause)

    def _log_failure(self, task: Task, cause: str, injected: bool) -> None:
        log_task_failure(self.log, task.name, task.attempt, cause, injected)

    def _positions(self) -> dict[str, int]:
        """Return by split how many records the living sources have read."""
        read: dict[str, int] = {}
        for task in self.tasks.values():
            head = task.operators[0]
            if isinstance(head, SourceOperator):
                read.update(records_read(head))
        return read
