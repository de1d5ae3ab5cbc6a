"""ORDER BY a time: rows wait for their time and are emitted in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from onceproof.engine.table.operators import Emit, TableContext, TableFunction, add_row
from onceproof.engine.table.ordering import SortField, read_order, sort_key
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.types import PROCTIME, ROWTIME, LogicalType
from onceproof.engine.table.values import INSERT, NANOS_PER_MS, Row


def _rest_order(order: Sequence[SortField], types: Sequence[LogicalType]) -> Callable[[Row], Any] | None:
    """Return what orders rows of equal time; None: their arrival does."""
    return sort_key(order[1:], types) if len(order) > 1 else None


class TimeSort(TableFunction):
    """Emits rows when the watermark reaches their time (Flink: RowTimeSortOperator).

    A row whose time is not after the last one that was emitted is late and dropped.
    """

    def __init__(self, order: Sequence[SortField], types: Sequence[LogicalType]) -> None:
        super().__init__()
        self._rowtime = order[0].index
        self._order = _rest_order(order, types)

    def start(self, context: TableContext) -> None:
        self._timers = context.timers
        self._rows = context.map_state("dataState")
        self._last = context.value_state("lastTriggeringTsState")

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        time_ms = row[self._rowtime] // NANOS_PER_MS
        last = self._last.value()
        if last is not None and time_ms <= last:
            return
        if add_row(self._rows, time_ms, row):
            self._timers.register_event_time_timer(time_ms)

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        rows = self._rows.get(timestamp)
        if rows is None:
            return
        for row in rows if self._order is None else sorted(rows, key=self._order):
            emit((INSERT, row))
        self._rows.remove(timestamp)
        self._last.update(timestamp)


class ArrivalSort(TableFunction):
    """Sorts the rows of one millisecond of processing time (Flink: ProcTimeSortOperator)."""

    def __init__(self, order: Sequence[SortField], types: Sequence[LogicalType]) -> None:
        super().__init__()
        self._order = _rest_order(order, types)

    def start(self, context: TableContext) -> None:
        self._timers = context.timers
        self._rows = context.list_state("sortState")

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        self._rows.add(row)
        self._timers.register_processing_time_timer(self._timers.current_processing_time() + 1)

    def on_processing_time(self, timestamp: int, emit: Emit) -> None:
        rows = list(self._rows.get())
        for row in rows if self._order is None else sorted(rows, key=self._order):
            emit((INSERT, row))
        self._rows.clear()


@translator("temporal-sort", 1)
def translate_temporal_sort(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator, under one key for all rows."""
    (given,) = inputs
    order, types = read_order(node.attributes["orderBy"]), given.type.types
    if not order or not order[0].ascending:
        raise UnsupportedPlan("a sort that does not begin with an ascending time")
    match types[order[0].index].attribute:
        case attribute if attribute == ROWTIME:
            return translation.keyed(node, given, (), partial(TimeSort, order, types))
        case attribute if attribute == PROCTIME and len(order) == 1:
            return given
        case attribute if attribute == PROCTIME:
            return translation.keyed(node, given, (), partial(ArrivalSort, order, types))
    raise UnsupportedPlan("a sort that does not begin with a time attribute")
