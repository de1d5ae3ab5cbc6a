"""Interval joins: rows of two streams whose times are close enough.

Source: Flink 2.3 TimeIntervalJoin, RowTimeIntervalJoin, ProcTimeIntervalJoin. Rules:

- A left row at t meets right rows from t - upper to t - lower, where the bounds are those of
  ``left time - right time``. A match goes out at once.
- A row is kept while rows of the other side may still come for it: until the time of the operator (its
  watermark, or processing time) has passed the end of its interval. Then, if it has matched nothing and its
  side is outer, it goes out padded.
- Rows are cleared when a timer of their key fires, or while the other side looks for matches. So a late row
  may find rows that should be gone. ``expired`` is how far the subtask has cleared; a row whose interval ends
  before finds nothing, without a look. Like Flink's it is a memory of the attempt: after a failure late rows
  look again.
- Times before the epoch are poorly kept, as in Flink: the time of the operator is 0 at least, and clearing
  drops what is left if its earliest time is not above 0.
- Watermarks are held back by the longer bound, because padded rows come with times that far behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.elements import MAX_WATERMARK
from onceproof.engine.table.nodes.join_spec import JoinSpec, matcher, null_test, read_join
from onceproof.engine.table.operators import Emit, TableContext, TableFunction, add_row
from onceproof.engine.table.plans import Node, UnsupportedPlan, duration_ms
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.values import INSERT, NANOS_PER_MS, Row

MIN_CLEANUP: Final = "table.exec.interval-join.min-cleanup-interval"


class IntervalSpec(Struct, frozen=True):
    """An interval join."""

    join: JoinSpec
    is_event_time: bool
    lower_ms: int
    upper_ms: int
    time_columns: tuple[int, int]
    widths: tuple[int, int]
    min_cleanup_ms: int


class Side:
    """One side: its rows by time, each with whether it has matched, and when they are cleared next."""

    def __init__(self, spec: IntervalSpec, is_left: bool) -> None:
        join = spec.join
        self.is_left = is_left
        self.is_outer = join.left_is_outer if is_left else join.right_is_outer
        self.is_null = null_test(join.left_not_null if is_left else join.right_not_null)
        self.size = -spec.lower_ms if is_left else spec.upper_ms
        """Rows of the other side may be so much later."""
        self.time_column = spec.time_columns[0 if is_left else 1]
        self._padding: Row = (None,) * spec.widths[1 if is_left else 0]
        self.expired = 0

    def start(self, context: TableContext) -> None:
        name = "Left" if self.is_left else "Right"
        self.rows = context.map_state(f"IntervalJoin{name}Cache")
        self.timer = context.value_state(f"IntervalJoin{name}Timer")

    def padded(self, row: Row) -> Row:
        """Return a row of this side without a match."""
        return row + self._padding if self.is_left else self._padding + row

    def expiration(self, now: int) -> int:
        """Return up to which time rows of this side are gone at a time of the operator."""
        return now - self.size - 1 if now < MAX_WATERMARK else MAX_WATERMARK


def in_order_of_map(found: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Sort entries by time as Java's HashMap does, in which Flink's heap keeps them.

    So an aggregate of the matches passes through the same values as in Flink.
    """
    if len(found) < 2:
        return found
    capacity = 16
    while len(found) > capacity * 3 // 4:
        capacity *= 2

    def bucket(entry: tuple[int, Any]) -> int:
        low = (entry[0] ^ (entry[0] >> 32)) & 0xFFFFFFFF
        return (low ^ (low >> 16)) & (capacity - 1)

    return sorted(found, key=bucket)


