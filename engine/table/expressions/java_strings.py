"""Texts of values as Java writes them, and numbers as Java reads them.

Java counts a text in units of UTF-16. Python counts code points, which differ only beyond U+FFFF: what takes
positions works on ``units`` there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

from onceproof.engine.table.expressions.calendar import date_of
from onceproof.engine.table.values import MS_PER_DAY, NANOS_PER_DAY, to_float32

_FLOAT: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)", re.ASCII)
_BLANK: Final = "".join(map(chr, range(33)))
"""What Java's ``trim`` removes."""


class NumberFormat(ValueError):
    """A text is no number (Java: NumberFormatException)."""


def units(text: str) -> str:
    """Return a text whose characters are units of UTF-16."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join([chr(data[at] | data[at + 1] << 8) for at in range(0, len(data), 2)])


def from_units(text: str) -> str:
    """Return the text of units; half a pair is a question mark."""
    if text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text):
        return text
    data = b"".join([ord(each).to_bytes(2, "little") for each in text])
    return data.decode("utf-16-le", "replace").replace("\ufffd", "?")


def java_hash(text: str) -> int:
    """Return ``String.hashCode``."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (31 * value + unit) & 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def in_hash_map(keys: Iterable[str], expected: int) -> list[str]:
    """Return keys, each once and in order of insertion, in the order of a java.util.HashMap.

    Args:
        keys: the keys.
        expected: of how many keys Flink makes the map.
    """
    places = 1
    while places * 3 < expected * 4 or places <= expected <= 2:
        places *= 2

    def place(key: str) -> int:
        code = java_hash(key) & 0xFFFF_FFFF
        return (code ^ code >> 16) % places

    return sorted(keys, key=place)


def trim(text: str) -> str:
    """Return a text without blanks and control characters at its ends."""
    return text.strip(_BLANK)


def is_number(text: str) -> bool:
    """Return whether ``Double.parseDouble`` reads a text."""
    return _FLOAT.fullmatch(trim(text)) is not None


def parse_double(text: str) -> float:
    """Read what ``Double.parseDouble`` reads. Raises NumberFormat."""
    trimmed = trim(text)
    if _FLOAT.fullmatch(trimmed) is None:
        raise NumberFormat(f'For input string: "{text}"' if trimmed else "empty String")
    if trimmed[-1] in "fFdD" and not trimmed.endswith("Infinity"):
        trimmed = trimmed[:-1]
    return float(trimmed.replace("Infinity", "inf"))


def parse_float(text: str) -> float:
    """Read what ``Float.parseFloat`` reads. Raises NumberFormat."""
    return to_float32(parse_double(text))


def not_a_decimal(value: float) -> str:
    """Return what Java says of NaN and infinities as decimals."""
    mark = "N" if value != value else "I"
    text = 'neither a decimal digit number, decimal point, nor "e" notation exponential mark'
    return f"Character {mark} is {text}."


def integer_of(value: float, bits: int) -> int:
    """Return a float as an integer of 32 or 64 bits: cut, within its limits, NaN as 0."""
    if value != value:
        return 0
    half = 1 << (bits - 1)
    if value >= half:
        return half - 1
    return -half if value < -half else int(value)


def decimal_text(value: Decimal) -> str:
    """Return what ``BigDecimal.toPlainString`` returns."""
    return f"{value:f}" if value else f"{abs(value):f}"


# ---- dates, times, intervals


def date_text(days: int) -> str:
    """Return yyyy-MM-dd; of years beyond four digits the last four."""
    year, month, day = date_of(days)
    if year < 0:
        # Java's remainders are negative, and no digits: they are added to the zero as others are.
        digits = "".join([chr(ord("0") - -year // power % 10) for power in (1000, 100, 10, 1)])
        return f"{digits}-{month:02d}-{day:02d}"
    return f"{year % 10000:04d}-{month:02d}-{day:02d}"


def time_text(milliseconds: int, precision: int) -> str:
    """Return HH:mm:ss with a fraction without zeros at its end, but one digit at least.

    A negative time, which a cast of a moment before 1970 gives, counts from the end of the day.
    """
    if milliseconds < 0:
        milliseconds %= MS_PER_DAY
    seconds, fraction = divmod(milliseconds, 1000)
    minutes, second = divmod(seconds, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    return f"{text}.{f'{fraction:03d}'[:precision].rstrip('0') or '0'}" if precision else text


def timestamp_text(nanos: int, precision: int) -> str:
    """Return a timestamp with so many digits of fraction."""
    days, rest = divmod(nanos, NANOS_PER_DAY)
    seconds, fraction = divmod(rest, 1_000_000_000)
    text = f"{date_text(days)} {time_text(seconds * 1000, 0)}"
    digits = f"{fraction:09d}"[:precision]
    return f"{text}.{digits}" if digits else text


def moment_text(nanos: int) -> str:
    """Return what ``LocalDateTime.toString`` returns: no seconds if they are zero, groups of three digits."""
    whole, _, fraction = timestamp_text(nanos, 9).replace(" ", "T").partition(".")
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    if fraction:
        return f"{whole}.{fraction}"
    return whole.removesuffix(":00") if nanos % 60_000_000_000 == 0 else whole


def months_text(months: int) -> str:
    """Return an interval of months as +years-months."""
    years, rest = divmod(abs(months), 12)
    return f"{'-' if months < 0 else '+'}{years}-{rest:02d}"


def interval_text(milliseconds: int) -> str:
    """Return an interval of time as +days hours:minutes:seconds.milliseconds."""
    days, rest = divmod(abs(milliseconds), MS_PER_DAY)
    seconds, fraction = divmod(rest, 1000)
    return f"{'-' if milliseconds < 0 else '+'}{days} {time_text(seconds * 1000, 0)}.{fraction:03d}"


def boolean_text(value: Any) -> str:
    """Return TRUE or FALSE."""
    return "TRUE" if value else "FALSE"
