"""Lengths of time, as a user writes them (PyFlink: Duration and Time).

Inside the engine a length of time is a whole number of milliseconds in a name that ends in ``_ms``; these two
classes exist at the border only. Flink has both because it changed its mind; either is taken wherever one is.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Duration(Struct, frozen=True, order=True):
    """A length of time (PyFlink: Duration), kept in milliseconds."""

    milliseconds: int

    @classmethod
    def of_days(cls, days: int) -> Duration:
        """So many days of 24 hours."""
        return cls(_whole("days", days) * 86_400_000)

    @classmethod
    def of_hours(cls, hours: int) -> Duration:
        """So many hours."""
        return cls(_whole("hours", hours) * 3_600_000)

    @classmethod
    def of_minutes(cls, minutes: int) -> Duration:
        """So many minutes."""
        return cls(_whole("minutes", minutes) * 60_000)

    @classmethod
    def of_seconds(cls, seconds: int) -> Duration:
        """So many seconds."""
        return cls(_whole("seconds", seconds) * 1000)

    @classmethod
    def of_millis(cls, millis: int) -> Duration:
        """So many milliseconds."""
        return cls(_whole("milliseconds", millis))

    @classmethod
    def of_nanos(cls, nanos: int) -> Duration:
        """So many nanoseconds, cut to whole milliseconds: nothing here measures finer."""
        return cls(_whole("nanoseconds", nanos) // 1_000_000)


class Time(Struct, frozen=True, order=True):
    """A length of time (PyFlink: Time), kept in milliseconds."""

    _milliseconds: int

    def to_milliseconds(self) -> int:
        """The length as a number of milliseconds."""
        return self._milliseconds

    @classmethod
    def milliseconds(cls, milliseconds: int) -> Time:
        """So many milliseconds."""
        return cls(_whole("milliseconds", milliseconds))

    @classmethod
    def seconds(cls, seconds: int) -> Time:
        """So many seconds."""
        return cls(_whole("seconds", seconds) * 1000)

    @classmethod
    def minutes(cls, minutes: int) -> Time:
        """So many minutes."""
        return cls(_whole("minutes", minutes) * 60_000)

    @classmethod
    def hours(cls, hours: int) -> Time:
        """So many hours."""
        return cls(_whole("hours", hours) * 3_600_000)

    @classmethod
    def days(cls, days: int) -> Time:
        """So many days of 24 hours."""
        return cls(_whole("days", days) * 86_400_000)


def milliseconds_of(length: Any, what: str) -> int:
    """The milliseconds of a Duration or a Time; ``what`` names it in the error.

    Raises TypeError where it is neither: a bare number would leave its unit open.
    """
    if type(length) is Duration:
        return length.milliseconds
    if type(length) is Time:
        return length.to_milliseconds()
    raise TypeError(f"{what} is {length!r}: give a Duration or a Time, such as Duration.of_seconds(5)")


def _whole(unit: str, number: object) -> int:
    if type(number) is not int:
        raise TypeError(f"a number of {unit} must be a whole number, not {number!r}")
    return number