class IntervalJoin(TableFunction):
    """INNER, LEFT, RIGHT and FULL joins with bounds."""

    def __init__(self, spec: IntervalSpec, settings: TableSettings) -> None:
        super().__init__()
        self._spec = spec
        self._matches = matcher(spec.join.condition, settings.scope(self.moment))
        self._left, self._right = Side(spec, True), Side(spec, False)
        if spec.is_event_time:
            self.watermark_delay_ms = max(self._left.size, self._right.size)

    def start(self, context: TableContext) -> None:
        self._context = context
        self._left.start(context)
        self._right.start(context)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        self._meet(self._left, self._right, row, emit)

    def process_second(self, kind: int, row: Row, emit: Emit) -> None:
        self._meet(self._right, self._left, row, emit)

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        self._on_timer(timestamp, emit)

    def on_processing_time(self, timestamp: int, emit: Emit) -> None:
        self._on_timer(timestamp, emit)

    def _now(self) -> int:
        if self._spec.is_event_time:
            return max(self.moment.watermark, 0)
        return self._context.timers.current_processing_time()

    def _meet(self, own: Side, other: Side, row: Row, emit: Emit) -> None:
        """Join a row with the rows of the other side, clear those, and keep the row."""
        now = self._now()
        time = row[own.time_column] // NANOS_PER_MS if self._spec.is_event_time else now
        first, last = time - other.size, time + own.size
        has_matched = False
        if other.expired < last:
            other.expired = other.expiration(now)
            if not own.is_null(row):
                found = [each for each in other.rows.items() if first <= each[0] <= last]
                for at, kept in in_order_of_map(found):
                    has_matched = self._pair(own, other, row, at, kept, emit) or has_matched
            self._clear(other, emit)
        if now < last:
            add_row(own.rows, time, (row, has_matched))
            if own.timer.value() is None:
                self._clear_later(own, time)
        elif own.is_outer and not has_matched:
            emit((INSERT, own.padded(row)))

    def _pair(
        self, own: Side, other: Side, row: Row, at: int, kept: Sequence[tuple[Row, bool]], emit: Emit
    ) -> bool:
        """Emit the matches of a row among those kept for a time, and return whether there is one."""
        matches, met = self._matches, []
        for each, _ in kept:
            left, right = (row, each) if own.is_left else (each, row)
            matched = matches is None or matches(left, right)
            if matched:
                emit((INSERT, left + right))
            met.append(matched)
        if other.is_outer and any(met):
            other.rows.put(at, [(each, was or now) for (each, was), now in zip(kept, met, strict=True)])
        return any(met)

    def _pad(self, side: Side, kept: Sequence[tuple[Row, bool]], emit: Emit) -> None:
        if side.is_outer:
            for row, has_matched in kept:
                if not has_matched:
                    emit((INSERT, side.padded(row)))

    def _clear_later(self, side: Side, time: int) -> None:
        """Register when the rows of a side at a time are to be cleared."""
        due = time + side.size + self._spec.min_cleanup_ms + 1
        self._context.wake_at(due, self._spec.is_event_time)
        side.timer.update(due)

    def _clear(self, side: Side, emit: Emit) -> list[int]:
        """Clear what has expired of a side, and return the times that are left."""
        left = []
        expired = []
        for each in side.rows.items():
            if each[0] <= side.expired:
                expired.append(each)
            else:
                left.append(each[0])
        for at, kept in in_order_of_map(expired):
            self._pad(side, kept, emit)
            side.rows.remove(at)
        return left

    def _on_timer(self, timestamp: int, emit: Emit) -> None:
        """Clear the sides whose timer this is."""
        now = self._now()
        for side in (self._right, self._left):
            if side.timer.value() != timestamp:
                continue
            side.expired = side.expiration(now)
            earliest = min(self._clear(side, emit), default=0)
            if earliest > 0:
                self._clear_later(side, earliest)
            else:
                side.timer.clear()
                side.rows.clear()


class EmptyIntervalJoin(TableFunction):
    """A join whose lower bound is above the upper one: nothing matches."""

    def __init__(self, spec: IntervalSpec) -> None:
        super().__init__()
        self._left, self._right = Side(spec, True), Side(spec, False)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        if self._left.is_outer:
            emit((kind, self._left.padded(row)))

    def process_second(self, kind: int, row: Row, emit: Emit) -> None:
        if self._right.is_outer:
            emit((kind, self._right.padded(row)))


@translator("interval-join", 1)
def translate_interval_join(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator, under the keys of the join."""
    left, right = inputs
    data: dict[str, Any] = node.attributes["intervalJoinSpec"]
    join, bounds = read_join(data["joinSpec"]), data["windowBounds"]
    if join.kind not in ("INNER", "LEFT", "RIGHT", "FULL"):
        raise UnsupportedPlan(f"an interval join of type {join.kind}")
    spec = IntervalSpec(
        join,
        bounds["isEventTime"],
        bounds["leftLowerBound"],
        bounds["leftUpperBound"],
        (bounds["leftTimeIndex"], bounds["rightTimeIndex"]),
        (len(left.type.fields), len(right.type.fields)),
        max(0, duration_ms(translation.settings.options.get(MIN_CLEANUP, "0 ms"))),
    )
    make: Any = partial(IntervalJoin, spec, translation.settings)
    if spec.upper_ms < spec.lower_ms:
        make = partial(EmptyIntervalJoin, spec)
    return translation.keyed_two(node, (left, right), (join.left_keys, join.right_keys), make)
