"""Top-N of insertions, and what all functions of Top-N share.

Rules:

- Rows are in the order of their sort keys, equal ones in that of their arrival.
- A bound that is a column is that of the first row of its partition. As long as there are less than 100 rows,
  every row is looked at.
- Without numbers and offset only the row that enters and the one that leaves are emitted; otherwise each rank
  whose row has changed is updated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.ordering import SortField, fields_of, sort_key
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Row

_VARIABLE_SIZE: Final = 100
"""How many rows a partition with a variable bound looks at, at least (Flink: DEFAULT_TOPN_SIZE)."""


class RankSpec(Struct, frozen=True):
    """What a Top-N is to do."""

    order: tuple[SortField, ...]
    types: tuple[LogicalType, ...]
    """Those of the input's columns."""
    start: int
    """The first rank of the result, from 1; -1: the bound is a column."""
    end: int
    """The last rank of the result."""
    end_column: int
    """The column of the last rank; -1: it is constant."""
    emits_before: bool
    has_number: bool
    strategy: str
    row_key: tuple[int, ...]
    """The columns that tell rows apart, for UpdateFast."""
    ttl_ms: int

    @property
    def numbers(self) -> bool:
        """Whether each changed rank is emitted."""
        return self.has_number or self.start > 1

    @property
    def size(self) -> int:
        """The number of rows that a partition looks at."""
        return self.end if self.end_column < 0 else _VARIABLE_SIZE


class TopN(TableFunction):
    """What all functions share: the order, the bounds, and how ranks are emitted."""

    def __init__(self, spec: RankSpec) -> None:
        super().__init__()
        self.spec = spec
        self.end = spec.end
        self.raw_key = fields_of([field.index for field in spec.order])
        fields = [SortField(place, each.ascending, each.nulls_last) for place, each in enumerate(spec.order)]
        types = [spec.types[each.index] for each in spec.order]
        self.order_of: Callable[[Row], Any] = sort_key(fields, types) if fields else lambda key: ()

    def start(self, context: TableContext) -> None:
        self._end_state = (
            None if self.spec.end_column < 0 else context.value_state("rankEnd", self.spec.ttl_ms)
        )

    def bound(self, row: Row) -> None:
        """Find out the last rank of the current partition."""
        if self._end_state is not None:
            end = self._end_state.value()
            if end is None:
                end = row[self.spec.end_column]
                self._end_state.update(end)
            self.end = end

    def emit(self, kind: int, row: Row, rank: int, emit: Emit) -> None:
        """Emit a change of a rank, if it is within the bounds."""
        if self.spec.start <= rank <= self.end and (kind != UPDATE_BEFORE or self.spec.emits_before):
            emit((kind, (*row, rank) if self.spec.has_number else row))

    def replace(self, before: Row, after: Row, rank: int, emit: Emit) -> None:
        """Emit that a rank has another row."""
        self.emit(UPDATE_BEFORE, before, rank, emit)
        self.emit(UPDATE_AFTER, after, rank, emit)

    def shift(self, row: Row, rank: int, following: Iterable[Row], emit: Emit) -> None:
        """Emit that a row enters at a rank, and that those behind it move on."""
        for each in following:
            if rank > self.end:
                return
            self.replace(each, row, rank, emit)
            row = each
            rank += 1
        self.emit(INSERT, row, rank, emit)


class FirstRows(TopN):
    """The first rows by processing time (Flink: AppendOnlyFirstNFunction); it only counts."""

    def start(self, context: TableContext) -> None:
        super().start(context)
        self._state = context.value_state("counterState", self.spec.ttl_ms)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        self.bound(row)
        rank = (self._state.value() or 0) + 1
        if rank > self.end:
            return
        self._state.update(rank)
        if self.spec.numbers:
            self.emit(INSERT, row, rank, emit)
        else:
            emit((INSERT, row))


