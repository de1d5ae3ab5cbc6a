"""How values are printed: those of a declared type as Flink prints them, all others as Python does.

In PyFlink a value of a declared type is an object of Java where it reaches a sink, so ``print`` and the
simple string encoder write what Java's ``toString`` gives: ``(a,1)`` for a tuple, ``true``, ``1.0E10``. A
value without a declared type is pickled there, and printed by ``str``. A row is ``+I[a, 1]`` in a file;
``print`` has Python write the fields of a row, and no space between them.

A value that is none of its declared type is printed by ``str``, too: what is right is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, time
from decimal import Decimal
from struct import pack, unpack
from typing import Any, Final, TypeAlias

from onceproof.engine.types.composite import ListType, MapType, TupleType
from onceproof.engine.types.information import TypeInformation
from onceproof.engine.types.row import Row, RowType
from onceproof.engine.types.wrapped import NullableType

Text: TypeAlias = Callable[[Any], str]

_LEAST_PLAIN: Final = 1e-3
_LEAST_SCIENTIFIC: Final = 1e7
_MOST_DIGITS: Final = 9
"""So many digits tell any two floats of 32 bits apart."""


def _real(value: Any) -> str:
    """Return a number of type DOUBLE as Double.toString does."""
    return _shortest(value, repr(value)) if type(value) is float else str(value)


def _float(value: Any) -> str:
    """Return a number of type FLOAT as Float.toString does: by the digits that a float of 32 bits needs."""
    if type(value) is not float or value != value or abs(value) == float("inf"):
        return _real(value)
    stored = pack("f", value)
    (value,) = unpack("f", stored)
    texts = (f"{value:.{digits}g}" for digits in range(1, _MOST_DIGITS))
    text = next((text for text in texts if pack("f", float(text)) == stored), None)
    return _shortest(value, f"{value:.{_MOST_DIGITS}g}" if text is None else text)


def _shortest(value: float, text: str) -> str:
    if value != value:
        return "NaN"
    if abs(value) == float("inf"):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _LEAST_PLAIN <= abs(value) < _LEAST_SCIENTIFIC:
        plain = f"{Decimal(text):f}"
        return plain if "." in plain else f"{plain}.0"
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    assert isinstance(exponent, int)
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{exponent + len(digits) - 1}"


def _boolean(value: Any) -> str:
    return str(value).lower() if type(value) is bool else str(value)


def _timestamp(value: Any) -> str:
    """Return a time as java.sql.Timestamp does: at least one digit of a second's fraction, no needless 0."""
    if not isinstance(value, datetime):
        return str(value)
    fraction = f"{value.microsecond:06}".rstrip("0") or "0"
    return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}"


def _time(value: Any) -> str:
    return f"{value:%H:%M:%S}" if isinstance(value, time) else str(value)


def _bytes(value: Any) -> str:
    """Return bytes as Flink shows an array: Java's bytes have a sign."""
    return str(list(memoryview(value).cast("b"))) if isinstance(value, bytes) else str(value)


_SCALARS: Final[Mapping[str, Text]] = {
    "BOOLEAN": _boolean,
    "FLOAT": _float,
    "DOUBLE": _real,
    "SQL_TIME": _time,
    "SQL_TIMESTAMP": _timestamp,
    "BYTES": _bytes,
}
"""What differs from ``str``."""


def text_of(value_type: TypeInformation | None) -> Text:
    """Return the function that gives a value's text.

    Args:
        value_type: the declared type; None: there is none.
    """
    match value_type:
        case TupleType(fields=fields):
            return _fields(fields, tuple, ("(", ",", ")"))
        case RowType(fields=fields):
            return _fields(fields, Row, ("+I[", ", ", "]"))
        case ListType(element=element):
            element_text = _inner(element)
            return lambda value: _joined(map(element_text, value)) if type(value) is list else str(value)
        case MapType(key=key, value=item):
            return _map(_inner(key), _inner(item))
        case NullableType(inner=inner):
            return _inner(inner)
        case TypeInformation(name=name):
            return _SCALARS.get(name, str)
    return str


def printed_text_of(value_type: TypeInformation | None) -> Text:
    """Return the function by which ``print`` writes a value: ``text_of``, but a row's fields by ``str``."""
    if not isinstance(value_type, RowType):
        return text_of(value_type)
    return lambda row: f"+I[{','.join(map(str, row))}]" if isinstance(row, Row) else str(row)


def _inner(value_type: TypeInformation) -> Text:
    """Return the function for a value within another one, which may be None."""
    text = text_of(value_type)
    return lambda value: "null" if value is None else text(value)


def _joined(texts: Any) -> str:
    return f"[{', '.join(texts)}]"


def _fields(
    fields: Sequence[TypeInformation], kind: type[tuple[Any, ...] | Row], marks: tuple[str, str, str]
) -> Text:
    texts, (start, between, end) = [_inner(field) for field in fields], marks

    def text(value: Any) -> str:
        if not isinstance(value, kind) or len(value) != len(texts):
            return str(value)
        return f"{start}{between.join([of(item) for of, item in zip(texts, value, strict=True)])}{end}"

    return text


def _map(key_text: Text, item_text: Text) -> Text:
    def text(value: Any) -> str:
        if not isinstance(value, dict):
            return str(value)
        return f"{{{', '.join(f'{key_text(key)}={item_text(item)}' for key, item in value.items())}}}"

    return text
