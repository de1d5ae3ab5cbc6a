"""Aggregates of windows, in one phase or in two.

Rules:

- State is a map of slices for each key: the number of rows and the accumulators of each. A window is a merge
  of slices; TUMBLE has one, and so have windows that rows bring with them.
- HOP merges the slices of a window, the last first, for its result only, and drops the first after it.
  CUMULATE merges into its first slice and drops it after the last window.
- A window without rows emits nothing. After each window that had rows HOP looks at the next one, CUMULATE at
  every step up to the last.
- The first phase holds accumulators in memory: until the watermark passes the end of one of its slices, a
  barrier comes, or it has too many. It drops nothing; lateness is judged by the second phase. A first phase
  and what follows it see the same watermarks, so both judge alike.

Flink: WindowAggOperator, LocalSlicingWindowAggOperator, SliceSharedWindowAggProcessor,
SliceUnsharedWindowAggProcessor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.table.aggregates.accumulation import AggregateSet
from onceproof.engine.table.aggregates.registry import AggregateCall, read_calls
from onceproof.engine.table.nodes.window_sessions import SessionAggregate, SessionSpec
from onceproof.engine.table.nodes.windows import (
    KeepsWatermark,
    TimeOf,
    Windowing,
    WindowProperties,
    read_windowing,
)
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.ordering import fields_of, key_codec
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.types import LogicalType, read_type
from onceproof.engine.table.values import ADDS, INSERT, NANOS_PER_MS, Row

MOST_LOCAL_ENTRIES: Final = 10_000
"""So many accumulators are held by the first phase."""


class WindowAggregateSpec(Struct, frozen=True):
    """What a window aggregate is to do."""

    windowing: Windowing
    grouping: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    properties: tuple[Any, ...] = ()


def slice_end_of(windowing: Windowing, time_of: TimeOf | None) -> TimeOf:
    """Return the function from a row to the end of its slice."""
    if windowing.slice_column is not None:
        return lambda row: int(row[-1])
    if (column := windowing.end_column) is not None:
        return lambda row: int(row[column]) // NANOS_PER_MS
    assert time_of is not None
    time, end = time_of, windowing.window.slice_end
    return lambda row: end(time(row))


class WindowAggregate(KeepsWatermark):
    """The only phase, or with a slice column the second one."""

    def __init__(self, spec: WindowAggregateSpec, settings: TableSettings) -> None:
        super().__init__()
        windowing = spec.windowing
        self._window = windowing.window
        self._clock = windowing.clock
        self._is_rowtime = windowing.is_rowtime
        self._is_second = windowing.slice_column is not None
        time_of = windowing.time_of(self.moment) if windowing.time_column is not None else None
        self._slice_end = slice_end_of(windowing, time_of)
        self._shares = self._window.shares_slices and windowing.end_column is None
        self._interval = self._window.slice_size
        self._aggregates = AggregateSet(spec.calls, settings)
        self._properties = WindowProperties(spec.properties, self._clock)

    def start(self, context: TableContext) -> None:
        self._context = context
        self._slices = context.map_state("windowAggregates")

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        end = target = self._slice_end(row)
        fires_at = self._clock.fires_at
        first_window = end
        if self._is_rowtime and fires_at(end) <= (watermark := self.moment.watermark):
            if not self._shares or fires_at(self._window.last_end(end)) <= watermark:
                return
            while fires_at(first_window) <= watermark:
                first_window += self._interval
            if self._window.kind == "CUMULATE":
                target = self._window.start_of(end) + self._window.step
        held = self._slices.get(target)
        if held is None:
            held = (0, self._aggregates.create())
        if held[0] == 0 or first_window != end:
            self._register(first_window)
        self._slices.put(target, self._with(held, kind, row))

    def _with(self, held: tuple[int, Any], kind: int, row: Row) -> tuple[int, Any]:
        count, accumulators = held
        if self._is_second:
            more, others = row[-2]
            self._aggregates.merge(accumulators, others)
            return count + more, accumulators
        if ADDS[kind]:
            self._aggregates.add(accumulators, row)
            return count + 1, accumulators
        self._aggregates.retract(accumulators, row)
        return count - 1, accumulators

    def _register(self, end: int) -> None:
        self._context.wake_at(self._clock.fires_at(end), self._is_rowtime)

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        for end in self._clock.ends_at(timestamp, self._interval, self._window.offset):
            self._fire(end, emit)

    def on_processing_time(self, timestamp: int, emit: Emit) -> None:
        self.on_event_time(timestamp, emit)

    def _fire(self, end: int, emit: Emit) -> None:
        window = self._window
        start = window.start_of(end)
        if not self._shares:
            held = self._slices.get(end)
            self._slices.remove(end)
        elif window.kind == "HOP":
            held = self._merged(range(end, start, -self._interval))
            self._slices.remove(start + self._interval)
            if held is not None and held[0]:
                self._register(end + self._interval)
        else:
            held = self._cumulated(start + window.step, end)
            if end + window.step <= start + window.size:
                self._register(end + window.step)
            else:
                self._slices.remove(start + window.step)
        if held is not None and held[0] != 0:
            results = self._aggregates.results(held[1])
            emit((INSERT, (*self._context.key, *results, *self._properties.of(start, end))))

    def _merged(self, ends: Sequence[int]) -> tuple[int, Any] | None:
        """Return the merge of slices; None: there is none."""
        slices = [held for end in ends if (held := self._slices.get(end)) is not None]
        if len(slices) < 2:
            return slices[0] if slices else None
        accumulators = self._aggregates.create()
        for _, others in slices:
            self._aggregates.merge(accumulators, others)
        return sum([count for count, _ in slices]), accumulators

    def _cumulated(self, first: int, end: int) -> tuple[int, Any] | None:
        if end == first:
            held: tuple[int, Any] | None = self._slices.get(first)
            return held
        merged = self._merged((first, end))
        self._slices.remove(end)
        if merged is not None:
            self._slices.put(first, merged)
        return merged


class LocalWindowAggregate(TableFunction):
    """The first phase: emits the key, the rows' number with their accumulators, and the end of the slice."""

    def __init__(
        self, spec: WindowAggregateSpec, types: Sequence[LogicalType], settings: TableSettings
    ) -> None:
        super().__init__()
        windowing = spec.windowing
        time_of = windowing.time_of(self.moment) if windowing.time_column is not None else None
        self._slice_end = slice_end_of(windowing, time_of)
        self._fires_at = windowing.clock.fires_at
        self._aggregates = AggregateSet(spec.calls, settings)
        self._keys_of = fields_of(spec.grouping)
        self._encodes = [key_codec(types[place])[0] for place in spec.grouping]
        self._is_plain = all(encode(1.0) == 1.0 for encode in self._encodes)
        self._held: dict[Any, list[Any]] = {}
        self._first_end = 0

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        end, keys = self._slice_end(row), self._keys_of(row)
        encoded = keys
        if not self._is_plain:
            encoded = tuple([encode(key) for encode, key in zip(self._encodes, keys, strict=True)])
        entry = self._held.get((encoded, end))
        if entry is None:
            self._first_end = min(self._first_end, end) if self._held else end
            entry = self._held[encoded, end] = [keys, 0, self._aggregates.create(), end]
        if ADDS[kind]:
            self._aggregates.add(entry[2], row)
            entry[1] += 1
        else:
            self._aggregates.retract(entry[2], row)
            entry[1] -= 1
        if len(self._held) > MOST_LOCAL_ENTRIES:
            self._flush(emit)

    def on_watermark(self, watermark: int, emit: Emit) -> None:
        if self._held and self._fires_at(self._first_end) <= watermark:
            self._flush(emit)

    def before_barrier(self, emit: Emit) -> None:
        self._flush(emit)

    def finish(self, emit: Emit) -> None:
        self._flush(emit)

    def _flush(self, emit: Emit) -> None:
        for keys, count, accumulators, end in self._held.values():
            emit((INSERT, (*keys, (count, accumulators), end)))
        self._held.clear()


