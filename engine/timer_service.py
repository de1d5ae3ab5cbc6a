"""What a function is given to work with time: PyFlink's TimerService."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum


class TimeDomain(Enum):
    """The kind of time in which a timer fires (PyFlink: TimeDomain)."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService(ABC):
    """Times, and the timers of the current key (PyFlink: TimerService).

    There is one timer for each key and timestamp, however often it is registered.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Milliseconds since the epoch, as of the event in hand."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time that was reached; -2**63 before the first watermark, 2**63 - 1 at the end."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have ``on_timer`` called at this processing time or later."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Have ``on_timer`` called when the watermark reaches this timestamp.

        Where it has passed it already, that is at the next watermark.
        """

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete the timer; one that is not there is fine."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete the timer; one that is not there is fine."""
