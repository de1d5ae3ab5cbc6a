"""The windows of GROUP BY TUMBLE(...), HOP(...) and SESSION(...), and of the Table API.

Rules:

- State is a map of windows for each key: the number of rows, the accumulators, the result that was emitted
  last, and when the window fires in processing time.
- A row is late for a window when the watermark has reached its end - 1 ms plus the allowed lateness.
- A window fires at its end. A row that comes for it later fires it at once, or with a late delay after it.
  Early firing is after each row, or every so often after the first one.
- Where a window can fire more than once, a result that has changed is -U and +U, and one without rows is -D.
- HOP whose slide is greater than its size leaves gaps; rows in them vanish.

Flink: WindowOperator, AggregateWindowOperator, EventTimeTriggers, ProcessingTimeTriggers, ElementTriggers,
WindowEmitStrategy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from onceproof.engine.table.aggregates.accumulation import AggregateSet
from onceproof.engine.table.aggregates.registry import AggregateCall, read_calls
from onceproof.engine.table.nodes.windows import (
    Windowing,
    WindowProperties,
    WindowSpec,
    iso_duration_ms,
    zone_of,
)
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.plans import Node, UnsupportedPlan, duration_ms
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.types import ROWTIME, read_type
from onceproof.engine.table.values import ADDS, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Row

COUNT, ACCUMULATORS, EMITTED, FIRES_AT, IS_DUE = range(5)
"""The places in what is kept of a window; the last: whether late rows wait for a delay."""


class EmitStrategy(Struct, frozen=True):
    """When a window fires besides its end; 0: after each row, None: never."""

    early_ms: int | None = None
    late_ms: int | None = None
    lateness_ms: int = 0

    @property
    def updates(self) -> bool:
        """Whether a window can fire more than once."""
        return self.early_ms is not None or self.lateness_ms > 0


class GroupWindowSpec(Struct, frozen=True):
    """What a group window aggregate is to do."""

    windowing: Windowing
    grouping: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    properties: tuple[Any, ...]
    strategy: EmitStrategy = EmitStrategy()


class GroupWindow(TableFunction):
    """Aggregates by key and window of time."""

    def __init__(self, spec: GroupWindowSpec, settings: TableSettings) -> None:
        super().__init__()
        windowing = spec.windowing
        self._window = windowing.window
        self._is_session = windowing.window.kind == "SESSION"
        self._is_rowtime = windowing.is_rowtime
        self._strategy = spec.strategy
        self._time_of = windowing.time_of(self.moment)
        self._aggregates = AggregateSet(spec.calls, settings)
        self._properties = WindowProperties(spec.properties, windowing.clock)
        self._ends_at = windowing.clock.fires_at

    def start(self, context: TableContext) -> None:
        self._context = context
        self._timers = context.timers
        self._windows = context.map_state("windows")

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        time = self._time_of(row)
        windows = [self._merged(time)] if self._is_session else self._window.assign(time)
        present = [each for each in windows if not self._is_late(each)]
        for each in present:
            held = self._windows.get(each) or [0, self._aggregates.create(), None, None, False]
            if ADDS[kind]:
                self._aggregates.add(held[ACCUMULATORS], row)
                held[COUNT] += 1
            else:
                self._aggregates.retract(held[ACCUMULATORS], row)
                held[COUNT] -= 1
            fires = self._on_row(each, held)
            if fires:
                self._fire(each, held, emit)
            self._windows.put(each, held)

    def _is_late(self, window: tuple[int, int]) -> bool:
        return self._is_rowtime and self._cleared_at(window) <= self.moment.watermark

    def _cleared_at(self, window: tuple[int, int]) -> int:
        return self._ends_at(window[1]) + self._strategy.lateness_ms

    def _merged(self, time: int) -> tuple[int, int]:
        """Return the session of a time, merged from those that it touches."""
        start, end = time, time + self._window.size
        touched = []
        for first, last in [tuple(window) for window, _ in self._windows.items()]:
            if first <= end and last >= start:
                touched.append((first, last))
        if not touched:
            return start, end
        touched.sort()
        window = min(start, touched[0][0]), max(end, touched[-1][1])
        if touched != [window]:
            merged = self._windows.get(touched[0])
            for each in touched[1:]:
                other = self._windows.get(each)
                merged[COUNT] += other[COUNT]
                self._aggregates.merge(merged[ACCUMULATORS], other[ACCUMULATORS])
            for each in touched:
                self._windows.remove(each)
            merged[FIRES_AT], merged[IS_DUE] = None, False
            self._windows.put(window, merged)
        return window

    def _on_row(self, window: tuple[int, int], held: list[Any]) -> bool:
        """Register timers for a row; return whether the window fires at once."""
        end, strategy = self._ends_at(window[1]), self._strategy
        if not self._is_rowtime:
            self._timers.register_processing_time_timer(end)
        elif held[IS_DUE] or end <= self.moment.watermark:
            self._timers.register_event_time_timer(self._cleared_at(window))
            return not held[IS_DUE] or self._on_delay(strategy.late_ms or 0, held)
        else:
            self._timers.register_event_time_timer(end)
            self._timers.register_event_time_timer(self._cleared_at(window))
        return strategy.early_ms is not None and self._on_delay(strategy.early_ms, held)

    def _on_delay(self, delay_ms: int, held: list[Any]) -> bool:
        """Return whether a row fires its window; with a delay a timer does."""
        if delay_ms == 0:
            return True
        if held[FIRES_AT] is None:
            held[FIRES_AT] = self._timers.current_processing_time() + delay_ms
            self._timers.register_processing_time_timer(held[FIRES_AT])
        return False

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        for window, held in self._all():
            if self._ends_at(window[1]) == timestamp:
                self._fire(window, held, emit)
                if self._strategy.late_ms:
                    held[IS_DUE], held[FIRES_AT] = True, None
                self._windows.put(window, held)
            if self._cleared_at(window) <= timestamp:
                self._windows.remove(window)

    def on_processing_time(self, timestamp: int, emit: Emit) -> None:
        for window, held in self._all():
            is_over = not self._is_rowtime and self._ends_at(window[1]) <= timestamp
            delay_ms = self._strategy.late_ms if held[IS_DUE] else self._strategy.early_ms
            if held[FIRES_AT] == timestamp and delay_ms:
                held[FIRES_AT] = timestamp + delay_ms
                self._timers.register_processing_time_timer(held[FIRES_AT])
                self._fire(window, held, emit)
                self._windows.put(window, held)
            elif is_over:
                self._fire(window, held, emit)
            if is_over:
                self._windows.remove(window)

    def _all(self) -> list[tuple[tuple[int, int], list[Any]]]:
        windows = [((start, end), list(held)) for (start, end), held in self._windows.items()]
        return sorted(windows, key=lambda each: each[0])

    def _fire(self, window: tuple[int, int], held: list[Any], emit: Emit) -> None:
        keys = self._context.key
        has_rows = held[COUNT] != 0
        if not self._strategy.updates:
            if has_rows:
                emit((INSERT, (*keys, *self._result(window, held))))
            return
        before = None if held[EMITTED] is None else tuple(held[EMITTED])
        after = self._result(window, held) if has_rows else None
        if before is None:
            if after is not None:
                emit((INSERT, (*keys, *after)))
        elif after is None:
            emit((DELETE, (*keys, *before)))
        elif before != after:
            emit((UPDATE_BEFORE, (*keys, *before)))
            emit((UPDATE_AFTER, (*keys, *after)))
        held[EMITTED] = after

    def _result(self, window: tuple[int, int], held: list[Any]) -> Row:
        return (*self._aggregates.results(held[ACCUMULATORS]), *self._properties.of(*window))


class CountWindow(TableFunction):
    """Aggregates so many rows of a key at a time (Flink: CountSlidingWindowAssigner).

    State is the number of the next row, and the number of rows and the accumulators of each open window.
    """

    def __init__(self, spec: GroupWindowSpec, settings: TableSettings) -> None:
        super().__init__()
        self._size, self._slide = spec.windowing.window.size, spec.windowing.window.step
        self._aggregates = AggregateSet(spec.calls, settings)
        if spec.properties:
            raise UnsupportedPlan("properties of a window that counts rows")

    def start(self, context: TableContext) -> None:
        self._context = context
        self._state = context.value_state("countWindows")

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        held: tuple[int, dict[int, Any]] = self._state.value() or (0, {})
        number, windows = held
        if number % self._slide == 0:
            windows[number] = self._aggregates.create()
        for first in list(windows):
            accumulators = windows[first]
            if ADDS[kind]:
                self._aggregates.add(accumulators, row)
            else:
                self._aggregates.retract(accumulators, row)
            if number - first + 1 == self._size:
                emit((INSERT, (*self._context.key, *self._aggregates.results(accumulators))))
                del windows[first]
        self._state.update((number + 1, windows))


def _strategy_of(options: Mapping[str, str], is_rowtime: bool) -> EmitStrategy:
    prefix = "table.exec.emit."

    def delay(phase: str) -> int | None:
        if options.get(f"{prefix}{phase}-fire.enabled", "false").lower() != "true":
            return None
        return duration_ms(options.get(f"{prefix}{phase}-fire.delay", "0 ms"))

    early, late = delay("early"), delay("late")
    if not is_rowtime:
        return EmitStrategy(early)
    default = options.get("table.exec.state.ttl", "0 ms") if late is not None else "0 ms"
    return EmitStrategy(early, late, duration_ms(options.get(f"{prefix}allow-lateness", default)))


@translator("python-group-window-aggregate", 1)
@translator("group-window-aggregate", 1)
def translate_group_window(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator, under the key of the group."""
    (given,) = inputs
    attributes = node.attributes
    if node.option("table.exec.mini-batch.enabled") == "true":
        raise UnsupportedPlan("a group window aggregate with mini-batch")
    spec = group_window_spec(
        node,
        translation.settings,
        tuple(read_calls(attributes["aggCalls"], given.type, attributes["needRetraction"])),
    )
    counts = attributes["window"].get("isTimeWindow") is False
    make = partial(CountWindow if counts else GroupWindow, spec, translation.settings)
    return translation.keyed(node, given, spec.grouping, make)


def group_window_spec(
    node: Node, settings: TableSettings, calls: tuple[AggregateCall, ...]
) -> GroupWindowSpec:
    """Return what a node says of its windows."""
    attributes = node.attributes
    window, grouping = attributes["window"], tuple(attributes["grouping"])
    kinds = {"TUMBLING": ("TUMBLE", "size", "size"), "SLIDING": ("HOP", "size", "slide")}
    kind, size, step = {**kinds, "SESSION": ("SESSION", "gap", "gap")}[window["kind"]]
    field = read_type(window["timeField"]["fieldType"])
    windowing = Windowing(
        WindowSpec(kind, _size(window[size]), _size(window[step])),
        field.attribute == ROWTIME,
        zone_of(field, node, settings),
        window["timeField"]["fieldIndex"],
        None,
        None,
        None,
    )
    properties = tuple(attributes.get("namedWindowProperties", ()))
    strategy = _strategy_of(settings.options, windowing.is_rowtime)
    return GroupWindowSpec(windowing, grouping, calls, properties, strategy)


def _size(data: Any) -> int:
    return data if isinstance(data, int) else iso_duration_ms(data)