def _spec_of(node: Node, given: LogicalType, translation: Translation) -> WindowAggregateSpec:
    attributes = node.attributes
    windowing = read_windowing(attributes["windowing"], node, translation.settings)
    calls = read_calls(attributes["aggCalls"], given, attributes.get("needRetraction", False))
    properties = tuple(attributes.get("namedWindowProperties", ()))
    return WindowAggregateSpec(windowing, tuple(attributes["grouping"]), tuple(calls), properties)


@translator("local-window-aggregate", 1)
def translate_local(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the first phase."""
    (given,) = inputs
    spec = _spec_of(node, given.type, translation)
    make = partial(LocalWindowAggregate, spec, given.type.types, translation.settings)
    return translation.plain(node, given, make)


@translator("global-window-aggregate", 1)
def translate_global(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the second phase; its calls name the columns of the input of the first."""
    spec = _spec_of(node, read_type(node.attributes["localAggInputRowType"]), translation)
    if spec.windowing.slice_column is None:
        spec = replace(spec, windowing=replace(spec.windowing, slice_column=spec.windowing.end_column))
    make = partial(WindowAggregate, spec, translation.settings)
    return translation.keyed(node, inputs[0], spec.grouping, make)


@translator("window-aggregate", 1)
def translate_single(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the only phase."""
    (given,) = inputs
    spec = _spec_of(node, given.type, translation)
    if spec.windowing.window.kind != "SESSION":
        return translation.keyed(
            node, given, spec.grouping, partial(WindowAggregate, spec, translation.settings)
        )
    partition = spec.windowing.window.partition
    if spec.windowing.end_column is None and {*partition} != {*spec.grouping}:
        raise UnsupportedPlan("a session window whose partition is not the group")
    session = SessionSpec(spec.windowing, spec.grouping, spec.calls, spec.properties)
    make = partial(SessionAggregate, session, translation.settings)
    return translation.keyed(node, given, spec.grouping, make)
