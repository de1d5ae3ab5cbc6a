"""The TimerService of user functions, under PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum


class TimeDomain(Enum):
    """The kind of time in which a timer fires (PyFlink: TimeDomain)."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService(ABC):
    """Reads the current times and manages the timers of the current key (PyFlink: TimerService).

    Timestamps are milliseconds since the epoch. A key has at most one timer for each timestamp and domain:
    registering it again changes nothing. A stream that is not keyed has no timers.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the wall clock in milliseconds since the epoch, read once for each event of the task."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the current watermark; -2**63 before the first one, 2**63 - 1 after the end of the input."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register a timer: ``on_timer`` is called when the clock has reached ``timestamp``."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Register a timer: ``on_timer`` is called when the watermark reaches ``timestamp``.

        If the watermark has passed ``timestamp`` already, the timer fires at the next watermark.
        """

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete the timer of the current key at ``timestamp``; do nothing if there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete the timer of the current key at ``timestamp``; do nothing if there is none."""
