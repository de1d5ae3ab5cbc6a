"""Functions of dates and times (Flink: DateTimeUtils and the generators of its calls).

Flink's arithmetic rounds toward zero in places, so that moments before 1970 may have an hour of -16; the
same is done here. Zones matter for TIMESTAMP_LTZ and for texts, which are read and written in the session's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from onceproof.engine.table.expressions.arithmetic import milliseconds_of
from onceproof.engine.table.expressions.calendar import (
    UTC,
    Zone,
    add_months,
    date_of,
    days_of,
    julian_date_of,
    lenient_zone,
    months_between,
    old_zone,
    session_zone,
    toward_zero,
)
from onceproof.engine.table.expressions.date_patterns import format_new, format_old, parse_new, parse_old
from onceproof.engine.table.expressions.java_strings import integer_of, trim
from onceproof.engine.table.expressions.registry import Evaluate, FunctionFailed, Scope, builder, strict
from onceproof.engine.table.expressions.rex import Call, Symbol
from onceproof.engine.table.expressions.text_casts import CastFailed, parse_date, timestamp_of_text
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.types import TEXTS, TIMESTAMPS
from onceproof.engine.table.values import (
    MS_PER_DAY,
    NANOS_PER_DAY,
    NANOS_PER_MS,
    NANOS_PER_SECOND,
    Row,
    wrap,
)

DEFAULT_PATTERN: Final = "yyyy-MM-dd HH:mm:ss"
LONG_MIN: Final = -(1 << 63)
_UNITS_MS: Final = {"DAY": MS_PER_DAY, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}
_WITHIN_MS: Final = {"HOUR": MS_PER_DAY, "MINUTE": 3_600_000, "SECOND": 60_000}
_OLDEST_S: Final = -62_167_219_200
_NEWEST_S: Final = 253_402_300_799


def _unit_of(operand: Any) -> str:
    if not isinstance(operand, Symbol):
        raise UnsupportedPlan("a unit of time that is an expression")
    return operand.value


# ---- EXTRACT


def date_field(unit: str, days: int) -> int:
    """Return a field of a date."""
    year, month, day = date_of(days)
    match unit:
        case "YEAR":
            return year
        case "QUARTER":
            return (month + 2) // 3
        case "MONTH":
            return month
        case "DAY":
            return day
        case "DOW":
            return (days + 4) % 7 + 1
        case "ISODOW":
            return (days + 3) % 7 + 1
        case "DOY":
            return days - days_of(year, 1, 1) + 1
        case "WEEK":
            return _iso_week(days)[1]
        case "ISOYEAR":
            return _iso_week(days)[0]
        case "DECADE":
            return toward_zero(year, 10)
        case "CENTURY":
            return toward_zero(year + (99 if year > 0 else -99), 100)
        case "MILLENNIUM":
            return toward_zero(year + (999 if year > 0 else -999), 1000)
        case "EPOCH":
            return days * 86_400
    raise UnsupportedPlan(f"EXTRACT of {unit}")


def _iso_week(days: int) -> tuple[int, int]:
    thursday = days - (days + 3) % 7 + 3
    year = date_of(thursday)[0]
    return year, (thursday - days_of(year, 1, 1)) // 7 + 1


_FIELDS_OF_DATES: Final = frozenset(
    {"YEAR", "QUARTER", "MONTH", "DAY", "DOW", "ISODOW", "DOY", "WEEK", "ISOYEAR"}
    | {"DECADE", "CENTURY", "MILLENNIUM"}
)


def _time_field(unit: str, milliseconds: int, nanos: int) -> int:
    """Return a field of a moment; ``nanos`` are those of its millisecond."""
    if unit in _FIELDS_OF_DATES:
        return date_field(unit, toward_zero(milliseconds, MS_PER_DAY))
    if unit == "EPOCH":
        return toward_zero(milliseconds, 1000)
    if unit in _WITHIN_MS:
        within = _WITHIN_MS[unit]
        return toward_zero(_rest(milliseconds, within), _UNITS_MS[unit])
    rest = _rest(milliseconds, 1000)
    match unit:
        case "MILLISECOND":
            return rest
        case "MICROSECOND":
            return rest * 1000 + nanos // 1000
        case "NANOSECOND":
            return rest * NANOS_PER_MS + nanos
    raise UnsupportedPlan(f"EXTRACT of {unit}")


def _rest(value: int, by: int) -> int:
    """Return a remainder with the sign of the value, as Java's ``%``."""
    return value - toward_zero(value, by) * by


