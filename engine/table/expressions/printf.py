"""PRINTF: java.util.Formatter for the values that SQL has."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

from onceproof.engine.java_hashes import hash_bool, hash_double, hash_float, hash_long
from onceproof.engine.table.expressions.java_floats import double_text, float_text
from onceproof.engine.table.expressions.java_strings import decimal_text, moment_text
from onceproof.engine.table.expressions.registry import Evaluate, Scope, builder
from onceproof.engine.table.expressions.rex import Call
from onceproof.engine.table.hash_order import murmur_bytes
from onceproof.engine.table.types import INTEGERS, TIMESTAMPS, LogicalType
from onceproof.engine.table.values import DECIMALS, Row

_SPECIFIER: Final = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(<]*)([1-9]\d*)?(?:\.(\d+))?([a-zA-Z%])")


class IllegalFormat(ValueError):
    """A format does not fit its arguments (IllegalFormatException)."""


def java_format(text: str, arguments: Sequence[Any], kinds: Sequence[LogicalType]) -> str:
    """Return what ``String.format`` returns.

    Args:
        text: the format.
        arguments: the values.
        kinds: their types.

    Raises:
        IllegalFormat: it does not fit.
    """
    following = 0
    last = -1

    def replace(match: re.Match[str]) -> str:
        nonlocal following, last
        index, flags, width, precision, letter = match.groups()
        _check(match[0], flags, width, precision, letter)
        if letter in "%n":
            return _filled("%" if letter == "%" else "\n", flags, width)
        if "<" in flags:
            place = last
        elif index is not None:
            place = int(index) - 1
        else:
            place, following = following, following + 1
        if not 0 <= place < len(arguments):
            raise IllegalFormat(f"Format specifier '{match[0]}'")
        last = place
        digits = None if precision is None else int(precision)
        return _filled(_converted(arguments[place], letter, flags, width, digits, kinds[place]), flags, width)

    if "%" in _SPECIFIER.sub("", text):
        raise IllegalFormat("Conversion = '%'")
    return _SPECIFIER.sub(replace, text)


_FLAGS: Final = {
    **dict.fromkeys("sShH", "-"),
    **dict.fromkeys("bBcC%", "-"),
    "d": "-+ 0,(",
    **dict.fromkeys("xXo", "-#+ 0("),
    "f": "-#+ 0,(",
    **dict.fromkeys("eE", "-#+ 0("),
    **dict.fromkeys("gG", "-+ 0,("),
    **dict.fromkeys("aA", "-#+ 0"),
    "n": "",
}
"""The conversions that there are for the values of SQL, and which flags go with each."""
_WITHOUT_PRECISION: Final = frozenset("cCdxXon%")


def _check(specifier: str, flags: str, width: str | None, precision: str | None, letter: str) -> None:
    """Raise IllegalFormat where Java refuses a specifier, whatever its value is."""
    allowed = _FLAGS.get(letter)
    both = ("+" in flags and " " in flags) or ("-" in flags and "0" in flags)
    given = flags.replace("<", "")
    if (
        allowed is None
        or any(flag not in allowed for flag in given)
        or both
        or len(set(flags)) < len(flags)
        or (width is None and ("-" in flags or "0" in flags))
        or (width is not None and letter == "n")
        or (precision is not None and letter in _WITHOUT_PRECISION)
    ):
        raise IllegalFormat(f"Format specifier '{specifier}'")


def _filled(text: str, flags: str, width: str | None) -> str:
    size = int(width or 0)
    return text.ljust(size) if "-" in flags else text.rjust(size)


def _converted(
    value: Any, letter: str, flags: str, width: str | None, digits: int | None, kind: LogicalType
) -> str:
    upper = letter.isupper()
    number = isinstance(value, int) and not isinstance(value, bool)
    match letter.lower():
        case "b":
            text = _boolean(value if isinstance(value, bool) else value is not None)[:digits]
        case "c" if value is None:
            text = "null"
        case "c" if number and kind.root != "BIGINT" and 0 <= value <= 0x10FFFF:
            text = chr(value)
        case _ if value is None:
            # What is too long is cut, NULL like other words.
            text = "null"[:digits]
        case "s":
            text = _text(value, kind)[:digits]
        case "h":
            text = f"{_hash(value, kind) & 0xFFFF_FFFF:x}"[:digits]
        case "d" if number:
            text = _signed(f"{abs(value):,}" if "," in flags else str(abs(value)), value < 0, flags, width)
        case "x" | "o" if number and not set(flags) & set("+ ("):
            bits = INTEGERS.get(kind.root, 64)
            mark = {"x": "0x", "o": "0"}[letter.lower()] if "#" in flags else ""
            text = f"{value & ((1 << bits) - 1):{letter.lower()}}"
            text = mark + (text.zfill(int(width or 0) - len(mark)) if "0" in flags else text)
        case "f" | "e" | "g" if isinstance(value, float):
            text = _number(value, letter.lower(), digits, flags, width)
        case "a" if isinstance(value, float) and digits is None and math.isfinite(value):
            mantissa, _, exponent = abs(value).hex().partition("p")
            mantissa = re.sub(r"(\.\d?[0-9a-f]*?)0+$", r"\1", mantissa if "." in mantissa else f"{mantissa}.")
            mantissa = f"{mantissa}0" if mantissa.endswith(".") else mantissa
            text = _signed(f"{mantissa}p{int(exponent)}", math.copysign(1, value) < 0, flags, width)
        case _:
            raise IllegalFormat(f"{letter} != {type(value).__name__}")
    return text.upper() if upper else text


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _text(value: Any, kind: LogicalType) -> str:
    if isinstance(value, bool):
        return _boolean(value)
    if kind.root == "FLOAT":
        return float_text(value)
    if kind.root in TIMESTAMPS:
        return moment_text(value)
    if kind.root == "DECIMAL":
        return decimal_text(value)
    return double_text(value) if isinstance(value, float) else str(value)


def _hash(value: Any, kind: LogicalType) -> int:
    """Return what ``hashCode`` of Flink's value returns."""
    match kind.root:
        case "BOOLEAN":
            return hash_bool(value)
        case "BIGINT":
            return hash_long(value)
        case "FLOAT":
            return hash_float(value)
        case "DOUBLE":
            return hash_double(value)
        case "CHAR" | "VARCHAR":
            return murmur_bytes(value.encode())
    if isinstance(value, int) and kind.root not in TIMESTAMPS:
        return value
    raise IllegalFormat(f"the hash code of {kind.root}")


