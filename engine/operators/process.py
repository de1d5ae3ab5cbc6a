"""Process functions, on plain and on keyed streams.

The rules this module lives by:

- One context object serves every record of a subtask: it only holds what is true of the record in hand.
- A function is called under one key at a time, for a record or for a timer, never for two things at once.
- Timers of event time fire as a watermark arrives, in ascending order, and before it goes on; what they give
  carries the timestamp of the timer. What timers of processing time give carries none, as in Flink.
- A timer that is registered while others fire, and is due already, fires with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from engine.elements import Record
from engine.functions import KeyedProcessFunction, ProcessFunction
from engine.operators.base import FunctionOperator, OperatorContext
from engine.operators.side_outputs import sort_out
from engine.operators.time_services import NO_ON_TIMER, NOT_KEYED, USER_TIMERS, KeyTimers, NoTimers
from engine.output_tag import OutputTag
from engine.state.keyed import KeyedStateBackend
from engine.state.timers import TimerQueue, Timers
from engine.timer_service import TimeDomain, TimerService
from engine.types import TypeInformation


class ProcessOperator(FunctionOperator):
    """Applies a ProcessFunction (Flink: ProcessOperator)."""

    function: ProcessFunction

    def open(self, context: OperatorContext) -> None:
        """As every function operator, and the record's context."""
        super().open(context)
        self._process = self.function.process_element
        self._service = NoTimers(context.clock, NOT_KEYED)
        self._context = ProcessFunction.Context(self._service)
        self._side_outputs = context.side_outputs

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Results take the timestamp of their input."""
        process = self._process
        context = self._context
        results: list[Record] = []
        for value, timestamp in records:
            context._timestamp = timestamp
            emitted = process(value, context)
            if emitted is not None:
                for result in emitted:
                    results.append((result, timestamp))
        return sort_out(results, self._side_outputs) if OutputTag.exist else results

    def process_watermark(self, timestamp: int) -> list[Record]:
        """The function may ask for it."""
        self._service.watermark = timestamp
        return []


class KeyedProcessOperator(FunctionOperator):
    """Applies a KeyedProcessFunction without timers under the record's key (Flink: KeyedProcessOperator)."""

    function: KeyedProcessFunction

    def __init__(
        self,
        function: KeyedProcessFunction,
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None,
    ) -> None:
        super().__init__(function)
        self._key_selector = key_selector
        self._key_type = key_type

    def create_backend(self, context: OperatorContext) -> KeyedStateBackend:
        """State is that of this subtask's key groups."""
        return context.keyed_backend(self._key_type)

    def open(self, context: OperatorContext) -> None:
        """As every function operator, and the record's context."""
        super().open(context)
        assert self._backend is not None
        self._keyed = self._backend
        self._process = self.function.process_element
        self._context = KeyedProcessFunction.Context(self.create_service(context), self._backend)
        self._side_outputs = context.side_outputs

    def create_service(self, context: OperatorContext) -> TimerService:
        """What the function's contexts tell time by."""
        self._service = NoTimers(context.clock, NO_ON_TIMER)
        return self._service

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Results take the timestamp of their input."""
        process = self._process
        select_key = self._key_selector
        context = self._context
        backend = self._keyed
        if backend.cleanups:
            backend.sweep(len(records))
        results: list[Record] = []
        for value, timestamp in records:
            backend.current_key = select_key(value)
            context._timestamp = timestamp
            emitted = process(value, context)
            if emitted is not None:
                for result in emitted:
                    results.append((result, timestamp))
        return sort_out(results, self._side_outputs) if OutputTag.exist else results

    def process_watermark(self, timestamp: int) -> list[Record]:
        """The function may ask for it."""
        self._service.watermark = timestamp
        return []


class TimedProcessOperator(KeyedProcessOperator):
    """Applies a KeyedProcessFunction with ``on_timer`` (Flink: KeyedProcessOperator)."""

    uses_time = True

    def open(self, context: OperatorContext) -> None:
        """As every keyed process operator, and the timers' context."""
        super().open(context)
        self._firing = Firing(self.function.on_timer, self._timers, self._keyed, self._context._service)

    def create_service(self, context: OperatorContext) -> TimerService:
        """Timers of this subtask's key groups, restored where there is something to restore."""
        assert self._backend is not None
        assert context.downstream is not None
        self._timers = Timers(self._backend, USER_TIMERS, context.downstream.wake_at)
        return KeyTimers(self._backend, self._timers, context.clock)

    def process_watermark(self, timestamp: int) -> list[Record]:
        """Fire the timers of event time that are due."""
        results = self._firing.advance(timestamp)
        return sort_out(results, self._side_outputs) if OutputTag.exist else results

    def process_time(self, now: int) -> list[Record]:
        """Fire the timers of processing time that are due."""
        results = self._firing.at_processing_time(now)
        return sort_out(results, self._side_outputs) if OutputTag.exist else results


class Firing:
    """Calls ``on_timer`` for the timers of a process function, one after another."""

    __slots__ = ("_backend", "_context", "_on_timer", "_timers")

    def __init__(
        self,
        on_timer: Callable[[int, Any], Iterable[Any] | None],
        timers: Timers,
        backend: KeyedStateBackend,
        service: TimerService,
    ) -> None:
        self._on_timer = on_timer
        self._timers = timers
        self._backend = backend
        self._context = KeyedProcessFunction.OnTimerContext(service, backend)

    def advance(self, watermark: int) -> list[Record]:
        """Event time has reached ``watermark``, which the function can see from now on."""
        self._timers.watermark = watermark
        return self._fire(self._timers.event, watermark, TimeDomain.EVENT_TIME)

    def at_processing_time(self, now: int) -> list[Record]:
        """Processing time has reached ``now``."""
        results = self._fire(self._timers.processing, now, TimeDomain.PROCESSING_TIME)
        self._timers.ask_to_be_woken()
        return results

    def _fire(self, queue: TimerQueue, limit: int, domain: TimeDomain) -> list[Record]:
        context, backend, on_timer = self._context, self._backend, self._on_timer
        context._domain = domain
        carries_timestamp = domain is TimeDomain.EVENT_TIME
        results: list[Record] = []
        while (due := queue.pop_due(limit)) is not None:
            backend.current_key, timestamp = due
            context._timestamp = timestamp
            emitted = on_timer(timestamp, context)
            if emitted is not None:
                for result in emitted:
                    results.append((result, timestamp if carries_timestamp else None))
        return results


def has_timers(function: KeyedProcessFunction) -> bool:
    """Whether a function says what is to happen when a timer fires."""
    return getattr(function.on_timer, "__func__", None) is not KeyedProcessFunction.on_timer
