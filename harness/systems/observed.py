"""The local runtime under observation: it tells what becomes visible, and dies where it is told to.

The rules this module lives by:

- It is the runtime as it is, derived from; what it adds looks on, and every event is told before the next
  thing can become visible.
- What a snapshot covers is asked of the live source and the live sink at the moment when it is taken, not
  read out of what the engine stores: an engine that stores the wrong offset must not be believed.
- The machines check themselves after every event, as in the simulation, and the first error of the engine's
  own ends the run.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from engine.checkpoint.events import CheckpointAborted, CheckpointCompleted, CheckpointTriggered
from engine.checkpoint.metadata import CheckpointMetadata
from engine.connectors.two_phase import TwoPhaseCommitSinkFunction
from engine.graph import JobGraph
from engine.job.events import Deploy, JobFailed, JobFinished, MasterEvent
from engine.operators.sink import SinkOperator
from engine.operators.source import SourceOperator
from engine.runtime.local import LocalExecution
from engine.runtime.recovery import Recovered, files_of
from engine.runtime.storage import CheckpointStorage
from engine.task.events import StoreSnapshot, TaskEvent
from engine.task.task import Task
from harness.scenario import KILLS, Fault, FaultKind
from harness.systems import event_log
from harness.systems.ends import InjectedError, records_read
from harness.systems.event_log import EventLog
from harness.systems.failpoints import Failpoints, Killed, die
from harness.systems.spec import Spec


class RunOver(BaseException):
    """The engine made a mistake of its own; nothing after it can be trusted."""


class ObservedLocalExecution(LocalExecution):
    """One run of a job in this process, with failpoints, telling its events."""

    def __init__(
        self,
        spec: Spec,
        graph_of: Callable[[int], JobGraph],
        storage: CheckpointStorage,
        recovered: Recovered,
        log: EventLog,
    ) -> None:
        self.failpoints = Failpoints(spec.faults, spec.in_turn, spec.waiting, self._strike)
        super().__init__(graph_of(spec.parallelism), storage, recovered, self.failpoints.probe)
        self._log = log
        self._graph_of = graph_of
        self._graph_parallelism = spec.parallelism
        self._parallelism = spec.parallelism

    def commit_fault(self) -> FaultKind | None:
        """What is wrong with the commit that the current task is about to make, if anything."""
        task = self.current_task
        return None if task is None else self.failpoints.commit_fault(task.name)

    # Deaths.

    def _strike(self, number: int, fault: Fault, name: str) -> None:
        if fault.rescale_to:
            self._parallelism = fault.rescale_to
        running = self.current_task
        # One that is being cancelled is no longer among the tasks, and can still be killed as it closes.
        living = {task.id: task for task in (*self.tasks.values(), *([] if running is None else [running]))}
        victims = [task for task in living.values() if fault.kind == "kill_all" or task.name == name]
        if fault.kind == "kill_task" and not victims:
            return
        self._log.say(
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

    def master_event(self, event: MasterEvent) -> None:
        """As every driver; the job master is validated after each event."""
        effects = self.master.handle(event, self.now())
        self.master.validate()
        self.carry_out(effects)

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
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, InjectedError):
            cause = cause.__cause__
        self._say_failed(task, f"{type(error).__name__}: {error}", injected=cause is not None)
        if cause is None:
            say_error(self._log, task.name, error)
            raise RunOver
        super().task_died(task, error)

    # What is seen.

    def job_graph(self) -> JobGraph:
        """The graph at the parallelism that the last rescale asked for."""
        if self._graph_parallelism != self._parallelism:
            self._graph_parallelism = self._parallelism
            return self._graph_of(self._parallelism)
        return self.graph

    def attempt_started(self, effect: Deploy) -> None:
        """Tell which checkpoint it starts from, before anything is restored."""
        super().attempt_started(effect)
        restored = effect.restored
        self._log.say(
            event_log.ATTEMPT_STARTED,
            attempt=effect.attempt,
            parallelism=self._parallelism,
            restored=None if restored is None else restored.checkpoint_id,
        )

    def store_snapshot(self, effect: StoreSnapshot) -> None:
        """Tell what the snapshot covers, before it can be stored."""
        task = self.current_task
        assert task is not None
        head, tail = task.operators[0], task.operators[-1]
        cut: dict[str, int] = {}
        transactions: list[Any] = []
        if isinstance(head, SourceOperator):
            cut = records_read(head)
        if isinstance(tail, SinkOperator) and isinstance(tail.function, TwoPhaseCommitSinkFunction):
            transactions = tail.function.pending_transactions()
        self._log.say(
            event_log.SNAPSHOT_TAKEN,
            path=effect.path,
            attempt=task.attempt,
            cut=cut,
            transactions=[name for name, _ in transactions],
        )
        super().store_snapshot(effect)

    def checkpoint_triggered(self, effect: CheckpointTriggered) -> None:
        """Tell."""
        super().checkpoint_triggered(effect)
        self._log.say(event_log.CHECKPOINT_TRIGGERED, checkpoint=effect.checkpoint_id)

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """Tell before anyone is notified."""
        super().checkpoint_completed(effect)
        latest = self.master.coordinator.store.latest
        assert latest is not None
        self._log.say(event_log.CHECKPOINT_COMPLETED, checkpoint=described(latest))

    def checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        """Tell."""
        super().checkpoint_aborted(effect)
        self._log.say(
            event_log.CHECKPOINT_ABORTED, checkpoint=effect.checkpoint_id, reason=str(effect.reason)
        )

    def job_finished(self, effect: JobFinished) -> None:
        """Tell once that is durable."""
        super().job_finished(effect)
        self._log.say(event_log.JOB_FINISHED, points=self.failpoints.points)

    def job_failed(self, effect: JobFailed) -> None:
        """Tell."""
        super().job_failed(effect)
        self._log.say(event_log.JOB_FAILED, cause=effect.cause)

    def _say_failed(self, task: Task, cause: str, injected: bool) -> None:
        cause = " ".join(cause.split())
        self._log.say(
            event_log.TASK_FAILED, task=task.name, attempt=task.attempt, cause=cause, injected=injected
        )

    def _positions(self) -> dict[str, int]:
        """How far the living sources have read."""
        read: dict[str, int] = {}
        for task in self.tasks.values():
            head = task.operators[0]
            if isinstance(head, SourceOperator):
                read.update(records_read(head))
        return read


def described(metadata: CheckpointMetadata) -> dict[str, Any]:
    """A complete checkpoint as the log has it: its snapshots are looked up by their files."""
    return {
        "id": metadata.checkpoint_id,
        "attempt": metadata.attempt,
        "paths": sorted(files_of(metadata)),
    }


def say_error(log: EventLog, where: str, error: BaseException) -> None:
    """Tell of a mistake: what it is, and in which function it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    log.say(
        event_log.ERROR,
        where=where,
        type=type(error).__name__,
        function=frames[-1].name if frames else "?",
        text=" ".join(str(error).split()),
    )
