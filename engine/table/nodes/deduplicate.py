"""The first or the last row of each key, of a stream of insertions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.table.bundles import KeyedBundles, bundle_size
from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.ordering import row_equality
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.types import ROWTIME, LogicalType
from onceproof.engine.table.values import INSERT, NANOS_PER_MS, UPDATE_AFTER, UPDATE_BEFORE, Row

STATE: Final = "deduplicateState"
_SENSITIVE: Final = "table.exec.deduplicate.insert-update-after-sensitive-enabled"
_COMPACTS: Final = "table.exec.deduplicate.mini-batch.compact-changes-enabled"


class DeduplicateSpec(Struct, frozen=True):
    """What a deduplication is to do."""

    rowtime: int
    """The column of the row time; -1: the order of arrival decides."""
    keeps_last: bool
    emits_before: bool
    emits_insert: bool
    """Whether the first row of a key is +I; else all are +U where there is no -U either."""
    ttl_ms: int
    type: LogicalType
    keys: tuple[int, ...]

    @property
    def key_types(self) -> list[LogicalType]:
        """The types of the columns of the key."""
        return [self.type.types[place] for place in self.keys]

    def replaces(self, previous: Row | None, row: Row) -> bool:
        """Return whether a row takes the place of another one, by row time (None: there is none)."""
        if previous is None:
            return True
        old, new = previous[self.rowtime], row[self.rowtime]
        return bool(old <= new if self.keeps_last else new < old)

    def emit(self, previous: Row | None, row: Row, emit: Emit) -> None:
        """Emit that a row takes the place of another one."""
        if previous is None and (self.emits_before or self.emits_insert):
            emit((INSERT, row))
            return
        if self.emits_before and previous is not None:
            emit((UPDATE_BEFORE, previous))
        emit((UPDATE_AFTER, row))


def _check(kind: int) -> None:
    if kind != INSERT:
        raise FunctionFailed("", "java.lang.IllegalArgumentException")


class Deduplication(TableFunction):
    """Keeps what it knows of a key in one state."""

    def __init__(self, spec: DeduplicateSpec) -> None:
        super().__init__()
        self._spec = spec

    def start(self, context: TableContext) -> None:
        self._state = context.value_state(STATE, self._spec.ttl_ms)


class FirstByArrival(Deduplication):
    """Emits the first row that arrives (Flink: ProcTimeDeduplicateKeepFirstRowFunction)."""

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        _check(kind)
        if self._state.value() is None:
            self._state.update(True)
            emit((INSERT, row))


class LastByArrival(Deduplication):
    """Emits every row in place of the one before it (Flink: ProcTimeDeduplicateKeepLastRowFunction).

    An equal row is not emitted, except with a time to live.
    """

    def __init__(self, spec: DeduplicateSpec) -> None:
        super().__init__(spec)
        self._same = row_equality(spec.type.types)
        self._keeps_row = spec.emits_before or spec.emits_insert

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        _check(kind)
        previous = None
        if self._keeps_row:
            previous = self._state.value()
            self._state.update(row)
            if previous is not None and not self._spec.ttl_ms and self._same(previous, row):
                return
        self._spec.emit(previous, row, emit)


class ByTime(Deduplication):
    """Emits the row with the least or greatest time when it arrives (Flink: RowTimeDeduplicateFunction).

    Of equal times the last one is kept as the last row, the first one as the first row.
    """

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        _check(kind)
        previous = self._state.value()
        if self._spec.replaces(previous, row):
            self._spec.emit(previous, row, emit)
            self._state.update(row)


class FirstAtWatermark(Deduplication):
    """Emits the row with the least time when the watermark reaches it; insert-only.

    Flink: RowTimeDeduplicateKeepFirstRowFunction. The row that waits has no time to live; that it was emitted
    has one. A row below the watermark is dropped.
    """

    def start(self, context: TableContext) -> None:
        self._timers = context.timers
        self._waiting = context.value_state("waiting-to-emit-on-timer")
        self._emitted = context.value_state("already-emitted-state-boolean", self._spec.ttl_ms)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        _check(kind)
        time_ms = row[self._spec.rowtime] // NANOS_PER_MS
        if time_ms < self._timers.current_watermark() or self._emitted.value():
            return
        waiting = self._waiting.value()
        if self._spec.replaces(waiting, row):
            if waiting is not None:
                self._timers.delete_event_time_timer(waiting[self._spec.rowtime] // NANOS_PER_MS)
            self._timers.register_event_time_timer(time_ms)
            self._waiting.update(row)

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        row = self._waiting.value()
        if row is not None:
            emit((INSERT, row))
            self._waiting.clear()
            self._emitted.update(True)


class InBundles(KeyedBundles):
    """Runs another deduplication over bundles.

    Args:
        function: what each row of a bundle is given to.
        keep: which rows of a key are kept: from the last of them and the next one to what is kept of both.
        key_types: the types of the columns of the key.
        size: that of the bundles.
    """

    def __init__(
        self,
        function: TableFunction,
        keep: Callable[[list[Row], Row], list[Row]],
        key_types: Sequence[LogicalType],
        size: int,
    ) -> None:
        super().__init__(size, key_types)
        self._function = function
        self._keep = keep

    def start(self, context: TableContext) -> None:
        super().start(context)
        self._function.start(context)

    def add(self, collected: Any, kind: int, row: Row) -> list[Row]:
        _check(kind)
        return [row] if collected is None else self._keep(collected, row)

    def end(self, collected: list[Row], emit: Emit) -> None:
        for row in collected:
            self._function.process(INSERT, row, emit)

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        self._function.on_event_time(timestamp, emit)


def _keep_first(rows: list[Row], row: Row) -> list[Row]:
    return rows


def _keep_last(rows: list[Row], row: Row) -> list[Row]:
    return [row]


def _keep_all(rows: list[Row], row: Row) -> list[Row]:
    return [*rows, row]


def _make(spec: DeduplicateSpec, inserts_only: bool, compacts: bool, size: int) -> TableFunction:
    """Return the function; Flink's class depends on the same things."""
    keep = _keep_all
    function: TableFunction
    if spec.rowtime < 0:
        function = LastByArrival(spec) if spec.keeps_last else FirstByArrival(spec)
        keep = _keep_last if spec.keeps_last else _keep_first
    elif inserts_only and not spec.keeps_last:
        # Flink does not run this one over bundles.
        return FirstAtWatermark(spec)
    else:
        function = ByTime(spec)
        if compacts:
            keep = partial(_keep_best, spec)
    return InBundles(function, keep, spec.key_types, size) if size else function


def _keep_best(spec: DeduplicateSpec, rows: list[Row], row: Row) -> list[Row]:
    return [row] if spec.replaces(rows[0], row) else rows


@translator("deduplicate", 1)
def translate_deduplicate(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator, under the unique key."""
    (given,) = inputs
    attributes = node.attributes
    rowtime = -1
    if attributes["isRowtime"]:
        times = [place for place, kind in enumerate(given.type.types) if kind.attribute == ROWTIME]
        if not times:
            raise UnsupportedPlan("a deduplication on row time without a column of it")
        rowtime = times[0]
    spec = DeduplicateSpec(
        rowtime,
        attributes["keepLastRow"],
        attributes["generateUpdateBefore"],
        node.option(_SENSITIVE, "true") == "true",
        node.ttl_ms(),
        given.type,
        tuple(attributes["uniqueKeys"]),
    )
    inserts_only = attributes.get("outputInsertOnly", False)
    make = partial(_make, spec, inserts_only, node.option(_COMPACTS) == "true", bundle_size(node))
    return translation.keyed(node, given, spec.keys, make)