@strict("$EXTRACT$1")
def _extract(call: Call, scope: Scope) -> Callable[..., int]:
    unit, kind = _unit_of(call.operands[0]), call.operands[1].type
    match kind.root:
        case "DATE":
            if unit in _FIELDS_OF_DATES or unit == "EPOCH":
                return lambda _, days: date_field(unit, days)
            # Flink: parts of a day are those of so many milliseconds as there are days.
            return lambda _, days: _time_field(unit, days, 0)
        case "TIME":
            return lambda _, time: _time_field(unit, time, 0)
        case "TIMESTAMP":
            return lambda _, moment: _time_field(unit, *divmod(moment, NANOS_PER_MS))
        case "TIMESTAMP_LTZ":
            zone = old_zone(scope.zone)
            return lambda _, moment: _time_field(unit, *divmod(zone.to_local(moment), NANOS_PER_MS))
        case "INTERVAL_MS":
            within, size = {**_WITHIN_MS, "MILLISECOND": 1000}.get(unit), _UNITS_MS.get(unit, 1)
            return lambda _, time: toward_zero(time if within is None else _rest(time, within), size)
        case "INTERVAL_MONTHS":
            return lambda _, months: toward_zero(months, 12) if unit == "YEAR" else _rest(months, 12)
    raise UnsupportedPlan(f"EXTRACT from {kind.root}")


# ---- FLOOR, CEIL


