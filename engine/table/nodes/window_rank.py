"""The first rows of each window, and the one row of each window.

Rows bring their windows with them. A row is late when its window has fired. State is a map from the end of a
window to its rows, of which no more are kept than can be emitted.

Flink: WindowRankOperator, RowTimeWindowDeduplicateOperator.
"""

from __future__ import annotations

from bisect import insort_right
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from onceproof.engine.table.nodes.windows import KeepsWatermark, Windowing, read_windowing, require_rowtime
from onceproof.engine.table.operators import Emit, TableContext
from onceproof.engine.table.ordering import SortField, read_order, sort_key
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import INSERT, NANOS_PER_MS, Row


class AttachedWindows(KeepsWatermark):
    """Keeps rows by window, and emits them when it fires; subclasses say which."""

    def __init__(self, windowing: Windowing) -> None:
        super().__init__()
        self._clock = windowing.clock
        assert windowing.end_column is not None
        self._end_column = windowing.end_column

    def start(self, context: TableContext) -> None:
        self._timers = context.timers
        self._windows = context.map_state("windows")

    def kept(self, held: Any, row: Row) -> Any:
        """Return what is kept of a window with a row more; the same object if nothing changes."""
        raise NotImplementedError

    def fired(self, held: Any, emit: Emit) -> None:
        """Emit what is kept of a window."""
        raise NotImplementedError

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        end = row[self._end_column]
        fires_at = self._clock.fires_at(end // NANOS_PER_MS)
        if fires_at <= self.moment.watermark:
            return
        held = self._windows.get(end)
        if held is None:
            self._timers.register_event_time_timer(fires_at)
        kept = self.kept(held, row)
        if kept is not held:
            self._windows.put(end, kept)

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        fires_at = self._clock.fires_at
        due = [end for end, _ in self._windows.items() if fires_at(end // NANOS_PER_MS) <= timestamp]
        for end in sorted(due):
            self.fired(self._windows.get(end), emit)
            self._windows.remove(end)


class RankSpec(Struct, frozen=True):
    """What a window rank is to do."""

    windowing: Windowing
    order: tuple[SortField, ...]
    first: int
    last: int
    has_number: bool
    """Whether rows get their number."""


class WindowRank(AttachedWindows):
    """Keeps the first rows in order; among equals the earlier comes first."""

    def __init__(self, spec: RankSpec, types: Sequence[LogicalType]) -> None:
        super().__init__(spec.windowing)
        self._spec = spec
        self._order = sort_key(spec.order, types)

    def kept(self, held: Any, row: Row) -> Any:
        rows = list(held or ())
        if len(rows) == self._spec.last and not self._order(row) < self._order(rows[-1]):
            return held
        insort_right(rows, row, key=self._order)
        return rows[: self._spec.last]

    def fired(self, held: Any, emit: Emit) -> None:
        for number, row in enumerate(held[self._spec.first - 1 :], self._spec.first):
            emit((INSERT, (*row, number) if self._spec.has_number else tuple(row)))


class WindowDeduplicate(AttachedWindows):
    """Keeps the first or the last row by its time; among equals the first or the last to come."""

    def __init__(self, windowing: Windowing, time: int, keeps_last: bool) -> None:
        super().__init__(windowing)
        self._time = time
        self._keeps_last = keeps_last

    def kept(self, held: Any, row: Row) -> Any:
        if held is None:
            return row
        before, now = held[self._time], row[self._time]
        replaces = before <= now if self._keeps_last else now < before
        return row if replaces else held

    def fired(self, held: Any, emit: Emit) -> None:
        emit((INSERT, tuple(held)))


@translator("window-rank", 1)
def translate_window_rank(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator, under the key of the partition."""
    (given,) = inputs
    attributes = node.attributes
    windowing = read_windowing(attributes["windowing"], node, translation.settings)
    require_rowtime(windowing, "a window rank")
    if attributes["rankType"] != "ROW_NUMBER":
        raise UnsupportedPlan(f"a window rank by {attributes['rankType']}")
    ranks = attributes["rankRange"]
    if ranks["type"] != "Constant":
        raise UnsupportedPlan(f"a window rank with a range {ranks['type']}")
    spec = RankSpec(
        windowing,
        read_order(attributes["sortSpec"]),
        ranks["start"],
        ranks["end"],
        attributes["outputRowNumber"],
    )
    keys = tuple(attributes["partitionSpec"]["fields"])
    return translation.keyed(node, given, keys, partial(WindowRank, spec, given.type.types))


@translator("window-deduplicate", 1)
def translate_window_deduplicate(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator, under the key of the partition."""
    attributes = node.attributes
    windowing = read_windowing(attributes["windowing"], node, translation.settings)
    require_rowtime(windowing, "a window deduplication")
    make = partial(WindowDeduplicate, windowing, attributes["orderKey"], attributes["keepLastRow"])
    return translation.keyed(node, inputs[0], tuple(attributes["partitionKeys"]), make)
