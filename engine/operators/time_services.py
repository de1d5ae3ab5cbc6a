"""The timer services of functions: with timers, without a method that hears them, and without keys."""

from __future__ import annotations

from collections.abc import Callable

from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.timers import Timers
from onceproof.engine.timer_service import TimerService

USER_TIMERS = "user-timers"
"""The name of the timer service in Flink's process operators."""

NOT_KEYED = "timers belong to keys, and the stream is not keyed: call key_by directly before the operator"


class NoTimers(TimerService):
    """Reads the times; registering or deleting a timer raises TypeError."""

    __slots__ = ("_clock", "watermark")

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.watermark = MIN_WATERMARK

    def current_processing_time(self) -> int:
        return self._clock()

    def current_watermark(self) -> int:
        return self.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        raise self._refused(timestamp)

    def register_event_time_timer(self, timestamp: int) -> None:
        raise self._refused(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        raise self._refused(timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        raise self._refused(timestamp)

    def _refused(self, timestamp: int) -> TypeError:
        return TypeError(f"no timer at {timestamp}: {NOT_KEYED}")


class UnheardTimers(NoTimers):
    """The timers of a function without ``on_timer``: nothing happens when they fire, so none is kept."""

    __slots__ = ()

    def register_processing_time_timer(self, timestamp: int) -> None:
        _whole(timestamp)

    def register_event_time_timer(self, timestamp: int) -> None:
        _whole(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Do nothing."""

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Do nothing."""


class KeyTimers(TimerService):
    """The timers of the backend's current key."""

    __slots__ = ("_backend", "_clock", "_timers")

    def __init__(self, backend: KeyedStateBackend, timers: Timers, clock: Callable[[], int]) -> None:
        self._backend = backend
        self._timers = timers
        self._clock = clock

    def current_processing_time(self) -> int:
        return self._clock()

    def current_watermark(self) -> int:
        return self._timers.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._timers.register_processing(self._backend.current_key, _whole(timestamp))

    def register_event_time_timer(self, timestamp: int) -> None:
        self._timers.event.register(self._backend.current_key, _whole(timestamp))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._timers.processing.delete(self._backend.current_key, timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._timers.event.delete(self._backend.current_key, timestamp)


def _whole(timestamp: int) -> int:
    """Return the timestamp, or raise TypeError: otherwise a later snapshot would fail, far from the cause."""
    if type(timestamp) is not int:
        raise TypeError(f"a timer needs a timestamp in whole milliseconds, not {timestamp!r}")
    return timestamp
