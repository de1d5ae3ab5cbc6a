"""Aggregates OVER a frame that ends with the current row, ordered by time.

| order by | frame | a row is emitted |
| --- | --- | --- |
| row time | ROWS | when the watermark reaches its time; each has its own result |
| row time | RANGE | likewise; rows of one time share the result after all of them |
| processing time | ROWS, or unbounded | at once |
| processing time | RANGE, bounded | one millisecond later, with all of its millisecond |

Rules:

- Rows are sorted by time, then by arrival. An unbounded frame drops a row whose time is not after the
  watermark. A bounded one drops it only if its time is not after that of the last timer of its key, and not
  after 0: where nothing of the key has been emitted, a late row goes out with the next watermark.
- Bounded frames take rows back when they leave the frame, so sums of floats show it, as in Flink.
- The arguments of calls name columns of the row, then the constants of the node.

Flink: RowTimeRowsUnboundedPrecedingFunction and its seven sisters; ``over_updating.py`` has the two for
columns that are no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.table.aggregates.accumulation import AggregateSet
from onceproof.engine.table.aggregates.registry import AggregateCall, read_calls
from onceproof.engine.table.expressions.literals import literal_value
from onceproof.engine.table.expressions.rex import Literal, read_expression
from onceproof.engine.table.nodes.over_updating import UpdatingOver, UpdatingOverSpec
from onceproof.engine.table.operators import Emit, TableContext, TableFunction, add_row
from onceproof.engine.table.ordering import read_order
from onceproof.engine.table.plans import Node, UnsupportedPlan, duration_ms
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.types import PROCTIME, ROWTIME, Field, LogicalType
from onceproof.engine.table.values import INSERT, NANOS_PER_MS, Row

MS: Final = 1
"""Rows of processing time wait so long for others of the same millisecond."""

_PATIENCE: Final = 1.5
"""A bounded RANGE of row time forgets a key after so many times the length of its frame."""


class OverSpec(Struct, frozen=True):
    """What an OVER aggregate is to do."""

    calls: tuple[AggregateCall, ...]
    constants: Row
    time_column: int
    is_rows: bool
    preceding: int | None
    """Rows or milliseconds before the current one; None: unbounded."""
    ttl_ms: int = 0


class Over(TableFunction):
    """What all OVER functions have: accumulators, the rows of their frame, and what is emitted."""

    def __init__(self, spec: OverSpec, settings: TableSettings) -> None:
        super().__init__()
        self._spec = spec
        self._constants = spec.constants
        self._aggregates = AggregateSet(spec.calls, settings)

    def start(self, context: TableContext) -> None:
        self._timers = context.timers
        ttl_ms = self._spec.ttl_ms
        self._accumulators = context.value_state("accState", ttl_ms)
        self._rows = context.map_state("inputState", ttl_ms)
        self._frame = context.list_state("frameState", ttl_ms)
        self._fired_at = context.value_state("lastTriggeringTsState", ttl_ms)
        self._forgets_at = context.value_state("cleanupTsState", ttl_ms)

    def _held(self) -> Any:
        held = self._accumulators.value()
        return self._aggregates.create() if held is None else held

    def _emit(self, row: Row, held: Any, emit: Emit) -> None:
        emit((INSERT, (*row, *self._aggregates.results(held))))

    def _add_each(self, held: Any, rows: Sequence[Row], emit: Emit) -> None:
        """Emit rows, each with the result up to it."""
        for row in rows:
            self._aggregates.add(held, tuple(row) + self._constants)
            self._emit(row, held, emit)

    def _add_all(self, held: Any, rows: Sequence[Row], emit: Emit) -> None:
        """Emit rows with the result after all of them."""
        for row in rows:
            self._aggregates.add(held, tuple(row) + self._constants)
        results = self._aggregates.results(held)
        for row in rows:
            emit((INSERT, (*row, *results)))

    def _slide(self, held: Any, frame: list[Row], rows: Sequence[Row], emit: Emit) -> list[Row]:
        """Emit rows, each with the result of the frame of so many rows before it; return the frame."""
        assert self._spec.preceding is not None
        for row in rows:
            self._aggregates.add(held, tuple(row) + self._constants)
            frame.append(row)
            if len(frame) > self._spec.preceding + 1:
                self._aggregates.retract(held, tuple(frame.pop(0)) + self._constants)
            self._emit(row, held, emit)
        return frame

    def _leave(self, held: Any, oldest: int) -> None:
        """Take back the rows before a time, and forget them."""
        for time in sorted([each for each, _ in self._rows.items() if each < oldest]):
            for row in self._rows.get(time):
                self._aggregates.retract(held, tuple(row) + self._constants)
            self._rows.remove(time)


class RowTimeOver(Over):
    """Waits for the watermark; subclasses say what becomes of the rows of a time.

    Rows are in a map by their milliseconds. A bounded RANGE keeps those that it has emitted there too, as
    long as they may be in a frame.
    """

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        time = row[self._spec.time_column] // NANOS_PER_MS
        if time <= self._last_time():
            return
        if add_row(self._rows, time, row):
            self._timers.register_event_time_timer(time)
        self._accepted(time)

    def _last_time(self) -> int:
        """Return the time up to which rows are late."""
        return self.moment.watermark

    def _accepted(self, time: int) -> None:
        """Do what a row of this time asks for; unless a subclass says otherwise, nothing."""

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        rows = self._rows.get(timestamp)
        held = self._held()
        if rows is not None:
            self._fire(timestamp, held, rows, emit)
            self._accumulators.update(held)

    def _fire(self, time: int, held: Any, rows: list[Row], emit: Emit) -> None:
        raise NotImplementedError


class RowTimeUnboundedRows(RowTimeOver):
    """ROWS UNBOUNDED PRECEDING."""

    def _fire(self, time: int, held: Any, rows: list[Row], emit: Emit) -> None:
        self._add_each(held, rows, emit)
        self._rows.remove(time)


class RowTimeUnboundedRange(RowTimeOver):
    """RANGE UNBOUNDED PRECEDING."""

    def _fire(self, time: int, held: Any, rows: list[Row], emit: Emit) -> None:
        self._add_all(held, rows, emit)
        self._rows.remove(time)


class RowTimeBounded(RowTimeOver):
    """Remembers the last timer of each key, by which it tells what is late."""

    def _last_time(self) -> int:
        return self._fired_at.value() or 0

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        super().on_event_time(timestamp, emit)
        self._fired_at.update(timestamp)


class RowTimeBoundedRows(RowTimeBounded):
    """ROWS n PRECEDING."""

    def _fire(self, time: int, held: Any, rows: list[Row], emit: Emit) -> None:
        self._frame.update(self._slide(held, list(self._frame.get() or ()), rows, emit))
        self._rows.remove(time)


class RowTimeBoundedRange(RowTimeBounded):
    """RANGE of an interval; a last timer forgets the key when no row can need it any more.

    That timer is set once for a time: only a row that it would come too early for sets another one. The first
    one still counts as a timer of the key.
    """

    def _accepted(self, time: int) -> None:
        preceding = self._spec.preceding
        assert preceding is not None
        forgets_at = self._forgets_at.value()
        if forgets_at is None or forgets_at < time + preceding + 1:
            forgets_at = time + int(preceding * _PATIENCE) + 1
            self._timers.register_event_time_timer(forgets_at)
            self._forgets_at.update(forgets_at)

    def _fire(self, time: int, held: Any, rows: list[Row], emit: Emit) -> None:
        assert self._spec.preceding is not None
        self._leave(held, time - self._spec.preceding)
        self._add_all(held, rows, emit)

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        forgets_at = self._forgets_at.value()
        if forgets_at is None or forgets_at > timestamp:
            super().on_event_time(timestamp, emit)
        else:
            for state in (self._rows, self._accumulators, self._fired_at, self._forgets_at):
                state.clear()


class ProcessingUnbounded(Over):
    """Processing time, UNBOUNDED PRECEDING."""

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        held = self._held()
        self._add_each(held, (row,), emit)
        self._accumulators.update(held)


class ProcessingBoundedRows(Over):
    """Processing time, ROWS n PRECEDING."""

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        held = self._held()
        self._frame.update(self._slide(held, list(self._frame.get() or ()), (row,), emit))
        self._accumulators.update(held)


class ProcessingBoundedRange(Over):
    """Processing time, RANGE of an interval."""

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        now = self._timers.current_processing_time()
        if add_row(self._rows, now, row):
            self._timers.register_processing_time_timer(now + MS)

    def on_processing_time(self, timestamp: int, emit: Emit) -> None:
        assert self._spec.preceding is not None
        time = timestamp - MS
        held = self._held()
        self._leave(held, time - self._spec.preceding)
        rows = self._rows.get(time)
        fired_at = self._fired_at.value()
        if rows is not None and (fired_at is None or fired_at < time):
            self._add_all(held, rows, emit)
            self._fired_at.update(time)
            self._timers.register_processing_time_timer(time + self._spec.preceding + 1 + MS)
        if self._rows.is_empty():
            self._accumulators.clear()
            self._fired_at.clear()
        else:
            self._accumulators.update(held)


FUNCTIONS: Final[dict[tuple[str, bool, bool], type[Over]]] = {
    (ROWTIME, True, False): RowTimeUnboundedRows,
    (ROWTIME, False, False): RowTimeUnboundedRange,
    (ROWTIME, True, True): RowTimeBoundedRows,
    (ROWTIME, False, True): RowTimeBoundedRange,
    (PROCTIME, True, False): ProcessingUnbounded,
    (PROCTIME, False, False): ProcessingUnbounded,
    (PROCTIME, True, True): ProcessingBoundedRows,
    (PROCTIME, False, True): ProcessingBoundedRange,
}
"""By the kind of time, whether the frame is of ROWS, and whether it is bounded."""


@translator("over-aggregate", 1)
def translate_over(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator, under the key of the partition."""
    (given,) = inputs
    data = node.attributes["overSpec"]
    if len(data["groups"]) != 1:
        raise UnsupportedPlan("OVER with several windows")
    (group,) = data["groups"]
    if group["upperBound"]["kind"] != "CURRENT_ROW":
        raise UnsupportedPlan("OVER with a frame that does not end with the current row")
    order = read_order(group["orderBy"])
    types = given.type.types
    constants, row = _constants(data["constants"], given.type)
    preceding = _preceding(group["lowerBound"], constants, len(types))
    keys = tuple(data["partition"]["fields"])
    ttl_ms = duration_ms(translation.settings.options.get("table.exec.state.ttl", "0"))
    attribute = types[order[0].index].attribute if order else ""
    settings = translation.settings
    if not attribute:
        if preceding is not None:
            raise UnsupportedPlan("OVER of a bounded frame that is not ordered by time")
        calls = tuple(read_calls(group["aggCalls"], row))
        updating = UpdatingOverSpec(calls, constants, order, tuple(types), group["isRows"], ttl_ms)
        return translation.keyed(node, given, keys, partial(UpdatingOver, updating, settings))
    make = FUNCTIONS[attribute, group["isRows"], preceding is not None]
    calls = tuple(read_calls(group["aggCalls"], row, preceding is not None))
    spec = OverSpec(calls, constants, order[0].index, group["isRows"], preceding, ttl_ms)
    return translation.keyed(node, given, keys, partial(make, spec, settings))


def _constants(data: Sequence[Any], given: LogicalType) -> tuple[Row, LogicalType]:
    """Return the constants of the node, and the type of rows with them."""
    literals = [read_expression(each) for each in data]
    values = []
    for each in literals:
        if not isinstance(each, Literal):
            raise UnsupportedPlan("OVER with a constant that is no literal")
        values.append(literal_value(each))
    fields = [Field(f"constant{place}", each.type) for place, each in enumerate(literals)]
    return tuple(values), LogicalType("ROW", fields=(*given.fields, *fields))


def _preceding(bound: Any, constants: Row, width: int) -> int | None:
    match bound["kind"]:
        case "UNBOUNDED_PRECEDING":
            return None
        case "CURRENT_ROW":
            return 0
        case "BOUNDED_WINDOW" if bound["isPreceding"]:
            value = constants[bound["offset"]["inputIndex"] - width]
            return int(value)
    raise UnsupportedPlan(f"OVER with a frame that starts at {bound['kind']}")
