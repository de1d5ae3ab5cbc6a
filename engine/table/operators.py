"""The operator of stateful nodes, and what such a node implements: a ``TableFunction``.

Rules:

- A stream of a table has changes ``(kind, row)`` as values (``values.py``); its records have no timestamps,
  because event time is a column.
- One operator serves functions with one input and with two, with keys and without. Its state is the engine's
  keyed state; what a function keeps in attributes must be gone at a barrier (``before_barrier``).
- Changes are emitted through ``emit``, in order, and never changed afterwards: they are tuples of immutable
  values, so nothing is copied.
- At a watermark the function is asked first (``on_watermark``), then due timers fire, by time, then by
  registration.
- The key of one column is its value, of several a tuple of them, of none ``()``. Keys of both inputs are made
  alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

from onceproof.engine.durations import Duration
from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK, Record
from onceproof.engine.functions import Function
from onceproof.engine.key_identity import value_of
from onceproof.engine.operators.base import FunctionOperator, KeySelector, Operator, OperatorContext
from onceproof.engine.operators.time_services import USER_TIMERS, KeyTimers, NoTimers
from onceproof.engine.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.timers import Timers
from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.table.values import Change, Row
from onceproof.engine.timer_service import TimerService
from onceproof.engine.types import TypeInformation, Types

Emit: TypeAlias = Callable[[Change], None]

KEY_TYPE: Final = Types.DYNAMIC()
"""Every key of a table: it describes itself, and tells 1, 1.0 and TRUE apart."""


class Moment:
    """The time of an operator, as expressions ask for it."""

    __slots__ = ("processing_ms", "watermark")

    def __init__(self) -> None:
        self.processing_ms: Callable[[], int] = lambda: 0
        """Processing time in milliseconds; its operator sets it when it opens."""
        self.watermark: int = MIN_WATERMARK


class RowOperator(Operator):
    """An operator without state whose expressions ask for the time."""

    def __init__(self) -> None:
        self.moment = Moment()

    def open(self, context: OperatorContext) -> None:
        self.moment.processing_ms = context.clock

    def process_watermark(self, timestamp: int) -> list[Record]:
        self.moment.watermark = timestamp
        return []

    def event_time(self) -> int:
        return self.moment.watermark

    def resume_event_time(self, known: Any) -> None:
        self.moment.watermark = known


class TableContext:
    """What a function has of its operator: state, timers and times."""

    __slots__ = ("_backend", "_has_one_column", "moment", "timers")

    def __init__(
        self, backend: KeyedStateBackend | None, timers: TimerService, moment: Moment, key_width: int
    ) -> None:
        self._backend = backend
        self._has_one_column = key_width == 1
        self.timers = timers
        """Timers of the current key, in milliseconds; the current watermark and processing time."""
        self.moment = moment

    @property
    def backend(self) -> KeyedStateBackend:
        """The keyed state; for what the methods below do not offer, such as namespaces."""
        assert self._backend is not None, "the operator has no keys"
        return self._backend

    @property
    def key(self) -> Row:
        """The columns of the current key."""
        key = value_of(self.backend.current_key)
        return (key,) if self._has_one_column else key

    def wake_at(self, time: int, is_event_time: bool) -> None:
        """Register a timer of the current key."""
        if is_event_time:
            self.timers.register_event_time_timer(time)
        else:
            self.timers.register_processing_time_timer(time)

    def value_state(self, name: str, ttl_ms: int = 0, kind: TypeInformation | None = None) -> Any:
        """Return a state of one value (``value()``, ``update(value)``, ``clear()``)."""
        return self._state(ValueStateDescriptor(name, kind), ttl_ms)

    def list_state(self, name: str, ttl_ms: int = 0, kind: TypeInformation | None = None) -> Any:
        """Return a state of a list (``get()``, ``add(value)``, ``update(values)``, ``clear()``)."""
        return self._state(ListStateDescriptor(name, kind), ttl_ms)

    def map_state(self, name: str, ttl_ms: int = 0) -> Any:
        """Return a state of a map (``get``, ``put``, ``remove``, ``contains``, ``items``, ``is_empty``)."""
        return self._state(MapStateDescriptor(name, Types.DYNAMIC(), Types.DYNAMIC()), ttl_ms)

    def _state(self, descriptor: StateDescriptor, ttl_ms: int) -> Any:
        if ttl_ms:
            # As Flink's StateConfigUtil: written and created entries live on, expired ones are never seen.
            ttl = Duration.of_millis(ttl_ms)
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(ttl).build())
        return self.backend.live_state(descriptor)


def add_row(state: Any, place: Any, row: Any) -> bool:
    """Append to a list in a map state; return whether it is the first one there."""
    rows = state.get(place)
    is_first = rows is None
    if is_first:
        rows = []
    rows.append(row)
    state.put(place, rows)
    return is_first


class TableFunction(Function):
    """What a node does with changes; each subtask has one, made when its operator is made."""

    moment: Moment
    """Set before ``start``; expressions compiled by the function read it."""
    watermark_delay_ms = 0
    """By how much watermarks are held back, for a function that emits rows with times behind them."""

    def __init__(self) -> None:
        self.moment = Moment()

    def start(self, context: TableContext) -> None:
        """Get states; called once in each attempt, after the restore and before the first change."""

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        """Handle a change of the first input."""
        raise NotImplementedError

    def process_second(self, kind: int, row: Row, emit: Emit) -> None:
        """Handle a change of the second input."""
        raise NotImplementedError

    def on_watermark(self, watermark: int, emit: Emit) -> None:
        """Handle a watermark, before timers fire; there is no current key."""

    def on_event_time(self, timestamp: int, emit: Emit) -> None:
        """Handle a due timer in event time of the current key."""

    def on_processing_time(self, timestamp: int, emit: Emit) -> None:
        """Handle a due timer in processing time of the current key."""

    def before_barrier(self, emit: Emit) -> None:
        """Flush what is not in state; there is no current key."""

    def finish(self, emit: Emit) -> None:
        """Handle the end of the input, after the last watermark; there is no current key."""


def key_selector(fields: Sequence[int]) -> KeySelector:
    """Return the function from a change to its key: see the rules above."""
    if not fields:
        return _no_key
    if len(fields) == 1:
        (field,) = fields
        return lambda change: change[1][field]
    select = itemgetter(*fields)
    return lambda change: select(change[1])


def _no_key(change: Change) -> Row:
    return ()


class TableOperator(FunctionOperator):
    """Runs a TableFunction.

    Args:
        make: makes the function.
        keys: the key columns of each input; None: the stream has no keys, and the function no state.
    """

    uses_time = True
    timers: Timers | None = None
    function: TableFunction

    def __init__(
        self, make: Callable[[], TableFunction], keys: tuple[Sequence[int], ...] | None = None
    ) -> None:
        super().__init__(make())
        self.passes_watermarks = not self.function.watermark_delay_ms
        selectors = None if keys is None else tuple(map(key_selector, keys))
        # In a chain the number of the input is that of the chain's head.
        self._has_one_input = selectors is None or len(selectors) == 1
        self._key_width = len(keys[0]) if keys else 0
        self._selectors = selectors * 2 if selectors is not None and len(selectors) == 1 else selectors
        self._changes: list[Change] = []
        self._emit: Emit = self._changes.append

    def create_backend(self, context: OperatorContext) -> KeyedStateBackend | None:
        return None if self._selectors is None else context.keyed_backend(KEY_TYPE)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        function, backend = self.function, self._backend
        function.moment.processing_ms = context.clock
        self._downstream = context.downstream
        service: TimerService
        if backend is None:
            service = self.event_clock = NoTimers(context.clock)
        else:
            assert context.downstream is not None
            self.timers = Timers(backend, USER_TIMERS, context.downstream.wake_at)
            self.event_clock = self.timers
            service = KeyTimers(backend, self.timers, context.clock)
        second = function.process if self._has_one_input else function.process_second
        self._processes = (function.process, second)
        function.start(TableContext(backend, service, function.moment, self._key_width))

    def resume_event_time(self, known: Any) -> None:
        super().resume_event_time(known)
        self.function.moment.watermark = known

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        process, emit = self._processes[input_index], self._emit
        backend = self._backend
        if backend is None:
            for (kind, row), _ in records:
                process(kind, row, emit)
            return self._emitted()
        assert self._selectors is not None
        if backend.cleanups:
            backend.sweep(len(records))
        select_key = self._selectors[input_index]
        plain, identify = backend.common_kind(), backend.identify
        for change, _ in records:
            key = select_key(change)
            backend.current_key = key if key.__class__ is plain else identify(key)
            process(change[0], change[1], emit)
        return self._emitted()

    def _emitted(self) -> list[Record]:
        changes = self._changes
        if not changes:
            return []
        records: list[Record] = [(change, None) for change in changes]
        changes.clear()
        return records

    def process_watermark(self, timestamp: int) -> list[Record]:
        self._advance(timestamp)
        if self.passes_watermarks:
            return self._emitted()
        assert self._downstream is not None
        self._downstream.emit(self._emitted())
        self._downstream.watermark(timestamp - self.function.watermark_delay_ms)
        return []

    def _advance(self, timestamp: int) -> None:
        function, timers = self.function, self.timers
        function.moment.watermark = timestamp
        assert self.event_clock is not None
        function.on_watermark(timestamp, self._emit)
        self.event_clock.watermark = timestamp
        if timers is not None:
            assert self._backend is not None
            while (due := timers.event.pop_due(timestamp)) is not None:
                self._backend.current_key, at = due
                function.on_event_time(at, self._emit)

    def process_time(self, now: int) -> list[Record]:
        timers = self.timers
        if timers is None:
            return []
        assert self._backend is not None
        while (due := timers.processing.pop_due(now)) is not None:
            self._backend.current_key, at = due
            self.function.on_processing_time(at, self._emit)
        timers.request_wakeup()
        return self._emitted()

    def prepare_snapshot(self, checkpoint_id: int) -> list[Record]:
        self.function.before_barrier(self._emit)
        return self._emitted()

    def finish(self) -> list[Record]:
        if not self.passes_watermarks:
            # The task tells the last watermark only to operators that pass it on.
            self._advance(MAX_WATERMARK)
        self.function.finish(self._emit)
        return self._emitted()
