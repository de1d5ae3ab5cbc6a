"""Which completed checkpoints are kept (Flink: CompletedCheckpointStore, CheckpointSubsumeHelper).

Adding one subsumes the oldest beyond ``num_retained``, but never the latest of all, and never the latest
checkpoint that is no savepoint: a savepoint belongs to the user, who may delete it at any time. Only a
synchronous savepoint, after which no checkpoint follows, may replace that one too. A savepoint that is
dropped from the store keeps its files (``is_discardable``).
"""

from __future__ import annotations

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.messages import CHECKPOINT, SYNC_SAVEPOINT


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
