"""Fires timers: the part of an operator that calls a function's ``on_timer``.

The rules this module lives by:

- Event-time timers fire when a watermark arrives, in ascending order, before the watermark is forwarded.
  Their results carry the timestamp of the timer; results of processing-time timers carry none, as in Flink.
- A timer that is registered while others fire, and is already due, fires with them.
- The same code serves functions with one input and with two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onceproof.engine.elements import Record
from onceproof.engine.operators.base import Emit, FunctionOperator, OperatorContext
from onceproof.engine.operators.side_outputs import emit_side_outputs
from onceproof.engine.operators.time_services import USER_TIMERS, KeyTimers
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.owned import PLAIN, Own
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.timers import TimerQueue, Timers
from onceproof.engine.timer_service import TimeDomain, TimerService


class TimedOperator(FunctionOperator):
    """Mix-in that adds timers to an operator; it stands before that operator in the list of bases.

    That operator calls ``create_service`` when it opens, implements ``timer_context`` and sets
    ``_side_outputs``.
    """

    uses_time = True
    timers: Timers
    _side_outputs: Mapping[str, Sequence[Emit]]

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert self._backend is not None
        function: Any = self.function
        self._firing = TimerFiring(
            function.on_timer, self.timers, self._backend, self.timer_context(), self._own
        )

    def create_service(self, context: OperatorContext) -> TimerService:
        """Return the timer service over this subtask's key groups, with its restored timers."""
        assert self._backend is not None
        assert context.downstream is not None
        self.timers = Timers(self._backend, USER_TIMERS, context.downstream.wake_at)
        self.event_clock = self.timers
        return KeyTimers(self._backend, self.timers, context.clock)

    def timer_context(self) -> Any:
        """Return the context for ``on_timer``."""
        raise NotImplementedError

    def process_watermark(self, timestamp: int) -> list[Record]:
        results = self._firing.advance(timestamp)
        return emit_side_outputs(results, self._side_outputs) if OutputTag.exist else results

    def process_time(self, now: int) -> list[Record]:
        results = self._firing.at_processing_time(now)
        return emit_side_outputs(results, self._side_outputs) if OutputTag.exist else results


class TimerFiring:
    """Calls ``on_timer`` for each due timer of a function."""

    __slots__ = ("_backend", "_context", "_on_timer", "_own", "_timers")

    def __init__(
        self,
        on_timer: Callable[[int, Any], Iterable[Any] | None],
        timers: Timers,
        backend: KeyedStateBackend,
        context: Any,
        own: Own,
    ) -> None:
        self._on_timer = on_timer
        self._timers = timers
        self._backend = backend
        self._context = context
        self._own = own

    def advance(self, watermark: int) -> list[Record]:
        """Set the current watermark, and fire the event-time timers that are due."""
        self._timers.watermark = watermark
        return self.fire(self._timers.event, watermark, TimeDomain.EVENT_TIME)

    def at_processing_time(self, now: int) -> list[Record]:
        """Fire the processing-time timers that are due at ``now``."""
        results = self.fire(self._timers.processing, now, TimeDomain.PROCESSING_TIME)
        self._timers.request_wakeup()
        return results

    def fire(self, queue: TimerQueue, limit: int, domain: TimeDomain) -> list[Record]:
        """Fire the timers of a queue up to a time."""
        context, backend, on_timer, own = self._context, self._backend, self._on_timer, self._own
        context.firing_domain = domain
        carries_timestamp = domain is TimeDomain.EVENT_TIME
        results: list[Record] = []
        while (due := queue.pop_due(limit)) is not None:
            backend.current_key, timestamp = due
            context.element_timestamp = timestamp
            emitted = on_timer(timestamp, context)
            if emitted is not None:
                for result in emitted:
                    if type(result) not in PLAIN:
                        result = own(result)
                    results.append((result, timestamp if carries_timestamp else None))
        return results


def overrides_on_timer(function: Any, interface: Any) -> bool:
    """Return whether a function overrides the ``on_timer`` of its interface, which does nothing."""
    return getattr(function.on_timer, "__func__", None) is not interface.on_timer