class FirstRow(TopN):
    """The first row alone (Flink: FastTop1Function); a row that is not before it changes nothing."""

    def start(self, context: TableContext) -> None:
        super().start(context)
        self._state = context.value_state("Top1-Rank-State", self.spec.ttl_ms)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        previous = self._state.value()
        if previous is None:
            self._state.update(row)
            self.emit(INSERT, row, 1, emit)
        elif self.order_of(self.raw_key(row)) < self.order_of(self.raw_key(previous)):
            self._state.update(row)
            self.replace(previous, row, 1, emit)


class BufferedTopN(TopN):
    """Keeps the rows of a partition that are within the bounds, in one state.

    The state is a list of sort keys in order, each with its entries and the time at which it was written:
    with a time to live each key expires by itself, as in Flink.
    """

    name = ""

    def start(self, context: TableContext) -> None:
        super().start(context)
        self._state = context.value_state(self.name, self.spec.ttl_ms)

    def load(self) -> list[Any]:
        """Return the buffer of the current partition."""
        buffer = self._state.value() or []
        ttl_ms = self.spec.ttl_ms
        if ttl_ms and buffer:
            begin = self.moment.processing_ms() - ttl_ms
            buffer = [each for each in buffer if each[2] > begin]
        return buffer

    def place_of(self, buffer: list[Any], key: Row) -> int:
        """Return where a sort key is, or would be."""
        return bisect_left(buffer, self.order_of(key), key=self._order_of_entry)

    def _order_of_entry(self, entry: Any) -> Any:
        return self.order_of(entry[0])

    def is_at(self, buffer: list[Any], place: int, key: Row) -> bool:
        """Return whether a sort key is at its place."""
        return place < len(buffer) and bool(self.order_of(buffer[place][0]) == self.order_of(key))

    def is_candidate(self, buffer: list[Any], key: Row, size: int) -> bool:
        """Return whether a row with a sort key may be within the bounds."""
        if not buffer or self.order_of(key) < self.order_of(buffer[-1][0]):
            return True
        return size < self.spec.size

    def forget(self, buffer: list[Any]) -> None:
        """Remove the sort keys that are completely behind the last rank."""
        passed = 0
        for place, (_, rows, _) in enumerate(buffer):
            if passed > self.end:
                del buffer[place:]
                return
            passed += len(rows)

    def now(self) -> int:
        """Return the time of a write; 0 where none is needed."""
        return self.moment.processing_ms() if self.spec.ttl_ms else 0

    def store(self, buffer: list[Any]) -> None:
        """Keep the buffer of the current partition."""
        if buffer:
            self._state.update(buffer)
        else:
            self._state.clear()


class AppendedTopN(BufferedTopN):
    """Top-N of a stream of insertions (Flink: AppendOnlyTopNFunction)."""

    name = "data-state-with-append"

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        self.bound(row)
        buffer, key = self.load(), self.raw_key(row)
        size = sum(len(rows) for _, rows, _ in buffer)
        if not self.is_candidate(buffer, key, size):
            return
        place = self.place_of(buffer, key)
        rows = (*buffer[place][1], row) if self.is_at(buffer, place, key) else (row,)
        buffer[place : place + (len(rows) > 1)] = [(key, rows, self.now())]
        if self.spec.numbers:
            self._emit_numbered(buffer, place, row, emit)
        else:
            self._emit_entering(buffer, size + 1, row, emit)
        self.store(buffer)

    def _emit_numbered(self, buffer: list[Any], place: int, row: Row, emit: Emit) -> None:
        rank = sum(len(rows) for _, rows, _ in buffer[: place + 1])
        self.shift(row, rank, [each for _, rows, _ in buffer[place + 1 :] for each in rows], emit)
        self.forget(buffer)

    def _emit_entering(self, buffer: list[Any], size: int, row: Row, emit: Emit) -> None:
        if size > self.end:
            key, rows, _ = buffer.pop()
            leaving = rows[-1]
            if len(rows) > 1:
                buffer.append((key, rows[:-1], self.now()))
            if leaving == row:
                return
            emit((DELETE, leaving))
        emit((INSERT, row))