def _signed(text: str, negative: bool, flags: str, width: str | None) -> str:
    if negative and "(" in flags:
        return f"({text.zfill(int(width or 0) - 2) if '0' in flags else text})"
    sign = "-" if negative else "+" if "+" in flags else " " if " " in flags else ""
    return sign + (text.zfill(int(width or 0) - len(sign)) if "0" in flags else text)


def _number(value: float, letter: str, digits: int | None, flags: str, width: str | None) -> str:
    exact = Decimal(double_text(value))
    if not exact.is_finite():
        return double_text(value)
    places = 6 if digits is None else digits
    if letter == "g":
        letter, places = _general(exact, places or 1)
    if letter == "e":
        text = f"{abs(exact):.{places}e}" if exact else f"{0:.{places}e}"
        mantissa, _, exponent = text.partition("e")
        text = f"{mantissa}e{int(exponent):+03d}"
    else:
        rounded = abs(exact).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP, context=DECIMALS)
        text = f"{rounded:,f}" if "," in flags else f"{rounded:f}"
    return _signed(text, exact.is_signed(), flags, width)


def _general(exact: Decimal, significant: int) -> tuple[str, int]:
    """Return the conversion that ``g`` stands for, and its digits behind the point."""
    if not exact:
        return "f", significant - 1
    rounded = Context(prec=significant, rounding=ROUND_HALF_UP).plus(exact)
    if -4 <= rounded.adjusted() < significant:
        return "f", significant - rounded.adjusted() - 1
    return "e", significant - 1


@builder("$PRINTF$1")
def _printf(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """A format that does not fit gives NULL."""
    form, *others = operands
    kinds = [operand.type for operand in call.operands[1:]]
    show: Callable[..., str] = java_format

    def evaluate(row: Row) -> str | None:
        text = form(row)
        if text is None:
            return None
        try:
            return show(text, [other(row) for other in others], kinds)
        except IllegalFormat:
            return None

    return evaluate
