"""Days, months and zones: the calendar of Flink's DateTimeUtils.

Days are counted from 1970-01-01 in the proleptic Gregorian calendar, with a year 0. ``Zone`` converts
between UTC and local readings as java.time does: a reading in a gap moves on by the gap, one that occurs
twice is the first.
"""

from __future__ import annotations

import re
from datetime import UTC as UTC_TIME
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.values import MS_PER_DAY, NANOS_PER_MS

_EPOCH: Final = datetime(1970, 1, 1)
_CYCLE_MS: Final = 146_097 * MS_PER_DAY
_RANGE_MS: Final = 4 * _CYCLE_MS
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_SHORT_ZONES: Final = {
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
    "PST": "America/Los_Angeles",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "JST": "Asia/Tokyo",
    "IST": "Asia/Kolkata",
    "ECT": "Europe/Paris",
    "Z": "UTC",
    "UT": "UTC",
}
"""What Java's ``ZoneId.SHORT_IDS`` and ``TimeZone`` know besides the names of the database."""


def toward_zero(value: int, by: int) -> int:
    """Return a quotient as Java's ``/``, which rounds toward zero; ``by`` is positive."""
    return value // by if value >= 0 else -(-value // by)


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since the epoch of a date; days beyond the month's end run on."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def date_of(days: int) -> tuple[int, int, int]:
    """Return year, month and day of days since the epoch."""
    days += 719_468
    era, of_era = divmod(days, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def last_day(year: int, month: int) -> int:
    """Return the last day of a month."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def add_months(days: int, months: int) -> int:
    """Add months to a date; the day is cut at the end of the month."""
    year, month, day = date_of(days)
    years, month = divmod(month - 1 + months, 12)
    year, month = year + years, month + 1
    return days_of(year, month, min(day, last_day(year, month)))


def months_between(later: int, earlier: int, later_ms: int = 0, earlier_ms: int = 0) -> int:
    """Return the whole months between two moments, each of days and milliseconds of the day."""
    if (later, later_ms) < (earlier, earlier_ms):
        return -months_between(earlier, later, earlier_ms, later_ms)
    year, month, _ = date_of(later)
    first_year, first_month, _ = date_of(earlier)
    months = (year - first_year) * 12 + month - first_month
    return months - ((add_months(earlier, months), earlier_ms) > (later, later_ms))


def _within(milliseconds: int) -> int:
    """Return a moment with the same offset in the years that Python knows: dates repeat after 400 years."""
    if -_RANGE_MS < milliseconds < _RANGE_MS:
        return milliseconds
    return milliseconds % _CYCLE_MS


class Zone:
    """A time zone; all moments are milliseconds."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        fixed = zone.utcoffset(None)
        self.fixed_ms = None if fixed is None else fixed // timedelta(milliseconds=1)
        """Its offset, if it is always the same."""

    def offset_ms(self, utc_ms: int) -> int:
        """Return the offset at a moment."""
        if self.fixed_ms is not None:
            return self.fixed_ms
        moment = (_EPOCH + timedelta(milliseconds=_within(utc_ms))).replace(tzinfo=UTC_TIME)
        offset = moment.astimezone(self._zone).utcoffset()
        assert offset is not None
        return offset // timedelta(milliseconds=1)

    def local_ms(self, utc_ms: int) -> int:
        """Return the local reading at a moment."""
        return utc_ms + self.offset_ms(utc_ms)

    def utc_ms(self, local_ms: int) -> int:
        """Return the moment of a local reading."""
        if self.fixed_ms is not None:
            return local_ms - self.fixed_ms
        offset = (_EPOCH + timedelta(milliseconds=_within(local_ms))).replace(tzinfo=self._zone).utcoffset()
        assert offset is not None
        return local_ms - offset // timedelta(milliseconds=1)

    def to_local(self, nanos: int) -> int:
        """Return the local reading of a TIMESTAMP_LTZ as a TIMESTAMP."""
        return nanos + self.offset_ms(nanos // NANOS_PER_MS) * NANOS_PER_MS

    def to_utc(self, nanos: int) -> int:
        """Return the TIMESTAMP_LTZ of a TIMESTAMP that is a local reading."""
        milliseconds, rest = divmod(nanos, NANOS_PER_MS)
        return self.utc_ms(milliseconds) * NANOS_PER_MS + rest

    def name(self, utc_ms: int) -> str:
        """Return the abbreviation of the zone at a moment."""
        moment = (_EPOCH + timedelta(milliseconds=_within(utc_ms))).replace(tzinfo=UTC_TIME)
        return moment.astimezone(self._zone).tzname() or "UTC"


UTC: Final = Zone(UTC_TIME)


@lru_cache(maxsize=256)
def find_zone(name: str) -> Zone | None:
    """Return the zone of a name of Java; None: Java knows none either."""
    name = _SHORT_ZONES.get(name, name)
    if name in ("UTC", "GMT"):
        return UTC
    if (match := _OFFSET.fullmatch(name)) is not None:
        hours, minutes, seconds = int(match[2]), int(match[3] or 0), int(match[4] or 0)
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if offset > timedelta(hours=18):
            return None
        return Zone(timezone(-offset if match[1] == "-" else offset))
    try:
        return Zone(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def session_zone(name: str) -> Zone:
    """Return the zone of the session. Raises UnsupportedPlan where it does not exist."""
    zone = find_zone(name)
    if zone is None:
        raise UnsupportedPlan(f"time zone {name!r}")
    return zone


def lenient_zone(name: str) -> Zone:
    """Return a zone as Java's ``TimeZone.getTimeZone`` does: what it does not know is UTC."""
    return find_zone(name) or UTC
