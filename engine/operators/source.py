"""The operator of a replayable source, with splits and positions.

Every snapshot has the position of every split that the subtask owns, exhausted splits included. So the
checkpoint holds the whole assignment, and a restored job does not list the splits again.
"""

from __future__ import annotations

from typing import Any

from onceproof.engine.connectors.source import Source, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.functions import FunctionSnapshotContext
from onceproof.engine.operators.base import Operator, OperatorContext
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.state.operator import OperatorListState, OperatorStateStore
from onceproof.engine.state.snapshot import OperatorSnapshot
from onceproof.engine.types import Types

STATE_NAME = "splits"
_STATE = ListStateDescriptor(STATE_NAME, Types.DYNAMIC())


class SourceOperator(Operator):
    """Reads the splits of one subtask in turn, a batch from each (Flink: SourceOperator).

    At a fresh start, or if the restored job had no such source, subtask i owns the splits
    i, i + parallelism, ... of the sorted list. After a restore it owns the splits that redistribution
    assigned to it.
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

    def open(self, context: OperatorContext) -> None:
        """Open every split at its position."""
        self._store: OperatorStateStore = context.operator_store()
        self._state: OperatorListState = self._store.get_list_state(_STATE)
        if context.operator is None:
            splits = sorted(self.source.splits_for(context.parallelism))
            own = splits[context.subtask :: context.parallelism]
            owned: list[tuple[str, Any]] = [(split, None) for split in own]
        elif context.has_finished:
            # A source without an end was ended by its user; others have nothing left but what came too late.
            owned = []
        else:
            owned = list(self._state.get())
        self._readers = [(split, self.source.open_split(split, position)) for split, position in owned]
        self._unfinished = self._count_unfinished()
        for _, reader in self._readers:
            reader.when_available(context.wake_up)

    @property
    def exhausted(self) -> bool:
        """Whether the last call of ``poll`` found every split at its end."""
        return self._unfinished == 0

    def poll(self, limit: int) -> list[Record]:
        """Return the next records of the next split that has some, ``limit`` at most.

        Returns [] once all splits are exhausted, and if none has something now.
        """
        readers = self._readers
        self.waits = False
        empty = 0
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
        return min((reader.retry_ms for _, reader in self._readers if not reader.exhausted), default=0)

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

    def close(self) -> None:
        for _, reader in self._readers:
            reader.close()
