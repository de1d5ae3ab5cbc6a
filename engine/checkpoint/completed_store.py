"""Which checkpoints are kept while a job runs, and which outlive it (Flink: CompletedCheckpointStore).

Adding one subsumes the oldest beyond ``num_retained``, but never the latest of all, and never the latest
checkpoint that is no savepoint: a savepoint belongs to the user, who may delete it at any time. Only a
synchronous savepoint, after which no checkpoint follows, may replace that one too. A savepoint that is
dropped from the store keeps its files (``is_discardable``).

A job that has finished needs no checkpoint: all its output is committed (Flink: CheckpointRetentionPolicy).
One that was cancelled or has failed can be resumed from its checkpoints, and only so can what its sinks had
pre-committed be committed. The user decides whether they are kept; without a setting those of a failed job
are, which Flink would delete.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.configuration import DELETE_ON_CANCELLATION, NO_EXTERNALIZED, RETAIN_ON_CANCELLATION
from onceproof.engine.messages import CHECKPOINT, SYNC_SAVEPOINT


class JobOutcome(Enum):
    """How a job ended for good."""

    FINISHED = "finished"
    CANCELED = "canceled"
    FAILED = "failed"
    SUSPENDED = "suspended"
    """Its process gave it up, so that another may take it over."""


_KEPT: Final = {
    None: (JobOutcome.FAILED, JobOutcome.SUSPENDED),
    NO_EXTERNALIZED: (),
    DELETE_ON_CANCELLATION: (JobOutcome.FAILED,),
    RETAIN_ON_CANCELLATION: (JobOutcome.CANCELED, JobOutcome.FAILED, JobOutcome.SUSPENDED),
}


def is_retained(retention: str | None, outcome: JobOutcome) -> bool:
    """Whether the checkpoints of a job stay; ``retention`` is the option as it was set, if it was."""
    return outcome in _KEPT[retention]


class CompletedCheckpointStore:
    """The retained checkpoints of a job, oldest first."""

    __slots__ = ("_num_retained", "_retained", "latest")

    def __init__(self, num_retained: int) -> None:
        if num_retained < 1:
            raise ValueError(f"{num_retained} checkpoints to retain: at least 1 is needed to restore from")
        self._num_retained = num_retained
        self._retained: list[CheckpointMetadata] = []
        self.latest: CheckpointMetadata | None = None
        """The checkpoint that a restore takes, or None."""

    @property
    def retained(self) -> tuple[CheckpointMetadata, ...]:
        """Return all retained checkpoints, oldest first."""
        return tuple(self._retained)

    def add(self, completed: CheckpointMetadata) -> list[CheckpointMetadata]:
        """Add a checkpoint; return the checkpoints that it subsumes, oldest first."""
        retained = self._retained
        if retained and completed.checkpoint_id <= retained[-1].checkpoint_id:
            raise ValueError(
                f"checkpoint {completed.checkpoint_id} after {retained[-1].checkpoint_id}: ids must rise"
            )
        retained.append(completed)
        self.latest = completed
        excess = len(retained) - self._num_retained
        if excess <= 0:
            return []
        untouchable = next((item for item in reversed(retained) if item.kind == CHECKPOINT), None)
        if completed.kind == SYNC_SAVEPOINT:
            untouchable = completed
        subsumed: list[CheckpointMetadata] = []
        kept: list[CheckpointMetadata] = []
        for item in retained:
            if len(subsumed) < excess and item is not completed and item is not untouchable:
                subsumed.append(item)
            else:
                kept.append(item)
        self._retained = kept
        return subsumed


def is_discardable(subsumed: CheckpointMetadata) -> bool:
    """Return whether the engine deletes the files of a subsumed checkpoint; those of savepoints it keeps."""
    return subsumed.kind == CHECKPOINT
