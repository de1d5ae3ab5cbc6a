"""Mutants of sources: the offsets in a snapshot, and the splits and offsets after a restore."""

from __future__ import annotations

from collections.abc import Iterator

from onceproof.engine.functions import FunctionSnapshotContext
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.operators.source import SourceOperator
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="offsets-missing",
    breaks="exactly_once",
    summary="the snapshot of a source names its splits without their positions",
)
def offsets_missing(reached: Reached) -> Iterator[None]:
    """State is restored, and the input is read again from the beginning."""

    def without_positions(self: SourceOperator, context: FunctionSnapshotContext) -> None:
        if any(reader.position for _, reader in self._readers):
            reached()
        self._state.update([(split, None) for split, _ in self._readers])

    with replaced(SourceOperator, "snapshot_state", without_positions):
        yield


@mutant(
    id="FLINK-4618",
    breaks="exactly_once",
    summary="a source stores the last offset that it has read instead of the next one",
)
def last_offset_is_read_again(reached: Reached) -> Iterator[None]:
    """One record of each split is counted twice after each restore."""

    def last_read(self: SourceOperator, context: FunctionSnapshotContext) -> None:
        positions = []
        for split, reader in self._readers:
            position = reader.position
            if position:
                reached()
                position -= 1
            positions.append((split, position))
        self._state.update(positions)

    with replaced(SourceOperator, "snapshot_state", last_read):
        yield


@mutant(
    id="FLINK-7143",
    breaks="exactly_once",
    summary="after a restore splits are assigned to subtasks that do not have their offsets",
)
def splits_are_assigned_anew(reached: Reached) -> Iterator[None]:
    """The new reader of a split has not restored its offset, and starts at the beginning."""
    opened = SourceOperator.open

    def reassigned(self: SourceOperator, context: OperatorContext) -> None:
        opened(self, context)
        if context.restored_checkpoint_id is None:
            return
        known = dict(self._state.get())
        splits = sorted(self.source.splits_for(context.parallelism))[context.subtask :: context.parallelism]
        if splits != sorted(known):
            reached()
        self._readers = [(split, self.source.open_split(split, known.get(split))) for split in splits]
        self._unfinished = sum(not reader.exhausted for _, reader in self._readers)

    with replaced(SourceOperator, "open", reassigned):
        yield


@mutant(
    id="nothing-to-read-means-everything",
    breaks="exactly_once",
    summary="a source that was restored without a split takes its share of all splits, as at a fresh start",
)
def nothing_to_read_means_everything(reached: Reached) -> Iterator[None]:
    """A subtask without restored splits is not a subtask of a new job."""
    opened = SourceOperator.open

    def afresh(self: SourceOperator, context: OperatorContext) -> None:
        opened(self, context)
        if context.restored_checkpoint_id is None or self._readers:
            return
        splits = sorted(self.source.splits_for(context.parallelism))[context.subtask :: context.parallelism]
        if splits:
            reached()
        self._readers = [(split, self.source.open_split(split, None)) for split in splits]
        self._unfinished = sum(not reader.exhausted for _, reader in self._readers)

    with replaced(SourceOperator, "open", afresh):
        yield
