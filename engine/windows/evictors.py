"""What is left out of a window before it is worked out, or afterwards (Flink: Evictor; PyFlink has none).

An evictor sees the records of a window as they were added, and removes some from the list. Windows with an
evictor keep all their records, also where they are only reduced.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from msgspec import Struct

from onceproof.engine.durations import Duration, Time, milliseconds_of


class TimestampedValue(Struct, frozen=True):
    """A record of a window (Flink: TimestampedValue)."""

    value: Any
    timestamp: int | None

    def get_value(self) -> Any:
        """The value."""
        return self.value

    def get_timestamp(self) -> int | None:
        """The timestamp, or None."""
        return self.timestamp

    def has_timestamp(self) -> bool:
        """Whether it has one."""
        return self.timestamp is not None


class WindowEvictorContext(ABC):
    """What an evictor may ask (Flink: Evictor.EvictorContext)."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Milliseconds since the epoch, as of the event in hand."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """The event time that was reached."""


class Evictor(ABC):
    """Removes records from a window (Flink: Evictor)."""

    EvictorContext: ClassVar = WindowEvictorContext

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: WindowEvictorContext
    ) -> None:
        """Before the window function: remove from ``elements``, which are ``size``, what is too much."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: WindowEvictorContext
    ) -> None:
        """After the window function, which counts for the next time that the window is worked out."""


class _OnOneSide(Evictor):
    """Evicts before the window function, or after it."""

    def __init__(self, do_evict_after: bool) -> None:
        self._after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: WindowEvictorContext
    ) -> None:
        """Unless it is to be done after."""
        if not self._after:
            self._evict(elements, size)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: WindowEvictorContext
    ) -> None:
        """If it is to be done after."""
        if self._after:
            self._evict(elements, size)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue], size: int) -> None:
        """Remove what is too much."""


class CountEvictor(_OnOneSide):
    """Keeps the last so many records (Flink: CountEvictor)."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Of the last ``max_count``."""
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue], size: int) -> None:
        if size > self._max_count:
            del elements[: size - self._max_count]


class TimeEvictor(_OnOneSide):
    """Keeps the records not older than the newest by so much (Flink: TimeEvictor)."""

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._window_size = window_size

    @staticmethod
    def of(window_size: Time | Duration, do_evict_after: bool = False) -> TimeEvictor:
        """Of the last ``window_size``."""
        return TimeEvictor(milliseconds_of(window_size, "window size"), do_evict_after)

    def _evict(self, elements: list[TimestampedValue], size: int) -> None:
        timestamps = [element.timestamp for element in elements if element.timestamp is not None]
        if len(timestamps) < len(elements) or not timestamps:
            return
        oldest = max(timestamps) - self._window_size
        elements[:] = [
            element for element in elements if element.timestamp is not None and element.timestamp > oldest
        ]


class DeltaEvictor(_OnOneSide):
    """Keeps the records that differ from the last one by less than a threshold (Flink: DeltaEvictor)."""

    def __init__(
        self, threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> None:
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta = delta_function

    @staticmethod
    def of(
        threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> DeltaEvictor:
        """``delta_function`` of a record and the last one says by how much they differ."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue], size: int) -> None:
        last = elements[-1].value
        elements[:] = [element for element in elements if self._delta(element.value, last) < self._threshold]
