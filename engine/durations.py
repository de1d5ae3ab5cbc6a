"""Durations in the public API (PyFlink: Duration and Time).

Inside the engine a duration is a whole number of milliseconds in a name that ends in ``_ms``; these two
classes exist at the border only. Flink 1 had Time, Flink 2 has Duration; every parameter takes either.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Duration(Struct, frozen=True, order=True):
    """A length of time in whole milliseconds (PyFlink: Duration)."""

    milliseconds: int

    @classmethod
    def of_days(cls, days: int) -> Duration:
        """Return a duration of ``days`` days of 24 hours."""
        return cls(_require_whole("days", days) * 86_400_000)

    @classmethod
    def of_hours(cls, hours: int) -> Duration:
        """Return a duration of ``hours`` hours."""
        return cls(_require_whole("hours", hours) * 3_600_000)

    @classmethod
    def of_minutes(cls, minutes: int) -> Duration:
        """Return a duration of ``minutes`` minutes."""
        return cls(_require_whole("minutes", minutes) * 60_000)

    @classmethod
    def of_seconds(cls, seconds: int) -> Duration:
        """Return a duration of ``seconds`` seconds."""
        return cls(_require_whole("seconds", seconds) * 1000)

    @classmethod
    def of_millis(cls, millis: int) -> Duration:
        """Return a duration of ``millis`` milliseconds."""
        return cls(_require_whole("milliseconds", millis))

    @classmethod
    def of_nanos(cls, nanos: int) -> Duration:
        """Return a duration of ``nanos`` nanoseconds, rounded down to whole milliseconds."""
        return cls(_require_whole("nanoseconds", nanos) // 1_000_000)


class Time(Struct, frozen=True, order=True):
    """A length of time in whole milliseconds (PyFlink: Time)."""

    _milliseconds: int

    def to_milliseconds(self) -> int:
        """Return the number of milliseconds."""
        return self._milliseconds

    @classmethod
    def milliseconds(cls, milliseconds: int) -> Time:
        """Return a duration of ``milliseconds`` milliseconds."""
        return cls(_require_whole("milliseconds", milliseconds))

    @classmethod
    def seconds(cls, seconds: int) -> Time:
        """Return a duration of ``seconds`` seconds."""
        return cls(_require_whole("seconds", seconds) * 1000)

    @classmethod
    def minutes(cls, minutes: int) -> Time:
        """Return a duration of ``minutes`` minutes."""
        return cls(_require_whole("minutes", minutes) * 60_000)

    @classmethod
    def hours(cls, hours: int) -> Time:
        """Return a duration of ``hours`` hours."""
        return cls(_require_whole("hours", hours) * 3_600_000)

    @classmethod
    def days(cls, days: int) -> Time:
        """Return a duration of ``days`` days of 24 hours."""
        return cls(_require_whole("days", days) * 86_400_000)


def milliseconds_of(length: Any, what: str) -> int:
    """Return the milliseconds of a Duration or a Time.

    Args:
        length: the Duration or Time that the user gave.
        what: the parameter's name, for the error.

    Raises:
        TypeError: ``length`` is neither. A bare number is refused, because its unit would be open.
    """
    if type(length) is Duration:
        return length.milliseconds
    if type(length) is Time:
        return length.to_milliseconds()
    raise TypeError(f"{what} is {length!r}: give a Duration or a Time, such as Duration.of_seconds(5)")


def _require_whole(unit: str, number: object) -> int:
    if type(number) is not int:
        raise TypeError(f"a number of {unit} must be a whole number, not {number!r}")
    return number
