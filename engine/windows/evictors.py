"""Evictors remove records from a window before or after its function (Flink: Evictor; PyFlink has none).

An evictor gets the records of a window in the order of arrival, and removes some from the list. Windows with
an evictor keep all their records, even if a ReduceFunction or AggregateFunction folds them.
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
        """Return the value."""
        return self.value

    def get_timestamp(self) -> int | None:
        """Return the timestamp in milliseconds, or None."""
        return self.timestamp

    def has_timestamp(self) -> bool:
        """Return whether the record has a timestamp."""
        return self.timestamp is not None


class WindowEvictorContext(ABC):
    """The context of an evictor (Flink: Evictor.EvictorContext)."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Return the wall clock in milliseconds since the epoch, read once for each event of the task."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """Return the current watermark."""


class Evictor(ABC):
    """Removes records from a window (Flink: Evictor)."""

    EvictorContext: ClassVar = WindowEvictorContext

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: WindowEvictorContext
    ) -> None:
        """Remove records before the window function is called.

        Args:
            elements: the records of the window in the order of arrival; the evictor changes this list.
            size: the number of records.
            window: the window that fires.
            evictor_context: gives the current times.
        """

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: WindowEvictorContext
    ) -> None:
        """Remove records after the window function; this affects the next firing of the window.

        The arguments are those of ``evict_before``.
        """


class _EvictorBeforeOrAfter(Evictor):
    """Evicts before the window function, or after it."""

    def __init__(self, do_evict_after: bool) -> None:
        self.evicts_after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: WindowEvictorContext
    ) -> None:
        if not self.evicts_after:
            self._evict(elements, size)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: WindowEvictorContext
    ) -> None:
        if self.evicts_after:
            self._evict(elements, size)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue], size: int) -> None:
        """Remove records from ``elements``, which has ``size`` records."""


class CountEvictor(_EvictorBeforeOrAfter):
    """Keeps the last ``max_count`` records (Flink: CountEvictor)."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self.max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Return an evictor that keeps the last ``max_count`` records.

        Args:
            max_count: how many records to keep.
            do_evict_after: evict after the window function instead of before it.
        """
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue], size: int) -> None:
        if size > self.max_count:
            del elements[: size - self.max_count]


class TimeEvictor(_EvictorBeforeOrAfter):
    """Keeps the records whose age relative to the newest is less than a length (Flink: TimeEvictor)."""

    def __init__(self, window_size: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self.window_size_ms = window_size

    @staticmethod
    def of(window_size: Time | Duration, do_evict_after: bool = False) -> TimeEvictor:
        """Return an evictor that keeps the records of the last ``window_size``.

        Args:
            window_size: the greatest age, exclusive, relative to the newest record.
            do_evict_after: evict after the window function instead of before it.
        """
        return TimeEvictor(milliseconds_of(window_size, "window size"), do_evict_after)

    def _evict(self, elements: list[TimestampedValue], size: int) -> None:
        timestamps = [element.timestamp for element in elements if element.timestamp is not None]
        if len(timestamps) < len(elements) or not timestamps:
            return
        oldest = max(timestamps) - self.window_size_ms
        elements[:] = [
            element for element in elements if element.timestamp is not None and element.timestamp > oldest
        ]


class DeltaEvictor(_EvictorBeforeOrAfter):
    """Keeps the records that differ from the last one by less than a threshold (Flink: DeltaEvictor)."""

    def __init__(
        self, threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> None:
        super().__init__(do_evict_after)
        self.threshold = threshold
        self.delta_function = delta_function

    @staticmethod
    def of(
        threshold: float, delta_function: Callable[[Any, Any], float], do_evict_after: bool = False
    ) -> DeltaEvictor:
        """Return an evictor by difference.

        Args:
            threshold: the greatest difference, exclusive.
            delta_function: returns the difference of a value and the last value of the window.
            do_evict_after: evict after the window function instead of before it.
        """
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue], size: int) -> None:
        last = elements[-1].value
        elements[:] = [
            element for element in elements if self.delta_function(element.value, last) < self.threshold
        ]
