"""Numbers, times and bytes as text, as Java reads and writes them: what messages of JSON and CSV share.

The rules this module lives by:

- A text that Java refuses is a ValueError, also where Python would read it, such as ``1_000`` or ``inf``.
- A number is written with the digits that Java writes: ``1.0E10``, and the shortest that mean the same float.
- A text of any length costs time in proportion to its length, so that none from outside holds a task up.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from datetime import date, datetime, time
from decimal import Decimal
from typing import Final

from onceproof.engine.types.scalars import PACK_FLOAT, UNPACK_FLOAT

LONGEST_INTEGER: Final = 4300
"""Digits of an integer; Python's own limit, beyond which reading one costs more than its length."""
LARGEST_EXPONENT: Final = (1 << 31) - 1
_BLANKS: Final = "".join(map(chr, range(33)))
_INTEGER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE]([+-]?\d{1,10}))?")
_FLOAT: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_NOT_FINITE: Final = re.compile(r"[+-]?(NaN|Infinity)")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_FLOAT_DIGITS: Final = 9
_PLAIN_FROM: Final = 1e-3
_PLAIN_BELOW: Final = 1e7


def trimmed(text: str) -> str:
    """Return a text without the blanks and controls at its ends (Java: String.trim)."""
    return text.strip(_BLANKS)


def integer_of(text: str) -> int:
    """Read an integer (Java: Long.parseLong, and BigInteger for what is larger)."""
    if len(text) > LONGEST_INTEGER or not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def double_of(text: str) -> float:
    """Read a float of 64 bits (Java: Double.parseDouble); hexadecimal ones are refused."""
    match = _FLOAT.fullmatch(text)
    if match is not None:
        return float(match[1])
    if _NOT_FINITE.fullmatch(text):
        return float(text)
    raise ValueError(text)


def rounded_to_float(value: float) -> float:
    """Return the nearest float of 32 bits; infinity beyond them."""
    try:
        (rounded,) = UNPACK_FLOAT(PACK_FLOAT(value))
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return float(rounded)


def decimal_of(text: str) -> Decimal:
    """Read a decimal with all its digits (Java: new BigDecimal)."""
    match = _DECIMAL.fullmatch(text)
    if match is None or abs(int(match[3] or 0)) > LARGEST_EXPONENT:
        raise ValueError(text)
    return Decimal(text)


def boolean_of(text: str) -> bool:
    """Return whether a text is the word true; any other is false (Java: Boolean.parseBoolean)."""
    return text.lower() == "true"


def bytes_of(text: str) -> bytes:
    """Read bytes in Base64, with its padding."""
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(text) from None


def date_of(text: str) -> date:
    """Read a date as in ISO 8601, such as 2026-01-31."""
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return date.fromisoformat(text)


def decimal_text(value: Decimal) -> str:
    """Return a decimal as Java has it (BigDecimal.toString). Raises ValueError for one that is not finite."""
    if not value.is_finite():
        raise ValueError(f"{value} is not a number")
    return str(value)


def double_text(value: float) -> str:
    """Return a float of 64 bits as Java has it (Double.toString)."""
    return _float_text(value, repr(value))


def float_text(value: float) -> str:
    """Return a float of 32 bits as Java has it (Float.toString): with the fewest digits that mean it."""
    if value - value != 0:
        return _float_text(value, "")
    for digits in range(1, _FLOAT_DIGITS + 1):
        shortest = f"{value:.{digits}g}"
        if rounded_to_float(float(shortest)) == rounded_to_float(value):
            break
    return _float_text(value, shortest)


def _float_text(value: float, shortest: str) -> str:
    if value - value != 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    minus = "-" if sign else ""
    figures = "".join(map(str, digits)).rstrip("0") or "0"
    if not value or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        plain = format(Decimal(shortest), "f")
        whole, _, fraction = plain.partition(".")
        return f"{whole}.{fraction.rstrip('0') or '0'}"
    power = exponent + len(digits) - 1
    return f"{minus}{figures[0]}.{figures[1:] or '0'}E{power}"


def fraction_text(value: datetime | time) -> str:
    """Return the fraction of a second with its point, without zeros at its end; "" where it is none."""
    return f".{value.microsecond:06d}".rstrip("0").rstrip(".")
