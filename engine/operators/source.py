"""The operator of a replayable source, with splits and positions.

Every snapshot has the position of every split that the subtask owns, exhausted splits included. So the
checkpoint holds the whole assignment, and a restored job does not list the splits again.
"""

from __future__ import annotations

import logging
from typing import Any

from onceproof.engine.connectors.source import DEFAULT_RETRY_MS, Source, SplitDiscovery, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.functions import FunctionSnapshotContext
from onceproof.engine.operators.base import Operator, OperatorContext
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.state.operator import OperatorListState, OperatorStateStore
from onceproof.engine.state.snapshot import OperatorSnapshot
from onceproof.engine.types import Types

_logger = logging.getLogger(__name__)

STATE_NAME = "splits"
_STATE = ListStateDescriptor(STATE_NAME, Types.DYNAMIC())
KNOWN_STATE_NAME = "known-splits"
_KNOWN_STATE = ListStateDescriptor(KNOWN_STATE_NAME, Types.STRING())


class SourceOperator(Operator):
    """Reads the splits of one subtask in turn, a batch from each (Flink: SourceOperator).

    At a fresh start, or if the restored job had no such source, subtask i owns the splits that
    ``Source.owner_of`` names, else i, i + parallelism, ... of the sorted list. After a restore it owns the
    splits that redistribution assigned to it.

    A source may discover splits later. One is new if no subtask knew it at the restored checkpoint, which
    holds the names of all known ones for each subtask; ``owner_of`` says which subtask reads it.
    """

    is_source = True

    def __init__(self, source: Source) -> None:
        self.source = source
        self._readers: list[tuple[str, SplitReader]] = []
        self._next = 0
        self._polled = 0
        """The index of the split that the last records came from."""
        self._unfinished = 0
        self.waits = False
        """Whether the last call of ``poll`` found nothing to read now, in splits that have not ended."""
        self.records_read = 0
        """The count of this subtask in this attempt."""
        self._known: OperatorListState | None = None
        """The names of the splits that any subtask reads."""
        self._discovery: SplitDiscovery | None = None
        self._positions: dict[int, dict[str, Any]] = {}
        """By checkpoint that is not complete yet, for readers that hear of it."""

    def open(self, context: OperatorContext) -> None:
        """Open every split at its position."""
        self._store: OperatorStateStore = context.operator_store()
        self._state: OperatorListState = self._store.get_list_state(_STATE)
        if context.operator is None:
            owned: list[tuple[str, Any]] = [(split, None) for split in self._own_splits(context)]
        elif context.has_finished:
            # A source without an end was ended by its user; others have nothing left but what came too late.
            owned = []
        else:
            owned = list(self._state.get())
        self._readers = [(split, self.source.open_split(split, position)) for split, position in owned]
        self._unfinished = self._count_unfinished()
        self._wake_up, self._reaction = context.wake_up, context.source_on_change
        for _, reader in self._readers:
            self._prepare(reader)
        if self.source.can_discover:
            self._known = self._store.get_union_list_state(_KNOWN_STATE)
        # Where the driver commits, this copy lives for one epoch only.
        if self.source.discovery_interval_ms is not None and not (context.has_finished or context.settled):
            self._discover(context, self.source.discovery_interval_ms)

    def _prepare(self, reader: SplitReader) -> None:
        reader.when_available(self._wake_up)
        reader.react_to_change(self._reaction)

    def _own_splits(self, context: OperatorContext) -> list[str]:
        """Return the splits of this subtask at a fresh start."""
        splits = sorted(self.source.splits_for(context.parallelism))
        dealt = splits[context.subtask :: context.parallelism]
        owners = {split: self.source.owner_of(split, context.parallelism) for split in splits}
        if None in owners.values():
            return dealt
        return [split for split in splits if owners[split] == context.subtask]

    def _discover(self, context: OperatorContext, interval_ms: int) -> None:
        # What this subtask reads is known, too.
        assert self._known is not None, "a source that discovers splits says can_discover"
        if context.operator is not None and not self._known.get():
            # The restored job could not discover and has kept no names; the next restore finds those of now.
            _logger.warning("%s looks for no new splits until it is restored again", context.task_name)
            return
        known = frozenset(self._known.get()).union(split for split, _ in self._readers)
        source, subtask, parallelism = self.source, context.subtask, context.parallelism

        def is_new(split: str) -> bool:
            return split not in known and source.owner_of(split, parallelism) == subtask

        self._discovery = SplitDiscovery(source.splits, is_new, context.wake_up)
        source.start_discovery(self._discovery, interval_ms)

    def _take_discovered(self, discovery: SplitDiscovery) -> None:
        while (split := discovery.take()) is not None:
            reader = self.source.open_discovered_split(split)
            self._readers.append((split, reader))
            self._prepare(reader)
            self._unfinished = self._count_unfinished()

    @property
    def exhausted(self) -> bool:
        """Whether the last call of ``poll`` found every split at its end, and no other can come."""
        return self._unfinished == 0 and self._discovery is None

    def poll(self, limit: int) -> list[Record]:
        """Return the next records of the next split that has some, ``limit`` at most.

        Returns [] once all splits are exhausted, and if none has something now.
        """
        readers = self._readers
        self.waits = False
        empty = 0
        if self._discovery is not None:
            self._take_discovered(self._discovery)
            self.waits = self._unfinished == 0
        while self._unfinished:
            if empty == len(readers):
                self.waits = True
                break
            place = self._next
            _, reader = readers[place]
            self._next = (place + 1) % len(readers)
            records = reader.read(limit)
            if records:
                self._polled = place
                self.records_read += len(records)
                return records
            empty += 1
            self._unfinished = self._count_unfinished()
        return []

    @property
    def retry_ms(self) -> int:
        """After how many milliseconds to poll again, where nothing wakes the task before."""
        # Without a reader, a split that is discovered wakes the task.
        nothing = 0 if self._discovery is None else DEFAULT_RETRY_MS
        return min((reader.retry_ms for _, reader in self._readers if not reader.exhausted), default=nothing)

    def start_at_split(self, turn: int) -> int:
        """Let the next ``poll`` begin at split ``turn`` (modulo the number of splits).

        On Spark a task lives for a few reads only; without this it would always read the first splits.
        Returns how many splits are left to read.
        """
        if self._readers:
            self._next = turn % len(self._readers)
        self._unfinished = self._count_unfinished()
        return self._unfinished

    @property
    def pending_records(self) -> int | None:
        """Return how many records wait in the splits, as far as their readers know; None: none does."""
        known = [count for _, reader in self._readers if (count := reader.pending_records) is not None]
        return sum(known) if known else None

    @property
    def is_read_out(self) -> bool:
        """Whether no split has records left; unlike ``exhausted``, it is true before a read notices."""
        return self._count_unfinished() == 0

    def _count_unfinished(self) -> int:
        count = 0
        for _, reader in self._readers:
            if not reader.exhausted:
                count += 1
        return count

    def positions(self) -> dict[str, Any]:
        """Return split -> position of the next record; observers of the source call this."""
        return {split: reader.position for split, reader in self._readers}

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot:
        self.snapshot_state(FunctionSnapshotContext(checkpoint_id, timestamp_ms))
        return OperatorSnapshot(None, self._store.snapshot())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Update the list state from the readers."""
        self._state.update([[split, reader.position] for split, reader in self._readers])
        if self._known is not None:
            self._known.update([split for split, _ in self._readers])
        if self.source.hears_of_checkpoints:
            self._positions[context.get_checkpoint_id()] = self.positions()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the readers their positions in a complete checkpoint."""
        if checkpoint_id not in self._positions:
            return
        complete = self._positions[checkpoint_id]
        self._positions = {key: value for key, value in self._positions.items() if key > checkpoint_id}
        for split, reader in self._readers:
            if split in complete:
                reader.checkpoint_complete(complete[split])

    def close(self) -> None:
        if self._discovery is not None:
            self._discovery.stop()
        for _, reader in self._readers:
            reader.close()
