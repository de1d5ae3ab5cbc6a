"""PRINTF: java.util.Formatter for the values that SQL has."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from onceproof.engine.table.expressions.java_floats import double_text
from onceproof.engine.table.expressions.registry import Evaluate, Scope, builder
from onceproof.engine.table.expressions.rex import Call
from onceproof.engine.table.types import INTEGERS
from onceproof.engine.table.values import Row

_SPECIFIER: Final = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(<]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")


class IllegalFormat(ValueError):
    """A format does not fit its arguments (IllegalFormatException)."""


def java_format(text: str, arguments: Sequence[Any], bits: Sequence[int]) -> str:
    """Return what ``String.format`` returns.

    Args:
        text: the format.
        arguments: the values.
        bits: of each value that is an integer; 0 for others.

    Raises:
        IllegalFormat: it does not fit.
    """
    following = 0
    last = -1

    def replace(match: re.Match[str]) -> str:
        nonlocal following, last
        index, flags, width, precision, letter = match.groups()
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
        return _filled(_converted(arguments[place], letter, flags, width, digits, bits[place]), flags, width)

    if "%" in _SPECIFIER.sub("", text):
        raise IllegalFormat("Conversion = '%'")
    return _SPECIFIER.sub(replace, text)


def _filled(text: str, flags: str, width: str | None) -> str:
    size = int(width or 0)
    return text.ljust(size) if "-" in flags else text.rjust(size)


def _converted(value: Any, letter: str, flags: str, width: str | None, digits: int | None, bits: int) -> str:
    upper = letter.isupper()
    match letter.lower():
        case "s":
            text = _text(value)
            text = text if digits is None else text[:digits]
        case "b":
            text = ("true" if value else "false") if isinstance(value, bool) else _boolean(value is not None)
        case "c":
            text = "null" if value is None else value if isinstance(value, str) else chr(value)
        case _ if value is None:
            text = "null"
        case "d" if isinstance(value, int):
            text = _signed(f"{abs(value):,}" if "," in flags else str(abs(value)), value < 0, flags, width)
        case "x" | "o" if isinstance(value, int):
            text = f"{value & ((1 << bits) - 1):{letter.lower()}}"
            text = text.zfill(int(width or 0)) if "0" in flags else text
        case "f" | "e" if isinstance(value, (float, Decimal)):
            text = _number(value, letter.lower(), digits, flags, width)
        case _:
            raise IllegalFormat(f"{letter} != {type(value).__name__}")
    return text.upper() if upper else text


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else _boolean(value)
    return double_text(value) if isinstance(value, float) else str(value)


def _signed(text: str, negative: bool, flags: str, width: str | None) -> str:
    if negative and "(" in flags:
        return f"({text})"
    sign = "-" if negative else "+" if "+" in flags else " " if " " in flags else ""
    return sign + (text.zfill(int(width or 0) - len(sign)) if "0" in flags else text)


def _number(value: Any, letter: str, digits: int | None, flags: str, width: str | None) -> str:
    exact = Decimal(double_text(value)) if isinstance(value, float) else value
    if not exact.is_finite():
        return double_text(value)
    places = 6 if digits is None else digits
    if letter == "e":
        text = f"{abs(exact):.{places}e}"
        mantissa, _, exponent = text.partition("e")
        text = f"{mantissa}e{int(exponent):+03d}"
    else:
        rounded = abs(exact).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
        text = f"{rounded:,f}" if "," in flags else f"{rounded:f}"
    return _signed(text, exact.is_signed(), flags, width)


@builder("$PRINTF$1")
def _printf(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """A format that does not fit gives NULL."""
    form, *others = operands
    bits = [INTEGERS.get(operand.type.root, 0) for operand in call.operands[1:]]
    show: Callable[..., str] = java_format

    def evaluate(row: Row) -> str | None:
        text = form(row)
        if text is None:
            return None
        try:
            return show(text, [other(row) for other in others], bits)
        except IllegalFormat:
            return None

    return evaluate
