"""Timers that fire: what an operator around a function with ``on_timer`` has beyond one without.

The rules this module lives by:

- Timers of event time fire as a watermark arrives, in ascending order, and before it goes on; what they give
  carries the timestamp of the timer. What timers of processing time give carries none, as in Flink.
- A timer that is registered while others fire, and is due already, fires with them.
- It is the same whatever the function is called for otherwise: the records of one input, or of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from onceproof.engine.elements import Record
from onceproof.engine.operators.base import Emit, FunctionOperator, OperatorContext
from onceproof.engine.operators.side_outputs import sort_out
from onceproof.engine.operators.time_services import USER_TIMERS, KeyTimers
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.timers import TimerQueue, Timers
from onceproof.engine.timer_service import TimeDomain, TimerService


class TimedOperator(FunctionOperator):
    """Stands before an operator without timers among the bases of one that has them.

    That operator asks for its ``create_service`` as it opens, gives ``timer_context`` and has
    ``_side_outputs``.
    """

    uses_time = True
    _side_outputs: Mapping[str, Sequence[Emit]]

    def open(self, context: OperatorContext) -> None:
        """As the operator without timers, and what fires them."""
        super().open(context)
        assert self._backend is not None
        function: Any = self.function
        self._firing = Firing(function.on_timer, self._timers, self._backend, self.timer_context())

    def create_service(self, context: OperatorContext) -> TimerService:
        """Timers of this subtask's key groups, restored where there is something to restore."""
        assert self._backend is not None
        assert context.downstream is not None
        self._timers = Timers(self._backend, USER_TIMERS, context.downstream.wake_at)
        return KeyTimers(self._backend, self._timers, context.clock)

    def timer_context(self) -> Any:
        """What ``on_timer`` is given."""
        raise NotImplementedError

    def process_watermark(self, timestamp: int) -> list[Record]:
        """Fire the timers of event time that are due."""
        results = self._firing.advance(timestamp)
        return sort_out(results, self._side_outputs) if OutputTag.exist else results

    def process_time(self, now: int) -> list[Record]:
        """Fire the timers of processing time that are due."""
        results = self._firing.at_processing_time(now)
        return sort_out(results, self._side_outputs) if OutputTag.exist else results


class Firing:
    """Calls ``on_timer`` for the timers of a function, one after another."""

    __slots__ = ("_backend", "_context", "_on_timer", "_timers")

    def __init__(
        self,
        on_timer: Callable[[int, Any], Iterable[Any] | None],
        timers: Timers,
        backend: KeyedStateBackend,
        context: Any,
    ) -> None:
        self._on_timer = on_timer
        self._timers = timers
        self._backend = backend
        self._context = context

    def advance(self, watermark: int) -> list[Record]:
        """Event time has reached ``watermark``, which the function can see from now on."""
        self._timers.watermark = watermark
        return self._fire(self._timers.event, watermark, TimeDomain.EVENT_TIME)

    def at_processing_time(self, now: int) -> list[Record]:
        """Processing time has reached ``now``."""
        results = self._fire(self._timers.processing, now, TimeDomain.PROCESSING_TIME)
        self._timers.request_wakeup()
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


def overrides_on_timer(function: Any, interface: Any) -> bool:
    """Whether a function says what is to happen when a timer fires, where its interface says: nothing."""
    return getattr(function.on_timer, "__func__", None) is not interface.on_timer
