"""A driver that writes an event log: its attempts, the outcome of each checkpoint, the end of the job.

Rules:

- The class stands before the driver's own in the order of bases: first the driver does its part, then the
  event is logged, before the next thing can become visible.
- The machines check themselves after every event, as in the simulation.
- What a snapshot covers is asked of the live source and the live sink at the moment when it is taken, not
  read out of what the engine stores: the engine may store the wrong offset.
"""

from __future__ import annotations

import traceback
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from onceproof.engine.checkpoint.events import CheckpointAborted, CheckpointCompleted, CheckpointTriggered
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.errors import Ending
from onceproof.engine.job.events import Deploy
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.runtime.job_driver import JobDriver
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.task.events import StoreSnapshot
from onceproof.engine.task.task import Task
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.sinks import names_in


class RunOver(Ending):
    """An error of the engine's own ends the run; nothing after it can be trusted."""


class EventLoggingDriver(JobDriver):
    """Logs what the job master does. A subclass sets ``log`` before it calls the driver's ``__init__``."""

    checks_machines = True

    log: EventLog
    parallelism: int
    """Of the next attempt."""

    @abstractmethod
    def points_passed(self) -> dict[str, int]:
        """Return how often this process has passed each protocol point; empty where a board counts them."""

    def attempt_started(self, effect: Deploy) -> None:
        """Log which checkpoint the attempt starts from, before anything is restored."""
        super().attempt_started(effect)
        restored = effect.restored
        self.log.write(
            event_log.ATTEMPT_STARTED,
            attempt=effect.attempt,
            parallelism=self.parallelism,
            restored=None if restored is None else restored.checkpoint_id,
        )

    def checkpoint_triggered(self, effect: CheckpointTriggered) -> None:
        """Log the id of the checkpoint."""
        super().checkpoint_triggered(effect)
        self.log.write(event_log.CHECKPOINT_TRIGGERED, checkpoint=effect.checkpoint_id)

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """Log the checkpoint before any task is notified of it."""
        super().checkpoint_completed(effect)
        latest = self.master.coordinator.store.latest
        assert latest is not None
        self.log.write(event_log.CHECKPOINT_COMPLETED, checkpoint=checkpoint_entry(latest))

    def checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        """Log the id of the checkpoint, and the reason."""
        super().checkpoint_aborted(effect)
        self.log.write(
            event_log.CHECKPOINT_ABORTED, checkpoint=effect.checkpoint_id, reason=str(effect.reason)
        )

    def log_finished(self) -> None:
        """Log that the job has finished; call it once that is durable."""
        self.log.write(event_log.JOB_FINISHED, points=self.points_passed())

    def log_failed(self, cause: str) -> None:
        """Log that the job has failed for good."""
        self.log.write(event_log.JOB_FAILED, cause=cause)


def log_process_start(log: EventLog, recovered: Recovered) -> bool:
    """Log which checkpoints a process finds as it begins; return whether the job still has to run."""
    log.write(
        event_log.PROCESS_STARTED,
        incarnation=recovered.incarnation,
        found=[checkpoint_entry(metadata) for metadata in recovered.checkpoints],
    )
    if recovered.finished:
        log.write(event_log.JOB_FINISHED, points={})
    return not recovered.finished


def records_read(source: SourceOperator) -> dict[str, int]:
    """Return by split how many records a source subtask has read."""
    return {split: position[1] for split, position in source.positions().items()}


def positions_of(tasks: Iterable[Task]) -> dict[str, int]:
    """Return by split how many records the sources among some tasks have read."""
    read: dict[str, int] = {}
    for task in tasks:
        head = task.operators[0]
        if isinstance(head, SourceOperator):
            read.update(records_read(head))
    return read


def log_snapshot(log: EventLog, task: Task, effect: StoreSnapshot) -> Mapping[str, int]:
    """Log and return what a snapshot covers that a task has just taken, before it can be stored."""
    head, tail = task.operators[0], task.operators[-1]
    cut: dict[str, int] = {}
    transactions: list[Any] = []
    if isinstance(head, SourceOperator):
        cut = records_read(head)
    if isinstance(tail, SinkOperator) and hasattr(tail.function, "pending_transactions"):
        # A transactional sink, or one around it.
        transactions = tail.function.pending_transactions()
    log.write(
        event_log.SNAPSHOT_TAKEN,
        path=effect.path,
        attempt=task.attempt,
        cut=cut,
        transactions=[name for each in transactions for name in names_in(each)],
    )
    return cut


def log_task_failure(
    log: EventLog,
    task: str,
    attempt: str,
    cause: str,
    injected: bool,
    kind: str = event_log.TASK_FAILED,
) -> None:
    """Log the death of a task; ``kind`` says whether ``attempt`` is one of the job or of the subtask."""
    log.write(kind, task=task, attempt=attempt, cause=" ".join(cause.split()), injected=injected)


def log_error(log: EventLog, where: str, error: BaseException, kind: str = event_log.ERROR) -> None:
    """Log an error, and the function that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    log.write(
        kind,
        where=where,
        type=type(error).__name__,
        function=frames[-1].name if frames else "?",
        text=" ".join(str(error).split()),
    )


def checkpoint_entry(metadata: CheckpointMetadata) -> dict[str, Any]:
    """Return a complete checkpoint as the log has it: its snapshots are known by the paths of their files.

    Files of a database beside a snapshot are left out, because they add nothing to it.
    """
    subtasks = [subtask for operator in metadata.operators for subtask in operator.subtasks]
    return {
        "id": metadata.checkpoint_id,
        "attempt": metadata.attempt,
        "paths": sorted({subtask.handle.path for subtask in subtasks if subtask.handle is not None}),
        "in_flight": metadata.records_in_flight,
    }
