"""What CAST reads from texts (Flink: BinaryStringDataUtil, DateTimeUtils).

Each function returns the value or raises ``CastFailed`` with the class and message of Java's exception.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from onceproof.engine.table.expressions.calendar import days_of, last_day
from onceproof.engine.table.expressions.java_strings import NumberFormat, parse_double
from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.types import INTEGERS
from onceproof.engine.table.values import NANOS_PER_DAY, NANOS_PER_MS, to_decimal, to_float32

TRUE_WORDS: Final = frozenset({"t", "true", "y", "yes", "1"})
FALSE_WORDS: Final = frozenset({"f", "false", "n", "no", "0"})
_TIMESTAMP: Final = re.compile(
    r"(\d{4}|\+\d{5,}|-\d{4,})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{0,9}))?)?",
    re.ASCII,
)
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_SHORT_DECIMAL: Final = re.compile(
    r"[ \n\t]*([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+)[^.]?|[^\d.])?[ \n\t]*", re.ASCII | re.DOTALL
)
_INTEGER: Final = re.compile(r"[+-]?\d*(?:\.\d*)?", re.ASCII)
_LONG_DIGITS: Final = 18
_BLANKS: Final = " \n\t"
_DATE: Final = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*(?:-\s*(\d+)\s*)?)?", re.ASCII)
_NUMBER_CLASS: Final = "java.lang.NumberFormatException"
_RANGES: Final = (
    ("MonthOfYear", 1, "12"),
    ("DayOfMonth", 1, "28/31"),
    ("HourOfDay", 0, "23"),
    ("MinuteOfHour", 0, "59"),
    ("SecondOfMinute", 0, "59"),
)
"""The fields of a timestamp in the order in which Java looks at them, with what it calls their range."""
_TIME_CLASS: Final = "java.time.DateTimeException"


class CastFailed(FunctionFailed):
    """A value cannot be converted: CAST fails the job, TRY_CAST is NULL."""


def boolean_of(text: str) -> bool:
    """Read a boolean."""
    word = text.lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise CastFailed(f"Cannot parse '{text}' as BOOLEAN.", "org.apache.flink.table.api.TableException")


def integer_of_text(text: str, root: str) -> int:
    """Read an integer; a fraction is cut off, and must be of digits."""
    trimmed = text.strip(" ")
    if not trimmed:
        raise _no_number(trimmed, "Input is empty.")
    if trimmed in ("+", "-"):
        raise _no_number(trimmed, "Input has only positive or negative symbol.")
    if _INTEGER.fullmatch(trimmed) is None:
        raise _no_number(trimmed, "Invalid character found.")
    whole = trimmed.partition(".")[0]
    value = int(whole) if whole.strip("+-") else 0
    half = 1 << (INTEGERS[root] - 1)
    if not -half <= value < half:
        raise _no_number(trimmed, "Overflow.")
    return value


def _no_number(text: str, reason: str) -> CastFailed:
    return CastFailed(f"For input string: '{text}'. {reason}", _NUMBER_CLASS)


def double_of(text: str) -> float:
    """Read a DOUBLE."""
    try:
        return parse_double(text)
    except NumberFormat as error:
        raise CastFailed(str(error), _NUMBER_CLASS) from None


def float_of(text: str) -> float:
    """Read a FLOAT."""
    return to_float32(double_of(text))


def decimal_of(text: str, precision: int, scale: int) -> Decimal:
    """Read a decimal. Short texts may have one character behind the number, whatever it is."""
    trimmed = text.strip(" ")
    if precision > _LONG_DIGITS or len(trimmed.encode()) > _LONG_DIGITS:
        if _DECIMAL.fullmatch(trimmed.strip(_BLANKS)) is None:
            raise _no_number(trimmed, "Invalid character found.")
        found = to_decimal(Decimal(trimmed.strip(_BLANKS)), precision, scale)
    else:
        found = _short_decimal(trimmed, precision, scale)
    if found is None:
        raise _no_number(trimmed, "Overflow.")
    return found


def _short_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """Read a decimal that fits into 64 bits (Flink: toDecimalFromBytes, which also counts leading zeros)."""
    match = _SHORT_DECIMAL.fullmatch(text)
    if match is None or text.strip(_BLANKS) in ("", "+", "-"):
        return None
    sign, whole, fraction, exponent = match.groups()
    digits = whole + (fraction or "")
    change = int(exponent or 0) - len(fraction or "") + scale
    if len(digits) + change > precision:
        return None
    return to_decimal(Decimal(f"{sign}{digits or '0'}").scaleb(change - scale), precision, scale)


def parse_date(text: str) -> int | None:
    """Return the days of year, year-month or year-month-day; what follows a blank is ignored."""
    blank = text.find(" ")
    match = _DATE.fullmatch(text[:blank] if blank > 0 else text)
    if match is None:
        return None
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    for part in match.groups():
        if part is not None and int(part) >= 1 << 31:
            raise CastFailed(f'For input string: "{part}"', _NUMBER_CLASS)
    if year > 9999 or not 1 <= month <= 12 or not 1 <= day <= last_day(year, month):
        return None
    return days_of(year, month, day)


def date_of_text(text: str) -> int:
    """Read a date."""
    days = parse_date(text)
    if days is None:
        raise CastFailed(f"For input string: '{text}'.", _TIME_CLASS)
    return days


def parse_time(text: str) -> int | None:
    """Return the milliseconds of hours, minutes, seconds, with a fraction and an offset."""
    match = re.fullmatch(
        r"\s*(\d+)\s*(?::\s*(\d+)\s*(?::\s*(\d+)\s*(?:\.([^+-]*))?)?)?(?:([+-])\s*(\d+)\s*(?::\s*(\d+)\s*)?)?",
        text,
        re.ASCII,
    )
    if match is None:
        return None
    hour, minute, second = int(match[1]), int(match[2] or 0), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    sign = -1 if match[5] == "-" else 1
    hour += sign * int(match[6] or 0)
    minute += sign * int(match[7] or 0)
    return ((hour * 60 + minute) * 60 + second) * 1000 + _milliseconds((match[4] or "").strip())


def _milliseconds(fraction: str) -> int:
    digits = [int(each) if each in "0123456789" else 0 for each in fraction[:3].ljust(3, "0")]
    rounded = len(fraction) > 3 and fraction[3] >= "5"
    return digits[0] * 100 + digits[1] * 10 + digits[2] + rounded


def time_of_text(text: str) -> int:
    """Read a time."""
    milliseconds = parse_time(text)
    if milliseconds is None:
        raise CastFailed(f"For input string: '{text}'.", _TIME_CLASS)
    return milliseconds


def timestamp_of_text(text: str, precision: int) -> int:
    """Read a timestamp of yyyy-MM-dd and perhaps, behind one blank, HH:mm:ss and a fraction."""
    match = _TIMESTAMP.fullmatch(text)
    if match is not None:
        year, month, day, hour, minute, second = (int(each or 0) for each in match.groups()[:6])
        fraction = int((match[7] or "").ljust(9, "0"))
        ends_day = (hour, minute, second, fraction) == (24, 0, 0, 0)
        for value, (name, least, most) in zip(
            (month, day, hour % 24 if ends_day else hour, minute, second), _RANGES, strict=True
        ):
            if not least <= value <= int(most.rpartition("/")[2]):
                message = f"Invalid value for {name} (valid values {least} - {most}): {value}"
                raise CastFailed(message, _TIME_CLASS)
        unit: int = 10 ** (9 - precision)
        days = days_of(year, month, min(day, last_day(year, month)))
        clock = ((hour * 60 + minute) * 60 + second) * 1000 * NANOS_PER_MS
        return days * NANOS_PER_DAY + clock + fraction // unit * unit
    raise CastFailed(
        f"Text '{text}' could not be parsed at index {_failed_at(text)}",
        "java.time.format.DateTimeParseException",
    )


def _failed_at(text: str) -> int:
    """Return where Java's parser stops: at the first part that does not fit."""
    match = re.match(r"\d{4}(?:-(?:\d{1,2}(?:-(?:\d{1,2})?)?)?)?", text, re.ASCII)
    return 0 if match is None else match.end()
