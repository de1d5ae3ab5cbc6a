"""What every driver under observation tells: its attempts, the fate of each checkpoint, its end.

The rules this module lives by:

- It is put before the driver that it observes, and adds to what that one does: first the driver does its
  part, then the event is told, before the next thing can become visible.
- The job master checks itself after every event, as in the simulation.
- What a snapshot covers is asked of the live source and the live sink at the moment when it is taken, not
  read out of what the engine stores: an engine that stores the wrong offset must not be believed.
"""

from __future__ import annotations

import traceback
from abc import abstractmethod
from typing import Any

from onceproof.engine.checkpoint.events import CheckpointAborted, CheckpointCompleted, CheckpointTriggered
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.job.events import Deploy
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.runtime.job_driver import JobDriver
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.task.events import StoreSnapshot
from onceproof.engine.task.task import Task
from onceproof.harness.systems.process.test_io import records_read
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog


class RunOver(BaseException):
    """The engine made a mistake of its own; nothing after it can be trusted."""


class ToldDriver(JobDriver):
    """A driver whose job master tells what it does; ``log`` is there before the driver's own beginning."""

    checks_machines = True

    log: EventLog
    parallelism: int
    """Of the next attempt."""

    @abstractmethod
    def points_passed(self) -> dict[str, int]:
        """How often this process has passed each protocol point, as far as nobody else counts."""

    def attempt_started(self, effect: Deploy) -> None:
        """Tell which checkpoint it starts from, before anything is restored."""
        super().attempt_started(effect)
        restored = effect.restored
        self.log.say(
            event_log.ATTEMPT_STARTED,
            attempt=effect.attempt,
            parallelism=self.parallelism,
            restored=None if restored is None else restored.checkpoint_id,
        )

    def checkpoint_triggered(self, effect: CheckpointTriggered) -> None:
        """Tell."""
        super().checkpoint_triggered(effect)
        self.log.say(event_log.CHECKPOINT_TRIGGERED, checkpoint=effect.checkpoint_id)

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """Tell before anyone is notified."""
        super().checkpoint_completed(effect)
        latest = self.master.coordinator.store.latest
        assert latest is not None
        self.log.say(event_log.CHECKPOINT_COMPLETED, checkpoint=described(latest))

    def checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        """Tell."""
        super().checkpoint_aborted(effect)
        self.log.say(event_log.CHECKPOINT_ABORTED, checkpoint=effect.checkpoint_id, reason=str(effect.reason))

    def tell_finished(self) -> None:
        """The job has finished, and that is durable."""
        self.log.say(event_log.JOB_FINISHED, points=self.points_passed())

    def tell_failed(self, cause: str) -> None:
        """The job has failed for good."""
        self.log.say(event_log.JOB_FAILED, cause=cause)


def say_started(log: EventLog, recovered: Recovered) -> bool:
    """Tell what a process finds as it begins; whether there is anything left to do."""
    log.say(
        event_log.PROCESS_STARTED,
        incarnation=recovered.incarnation,
        found=[described(metadata) for metadata in recovered.checkpoints],
    )
    if recovered.finished:
        log.say(event_log.JOB_FINISHED, points={})
    return not recovered.finished


def say_snapshot(log: EventLog, task: Task, effect: StoreSnapshot) -> None:
    """Tell what a snapshot covers that a task has just taken, before it can be stored."""
    head, tail = task.operators[0], task.operators[-1]
    cut: dict[str, int] = {}
    transactions: list[Any] = []
    if isinstance(head, SourceOperator):
        cut = records_read(head)
    if isinstance(tail, SinkOperator) and hasattr(tail.function, "pending_transactions"):
        # A transactional sink, or one around it.
        transactions = tail.function.pending_transactions()
    log.say(
        event_log.SNAPSHOT_TAKEN,
        path=effect.path,
        attempt=task.attempt,
        cut=cut,
        # A name, or one that something else stands beside.
        transactions=[each if isinstance(each, str) else each[0] for each in transactions],
    )


def say_failed(
    log: EventLog,
    task: str,
    attempt: str,
    cause: str,
    injected: bool,
    kind: str = event_log.TASK_FAILED,
) -> None:
    """Tell that a task is dead; ``kind`` says whose attempt it is."""
    log.say(kind, task=task, attempt=attempt, cause=" ".join(cause.split()), injected=injected)


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


def described(metadata: CheckpointMetadata) -> dict[str, Any]:
    """A complete checkpoint as the log has it: its snapshots are looked up by their files.

    Those of a database beside a snapshot say nothing that it does not.
    """
    subtasks = [subtask for operator in metadata.operators for subtask in operator.subtasks]
    return {
        "id": metadata.checkpoint_id,
        "attempt": metadata.attempt,
        "paths": sorted({subtask.handle.path for subtask in subtasks if subtask.handle is not None}),
        "in_flight": metadata.records_in_flight,
    }
