"""Days, months and zones: the calendar of Flink's DateTimeUtils.

Days are counted from 1970-01-01 in the proleptic Gregorian calendar, with a year 0. ``Zone`` converts
between UTC and local readings as java.time does: a reading in a gap moves on by the gap, one that occurs
twice is the first. ``OldZone`` does it as java.util does, and ``historic_days_of`` counts days as there: what
Flink formats and parses with SimpleDateFormat is Julian before 1582-10-15.
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
_OLDEST_LOCAL_MS: Final = -8_520_336_000_000
"""1700-01-01, before all changes of offsets: what was earlier has the local mean time."""
_OLDEST_OLD_MS: Final = -2_208_988_800_000
"""1900-01-01, where the zones of java.util begin."""
_LATE_MS: Final = (2_114_380_800_000, 2_130_105_600_000)
"""A day of winter and one of summer, 2037, as java.util takes what a zone has last."""
GREGORIAN: Final = -141_427
"""1582-10-15, the first day of the Gregorian calendar."""
_JULIAN_EPOCH: Final = 719_470
"""Days from March 1 of the year 0 of the Julian calendar to the epoch."""
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


def julian_date_of(days: int) -> tuple[int, int, int]:
    """Return year, month and day in the calendar of that time: Julian before 1582-10-15."""
    if days >= GREGORIAN:
        return date_of(days)
    cycle, of_cycle = divmod(days + _JULIAN_EPOCH, 1461)
    year_of_cycle = min(of_cycle // 365, 3)
    shifted, of_month = divmod(5 * (of_cycle - 365 * year_of_cycle) + 2, 153)
    month = shifted + (3 if shifted < 10 else -9)
    return 4 * cycle + year_of_cycle + (month <= 2), month, of_month // 5 + 1


def historic_days_of(year: int, month: int, day: int) -> int:
    """Return the days since the epoch as a lenient GregorianCalendar: Julian before 1582-10-15."""
    days = days_of(year, month, 1) + day - 1
    if days >= GREGORIAN:
        return days
    year -= month <= 2
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5
    return year * 365 + year // 4 + of_year + day - 1 - _JULIAN_EPOCH


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


def _months_of_dates(later: int, earlier: int) -> int:
    if later < earlier:
        return -_months_of_dates(earlier, later)
    year, month, _ = date_of(later)
    first_year, first_month, _ = date_of(earlier)
    months = (year - first_year) * 12 + month - first_month
    return months - (add_months(earlier, months) > later)


def months_between(later: int, earlier: int, later_ms: int = 0, earlier_ms: int = 0) -> int:
    """Return the whole months between two moments, each of days and milliseconds of the day.

    Flink looks at the milliseconds only where the months lead from one day to the other.
    """
    months = _months_of_dates(later, earlier)
    return months - (add_months(earlier, months) == later and later_ms < earlier_ms)


def _within(milliseconds: int) -> int:
    """Return a moment with the same offset in the years that Python knows: dates repeat after 400 years."""
    if milliseconds < _RANGE_MS:
        return max(milliseconds, _OLDEST_LOCAL_MS)
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

    def as_old(self) -> OldZone:
        """Return the zone with the offsets of java.util."""
        return OldZone(self._zone)

    def name(self, utc_ms: int) -> str:
        """Return the abbreviation of the zone at a moment."""
        moment = (_EPOCH + timedelta(milliseconds=_within(utc_ms))).replace(tzinfo=UTC_TIME)
        return moment.astimezone(self._zone).tzname() or "UTC"


class OldZone(Zone):
    """A time zone as java.util has it.

    Before 1900 it has the offset without summer time that it has last, and of a reading that occurs twice it
    takes the second.
    """

    def __init__(self, zone: tzinfo) -> None:
        super().__init__(zone)
        self._raw_ms = min(super(OldZone, self).offset_ms(each) for each in _LATE_MS)

    def offset_ms(self, utc_ms: int) -> int:
        return self._raw_ms if utc_ms < _OLDEST_OLD_MS else super().offset_ms(utc_ms)

    def utc_ms(self, local_ms: int) -> int:
        early = local_ms - self._raw_ms
        if early < _OLDEST_OLD_MS:
            return early
        first = super().utc_ms(local_ms)
        second = local_ms - self.offset_ms(first + MS_PER_DAY // 2)
        return second if second > first and self.local_ms(second) == local_ms else first


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


@lru_cache(maxsize=256)
def old_zone(name: str) -> OldZone:
    """Return the zone of ``TimeZone.getTimeZone``, with the offsets of java.util."""
    return lenient_zone(name).as_old()