def _round_days(unit: str, days: int, up: bool) -> int:
    """Round a date to the begin of a unit; a week begins on Sunday.

    Flink takes a date before 1582-10-15 apart in the Julian calendar, and joins it in the Gregorian one.
    """
    year, month, day = julian_date_of(days)
    match unit:
        case "DAY":
            # Flink: CEIL of a date to its day is the next one.
            return days_of(year, month, day) + up
        case "WEEK":
            of_week = (days + 4) % 7
            return days_of(year, month, day) - (of_week - 7 if up and of_week else of_week)
        case "MONTH":
            begin = days_of(year, month, 1)
            return add_months(begin, 1) if up and day > 1 else begin
        case "QUARTER":
            begin = days_of(year, (month + 2) // 3 * 3 - 2, 1)
            return add_months(begin, 3) if up and (month > 1 or day > 1) else begin
        case "YEAR":
            return days_of(year + (up and (month > 1 or day > 1)), 1, 1)
        case "DECADE":
            return days_of(toward_zero(year, 10) * 10 + 10 * up, 1, 1)
        case "CENTURY":
            return days_of(toward_zero(year + 99, 100) * 100 + (1 if up else -99), 1, 1)
        case "MILLENNIUM":
            return days_of(toward_zero(year + 999, 1000) * 1000 + (1 if up else -999), 1, 1)
    raise UnsupportedPlan(f"FLOOR to {unit}")


def round_milliseconds(unit: str, milliseconds: int, up: bool) -> int:
    """Round a local reading."""
    if (size := _UNITS_MS.get(unit)) is not None:
        return -(-milliseconds // size) * size if up else milliseconds // size * size
    if unit == "MILLISECOND":
        return milliseconds
    return _round_days(unit, toward_zero(milliseconds, MS_PER_DAY), up) * MS_PER_DAY


def round_time(call: Call, scope: Scope) -> Callable[..., int]:
    """Return FLOOR or CEIL of a date or time to a unit."""
    unit, kind = _unit_of(call.operands[1]), call.operands[0].type
    up = call.name == "$CEIL$1"
    match kind.root:
        case "DATE":
            if unit in _UNITS_MS and unit != "DAY":
                return lambda days, _: days
            return lambda days, _: _round_days(unit, days, up)
        case "TIME":
            return lambda time, _: round_milliseconds(unit, time, up)
        case "TIMESTAMP":
            return lambda moment, _: round_milliseconds(unit, moment // NANOS_PER_MS, up) * NANOS_PER_MS
        case "TIMESTAMP_LTZ":
            zone = old_zone(scope.zone)

            def rounded(moment: int, _: Any) -> int:
                utc_ms = moment // NANOS_PER_MS
                offset = zone.offset_ms(utc_ms)
                return (round_milliseconds(unit, utc_ms + offset, up) - offset) * NANOS_PER_MS

            return rounded
    raise UnsupportedPlan(f"function {call.name} of {kind.root}")


# ---- TIMESTAMPDIFF, TIMESTAMPADD


@strict("$TIMESTAMPDIFF$1")
def _timestamp_diff(call: Call, scope: Scope) -> Callable[..., int]:
    """Return the whole units from a moment to another."""
    unit = _unit_of(call.operands[0])
    earlier, later = milliseconds_of(call.operands[1].type), milliseconds_of(call.operands[2].type)
    months = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}.get(unit)
    size = {**_UNITS_MS, "WEEK": 7 * MS_PER_DAY, "MILLISECOND": 1}.get(unit)
    if months is None and size is None:
        raise UnsupportedPlan(f"TIMESTAMPDIFF in {unit}")

    def difference(_: Any, first: int, second: int) -> int:
        begin, end = earlier(first), later(second)
        if size is not None:
            return toward_zero(end - begin, size)
        (days, rest), (other, other_rest) = divmod(end, MS_PER_DAY), divmod(begin, MS_PER_DAY)
        return toward_zero(months_between(days, other, rest, other_rest), months or 1)

    return difference


# ---- texts of moments


@strict("$DATE_FORMAT$1")
def _date_format(call: Call, scope: Scope) -> Callable[[Any, str], str | None]:
    root = call.operands[0].type.root
    if root == "TIMESTAMP":
        return format_new
    zone = session_zone(scope.zone)
    if root == "TIMESTAMP_LTZ":
        return lambda moment, pattern: format_new(zone.to_local(moment), pattern)
    if root in TEXTS:

        def reformat(text: str, pattern: str) -> str | None:
            moment = parse_old(text, DEFAULT_PATTERN, UTC)
            return None if moment is None else format_old(moment, pattern, UTC)

        return reformat
    if root == "DATE":
        return lambda days, pattern: format_old(days * MS_PER_DAY, pattern, UTC)
    raise UnsupportedPlan(f"function $DATE_FORMAT$1 of {root}")


@strict("$FROM_UNIXTIME$1")
def _from_unixtime(call: Call, scope: Scope) -> Callable[..., str]:
    zone = old_zone(scope.zone)
    return lambda seconds, pattern=DEFAULT_PATTERN: format_old(seconds * 1000, pattern, zone)


@builder("$UNIX_TIMESTAMP$1")
def _unix_timestamp(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    if not operands:
        moment = scope.moment
        return lambda row: moment.processing_ms() // 1000
    zone = old_zone(scope.zone)
    if call.operands[0].type.root in TIMESTAMPS:
        return lambda row: (
            None if (value := operands[0](row)) is None else toward_zero(value // NANOS_PER_MS, 1000)
        )

    def evaluate(row: Row) -> int | None:
        values = [operand(row) for operand in operands]
        if None in values:
            return None
        moment = parse_old(values[0], values[1] if len(values) > 1 else DEFAULT_PATTERN, zone)
        return LONG_MIN if moment is None else toward_zero(moment, 1000)

    return evaluate


@strict("$TO_DATE$1")
def _to_date(call: Call, scope: Scope) -> Callable[..., int | None]:
    if len(call.operands) == 1:
        return parse_date

    def parse(text: str, pattern: str) -> int | None:
        moment = parse_old(text, pattern, UTC)
        # What cannot be read is the date of the least long, in the 32 bits of a date.
        return 622_191_233 if moment is None else moment // MS_PER_DAY

    return parse


@strict("$TO_TIMESTAMP$1")
def _to_timestamp(call: Call, scope: Scope) -> Callable[..., int | None]:
    return lambda text, pattern=None: read_timestamp(text, pattern, call.type.precision)


def read_timestamp(text: str, pattern: str | None, precision: int = 3) -> int | None:
    """Read a timestamp with a pattern of java.time, or as JDBC writes it; NULL where neither fits."""
    unit: int = 10 ** (9 - precision)
    if pattern is None:
        try:
            return timestamp_of_text(text, precision)
        except CastFailed:
            return None
    moment = parse_new(text, pattern)
    if moment is not None:
        return moment // unit * unit
    return _read_jdbc(trim(text))


def _read_jdbc(text: str) -> int | None:
    """Read what java.sql.Date and java.sql.Timestamp read: days beyond the end of a month run on."""
    day, blank, clock = text.partition(" ")
    parts = day.split("-")
    if len(parts) != 3 or len(parts[0]) != 4 or not all(part.isdecimal() for part in parts):
        return None
    year, month, date = map(int, parts)
    if not (1 <= month <= 12 and 1 <= date <= 31 and max(map(len, parts[1:])) <= 2):
        return None
    nanos = days_of(year, month, date) * NANOS_PER_DAY
    if not blank:
        return nanos
    whole, _, fraction = clock.partition(".")
    times = whole.split(":")
    if len(times) != 3 or not all(part.isdecimal() for part in [*times, fraction or "0"]):
        return None
    hour, minute, second = map(int, times)
    return nanos + ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])


@strict("$TO_TIMESTAMP_LTZ$1")
def _to_timestamp_ltz(call: Call, scope: Scope) -> Callable[..., int | None]:
    if call.operands[0].type.root in TEXTS:
        if len(call.operands) == 1:
            # Unlike with a pattern, what cannot be read fails the job.
            return lambda text: timestamp_of_text(text, 3)

        def parse(text: str, pattern: str, zone: str = "UTC") -> int | None:
            default = pattern == DEFAULT_PATTERN
            moment = read_timestamp(text, None if default else pattern, call.type.precision)
            return None if moment is None else lenient_zone(zone).to_utc(moment)

        return parse
    return _moment_of_number


def _moment_of_number(value: Any, precision: int = 3) -> int | None:
    """Return the moment of units of 10 ** -precision s since the epoch; NULL outside the years 0 to 9999."""
    if not 0 <= precision <= 9:
        raise FunctionFailed(f"The precision {precision} is not between 0 and 9.", "TableException")
    nanos_per_unit: int = 10 ** (9 - precision)
    if isinstance(value, float):
        # Flink checks the quotient, which may be within the years where the product exceeds 64 bits.
        inside = not (value / 10**precision < _OLDEST_S or value / 10**precision > _NEWEST_S)
        nanos = integer_of(value * nanos_per_unit, 64) if inside else None
    else:
        nanos = wrap(int(value), 64) * nanos_per_unit
    if nanos is None or not _OLDEST_S <= nanos // NANOS_PER_SECOND <= _NEWEST_S:
        return None
    return nanos


@strict("$CONVERT_TZ$1")
def _convert_tz(call: Call, scope: Scope) -> Callable[[str, str, str], str | None]:
    def convert(text: str, given: str, wanted: str) -> str | None:
        moment = parse_old(text, DEFAULT_PATTERN, old_zone(given))
        return None if moment is None else format_old(moment, DEFAULT_PATTERN, old_zone(wanted))

    return convert


# ---- now


def _now(of: Callable[[int, Zone], int]) -> Any:
    """Return the builder of a function of processing time and the session's zone."""

    def build(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
        moment, zone = scope.moment, session_zone(scope.zone)
        return lambda row: of(moment.processing_ms(), zone)

    return build


builder(
    "$PROCTIME$1", "$PROCTIME_MATERIALIZE$1", "$CURRENT_TIMESTAMP$1", "$NOW$1", "$CURRENT_ROW_TIMESTAMP$1"
)(_now(lambda now, zone: now * NANOS_PER_MS))
builder("$LOCALTIMESTAMP$1")(_now(lambda now, zone: zone.local_ms(now) * NANOS_PER_MS))
builder("$LOCALTIME$1", "$CURRENT_TIME$1")(_now(lambda now, zone: zone.local_ms(now) % MS_PER_DAY))
builder("$CURRENT_DATE$1")(_now(lambda now, zone: zone.local_ms(now) // MS_PER_DAY))


# ---- OVERLAPS


@builder("$OVERLAPS$1", "$TEMPORAL_OVERLAPS$1")
def _overlaps(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """Return whether two periods, each a moment and its end or length, have a moment in common."""
    kinds = [operand.type for operand in call.operands]

    def end_of(begin: int, value: int, at: int) -> int:
        kind, time = kinds[at], kinds[at - 1]
        if kind.root == "INTERVAL_MONTHS":
            if time.root == "DATE":
                return add_months(begin, value)
            days, rest = divmod(begin, NANOS_PER_DAY)
            return add_months(days, value) * NANOS_PER_DAY + rest
        if kind.root == "INTERVAL_MS":
            unit = NANOS_PER_MS if time.root in TIMESTAMPS else 1
            return begin + (toward_zero(value, MS_PER_DAY) if time.root == "DATE" else value * unit)
        return value

    def evaluate(row: Row) -> bool | None:
        values = [operand(row) for operand in operands]
        if None in values:
            return None
        first = sorted((values[0], end_of(values[0], values[1], 1)))
        second = sorted((values[2], end_of(values[2], values[3], 3)))
        return bool(first[1] >= second[0] and second[1] >= first[0])

    return evaluate
