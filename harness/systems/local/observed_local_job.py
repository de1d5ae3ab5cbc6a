"""The local runtime under observation: it tells what becomes visible, and dies where it is told to.

The rules this module lives by:

- It is the runtime as it is, derived from; what it adds looks on (`told.py`), and every event is told before
  the next thing can become visible.
- The tasks check themselves after every event, as in the simulation, and the first error of the engine's own
  ends the run.
"""

from __future__ import annotations

from collections.abc import Callable

from onceproof.engine.graph import JobGraph
from onceproof.engine.job.events import JobFailed, JobFinished
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.runtime.local import LocalExecution
from onceproof.engine.runtime.mounting import MountingStorage
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.task.events import HoldSnapshot, StoreSnapshot, TaskEvent
from onceproof.engine.task.task import Task
from onceproof.harness.model.faults import KILLS
from onceproof.harness.model.injected_error import is_injected
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.process.failpoints import Failpoints, Killed, die
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.process.test_io import records_read
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.recording.event_logging_driver import (
    RunOver,
    ToldDriver,
    say_error,
    say_failed,
    say_snapshot,
)


class ObservedLocalExecution(ToldDriver, LocalExecution):
    """One run of a job in this process, with failpoints, telling its events."""

    def __init__(
        self,
        spec: Spec,
        graph_of: Callable[[int], JobGraph],
        storage: MountingStorage,
        recovered: Recovered,
        log: EventLog,
    ) -> None:
        self.failpoints = Failpoints(spec.faults, spec.in_turn, spec.waiting, self._strike)
        self.log = log
        self.parallelism = spec.parallelism
        self._graph_of = graph_of
        self._graph_parallelism = spec.parallelism
        self._held: set[str] = set()
        """Snapshots that were told of, and are not stored yet."""
        LocalExecution.__init__(self, graph_of(spec.parallelism), storage, recovered, self.failpoints.probe)

    def points_passed(self) -> dict[str, int]:
        """Counted here."""
        return self.failpoints.points

    # Deaths.

    def _strike(self, number: int, fault: Fault, name: str) -> None:
        if fault.rescale_to:
            self.parallelism = fault.rescale_to
        running = self.current_task
        # One that is being cancelled is no longer among the tasks, and can still be killed as it closes.
        living = {task.id: task for task in (*self.tasks.values(), *([] if running is None else [running]))}
        victims = [task for task in living.values() if fault.kind == "kill_all" or task.name == name]
        if fault.kind == "kill_task" and not victims:
            return
        self.log.say(
            event_log.FAULT_STRUCK,
            number=number,
            task=name,
            waiting=self.failpoints.state(),
            points=self.failpoints.points,
            read=self._positions(),
        )
        if fault.kind == "kill_process":
            die()
        if fault.kind not in KILLS:
            return
        for task in victims:
            if task is not running:
                self._kill(task)
        if running in victims:
            raise Killed

    def _kill(self, task: Task) -> None:
        """The task is gone without a word of its own; whoever watches it tells the job master."""
        if self.is_current(task):
            del self.tasks[task.id]
            self._say_failed(task, "killed", injected=True)
            self._mailbox.append(self.failure_message(task, Killed("killed")))

    def task_event(self, task: Task, event: TaskEvent) -> None:
        """As every driver; and a task can be killed while it handles the event, and is validated after it."""
        if not self.is_current(task):
            # Killed from outside during this round.
            return
        outer = self.current_task
        self.current_task = task
        try:
            effects = task.handle(event, self.now())
            task.validate()
        except Killed:
            self._kill(task)
        except Exception as error:
            self.tasks.pop(task.id, None)
            self.task_died(task, error)
        else:
            if effects:
                self.carry_out(effects)
        finally:
            self.current_task = outer

    def cancel(self, task: Task) -> None:
        """As every driver; a task that is killed while it closes is over, too."""
        outer = self.current_task
        self.current_task = task
        try:
            super().cancel(task)
        except Killed:
            self._say_failed(task, "killed while it closed", injected=True)
        finally:
            self.current_task = outer

    def task_died(self, task: Task, error: BaseException) -> None:
        """A task raised: an injected error is the outside's, any other the engine's or the job's."""
        injected = is_injected(error)
        self._say_failed(task, f"{type(error).__name__}: {error}", injected)
        if not injected:
            say_error(self.log, task.name, error)
            raise RunOver
        super().task_died(task, error)

    # What is seen.

    def job_graph(self) -> JobGraph:
        """The graph at the parallelism that the last rescale asked for."""
        if self._graph_parallelism != self.parallelism:
            self._graph_parallelism = self.parallelism
            return self._graph_of(self.parallelism)
        return self.graph

    def snapshot_held(self, effect: HoldSnapshot) -> None:
        """Tell what the snapshot covers: that is decided, whatever is added until it is stored."""
        task = self.current_task
        assert task is not None
        say_snapshot(self.log, task, effect.store)
        self._held.add(effect.store.path)

    def store_snapshot(self, effect: StoreSnapshot) -> None:
        """Tell what the snapshot covers, before it can be stored."""
        task = self.current_task
        assert task is not None
        if effect.path in self._held:
            self._held.discard(effect.path)
        else:
            say_snapshot(self.log, task, effect)
        super().store_snapshot(effect)

    def job_finished(self, effect: JobFinished) -> None:
        """Tell once that is durable."""
        super().job_finished(effect)
        self.tell_finished()

    def job_failed(self, effect: JobFailed) -> None:
        """Tell."""
        super().job_failed(effect)
        self.tell_failed(effect.cause)

    def _say_failed(self, task: Task, cause: str, injected: bool) -> None:
        say_failed(self.log, task.name, task.attempt, cause, injected)

    def _positions(self) -> dict[str, int]:
        """How far the living sources have read."""
        read: dict[str, int] = {}
        for task in self.tasks.values():
            head = task.operators[0]
            if isinstance(head, SourceOperator):
                read.update(records_read(head))
        return read
