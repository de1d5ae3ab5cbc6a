"""Sessions: windows that grow and merge, with the rows or the accumulators of each.

Rules:

- The sessions of a key are one list in a value state, ordered by time; they never touch.
- A row opens [time, time + gap). Sessions that it overlaps or touches become one with it; it is looked for
  lateness only then, so a row that is late by itself may join a session that is open.
- Timers of sessions that have grown find nothing.

Flink: UnsliceAssigners.SessionUnsliceAssigner, UnalignedWindowTableFunctionOperator, MergingWindowSet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from onceproof.engine.table.aggregates.accumulation import AggregateSet
from onceproof.engine.table.aggregates.registry import AggregateCall
from onceproof.engine.table.nodes.windows import KeepsWatermark, Windowing, WindowProperties
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.values import ADDS, INSERT, NANOS_PER_MS, Row

Content = TypeVar("Content")


class SessionSpec(Struct, frozen=True):
    """What an aggregate of sessions is to do."""

    windowing: Windowing
    grouping: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    properties: tuple[Any, ...]


class Sessions(TableFunction, Generic[Content]):
    """Finds the session of each row; what a session holds is up to the subclass."""

    def __init__(self, windowing: Windowing) -> None:
        super().__init__()
        self._windowing = windowing
        self._gap = windowing.window.size
        self._clock = windowing.clock
        self._bounds_of = self._attached if windowing.end_column is not None else self._opened
        self._time_of = windowing.time_of(self.moment) if windowing.end_column is None else None

    def start(self, context: TableContext) -> None:
        self._context = context
        self._state = context.value_state("sessions")

    def created(self) -> Content:
        """Return the content of no rows."""
        raise NotImplementedError

    def added(self, content: Content, kind: int, row: Row) -> Content:
        """Return a content with a change more."""
        raise NotImplementedError

    def merged(self, first: Content, second: Content) -> Content:
        """Return the content of two sessions."""
        raise NotImplementedError

    def fired(self, start: int, end: int, content: Content, emit: Emit) -> None:
        """Emit a session that is over."""
        raise NotImplementedError

    def _opened(self, row: Row) -> tuple[int, int]:
        assert self._time_of is not None
        time = self._time_of(row)
        return time, time + self._gap

    def _attached(self, row: Row) -> tuple[int, int]:
        start, end = self._windowing.start_column, self._windowing.end_column
        assert start is not None
        assert end is not None
        return row[start] // NANOS_PER_MS, row[end] // NANOS_PER_MS

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        start, end = self._bounds_of(row)
        content: Content | None = None
        apart = []
        for each in self._state.value() or ():
            first, last, held = each
            if first > end or last < start or (self._time_of is None and (first, last) != (start, end)):
                apart.append(each)
            else:
                start, end = min(start, first), max(end, last)
                content = held if content is None else self.merged(content, held)
        fires_at = self._clock.fires_at(end)
        is_rowtime = self._windowing.is_rowtime
        if is_rowtime and fires_at <= self.moment.watermark:
            return
        self._context.wake_at(fires_at, is_rowtime)
        content = self.added(self.created() if content is None else content, kind, row)
        self._state.update(sorted([*apart, (start, end, content)], key=_start_of))

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        self._fire(timestamp, emit)

    def on_processing_time(self, timestamp: int, emit: Emit) -> None:
        self._fire(timestamp, emit)

    def _fire(self, timestamp: int, emit: Emit) -> None:
        sessions = self._state.value() or ()
        open_sessions = []
        for each in sessions:
            start, end, content = each
            if self._clock.fires_at(end) <= timestamp:
                self.fired(start, end, content, emit)
            else:
                open_sessions.append(each)
        if open_sessions:
            self._state.update(open_sessions)
        elif sessions:
            self._state.clear()


def _start_of(session: Sequence[Any]) -> Any:
    return session[0], session[1]


class SessionRows(Sessions[list[Any]]):
    """Holds rows until their session is over, and emits them with it."""

    def created(self) -> list[Any]:
        return []

    def added(self, content: list[Any], kind: int, row: Row) -> list[Any]:
        content.append((kind, row))
        return content

    def merged(self, first: list[Any], second: list[Any]) -> list[Any]:
        return [*first, *second]

    def fired(self, start: int, end: int, content: list[Any], emit: Emit) -> None:
        time = self._clock.to_moment(end - 1)
        bounds = (start * NANOS_PER_MS, end * NANOS_PER_MS, time * NANOS_PER_MS)
        for kind, row in content:
            emit((kind, tuple(row) + bounds))


class SessionAggregate(KeepsWatermark, Sessions[list[Any]]):
    """Aggregates the rows of a session (Flink: UnsliceWindowAggProcessor).

    The content is the number of rows and the accumulators.
    """

    def __init__(self, spec: SessionSpec, settings: TableSettings) -> None:
        super().__init__(spec.windowing)
        self._aggregates = AggregateSet(spec.calls, settings)
        self._properties = WindowProperties(spec.properties, self._clock)

    def created(self) -> list[Any]:
        return [0, self._aggregates.create()]

    def added(self, content: list[Any], kind: int, row: Row) -> list[Any]:
        count, accumulators = content
        if ADDS[kind]:
            self._aggregates.add(accumulators, row)
            return [count + 1, accumulators]
        self._aggregates.retract(accumulators, row)
        return [count - 1, accumulators]

    def merged(self, first: list[Any], second: list[Any]) -> list[Any]:
        count, accumulators = first
        self._aggregates.merge(accumulators, second[1])
        return [count + second[0], accumulators]

    def fired(self, start: int, end: int, content: list[Any], emit: Emit) -> None:
        count, accumulators = content
        if count != 0:
            results = self._aggregates.results(accumulators)
            emit((INSERT, (*self._context.key, *results, *self._properties.of(start, end))))
