"""The values of tables as formats of messages have them.

Rules:

- Formats (``engine/formats``) read and write values of ``TypeInformation``. Each type of SQL has one; those
  of times are texts, because a format has several ways to write them.
- Times are texts as in Flink's SQL: ``2026-01-31 10:20:30.5``, with a Z behind those with a local time zone,
  or with a T in the middle as in ISO 8601.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.table.python_values import SCALARS, from_python, same, to_python
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import MS_PER_DAY, time_text, timestamp_of, timestamp_text
from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.types.row import RowType, make_row

Convert = Callable[[Any], Any]

_TIME: Final = re.compile(r"\d{1,2}:\d{1,2}(:\d{1,2}(\.\d{1,9})?)?", re.ASCII)
_TIMESTAMP: Final = re.compile(r"\d{4}-\d{2}-\d{2}([T ])\d{2}:\d{2}:\d{2}(\.\d{0,9})?(Z?)", re.ASCII)
_NO_ZEROS: Final = re.compile(r"\.?0*$")
_SCALARS: Final = {
    **SCALARS,
    "INTERVAL_MONTHS": Types.INT,
    "INTERVAL_MS": Types.LONG,
    "TIME": Types.STRING,
    "TIMESTAMP": Types.STRING,
    "TIMESTAMP_LTZ": Types.STRING,
}


class TimeTexts(Struct, frozen=True):
    """How times are written."""

    between: str = " "
    """What stands between date and time of day: T or a blank."""

    def timestamp(self, text: str) -> int:
        """Return the nanoseconds of a time without a zone. Raises ValueError."""
        return self._nanos(text, "")

    def timestamp_ltz(self, text: str) -> int:
        """Return the nanoseconds of a time in UTC. Raises ValueError."""
        return self._nanos(text, "Z")

    def _nanos(self, text: str, zone: str) -> int:
        found = _TIMESTAMP.fullmatch(text)
        if found is None or (found[1], found[3]) != (self.between, zone):
            raise ValueError(f"{text[:60]!r} is no time such as '2026-01-31{self.between}10:20:30.5{zone}'")
        return timestamp_of(text)

    def timestamp_text(self, nanos: int) -> str:
        """Return the text of a time without a zone."""
        text = timestamp_text(nanos, 9, self.between)
        return _NO_ZEROS.sub("", text)

    def timestamp_ltz_text(self, nanos: int) -> str:
        """Return the text of a time in UTC."""
        return f"{self.timestamp_text(nanos)}Z"

    def time_text(self, milliseconds: int) -> str:
        """Return the text of a time of day."""
        text = time_text(milliseconds, 3)
        return _NO_ZEROS.sub("", text) if milliseconds % 1000 else text[:8]


def _time_of(text: str) -> int:
    if not _TIME.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is no time such as '10:20:30'")
    clock, _, fraction = text.partition(".")
    hours, minutes, *seconds = map(int, clock.split(":"))
    found = ((hours * 60 + minutes) * 60 + sum(seconds)) * 1000 + int(fraction.ljust(3, "0")[:3])
    if found >= MS_PER_DAY or minutes > 59 or sum(seconds) > 59:
        raise ValueError(f"{text!r} is no time of a day")
    return found


def type_of(kind: LogicalType) -> TypeInformation:
    """Return the type of a value for a format. Raises ValueError for a type that no message carries."""
    if kind.root in _SCALARS:
        return _SCALARS[kind.root]()
    match kind.root:
        case "ARRAY":
            return Types.OBJECT_ARRAY(type_of(kind.element))
        case "MAP":
            key, item = kind.arguments
            return Types.MAP(type_of(key), type_of(item))
        case "MULTISET":
            return Types.MAP(type_of(kind.element), Types.INT())
        case "ROW" | "STRUCTURED":
            return Types.ROW_NAMED(kind.names, [type_of(each) for each in kind.types])
    raise ValueError(f"values of type {kind} have no form in messages")


def row_type_of(row: LogicalType) -> RowType:
    """Return the type of a row for a format. Raises ValueError for a type that no message carries."""
    found = type_of(row)
    assert isinstance(found, RowType)
    return found


def from_message(kind: LogicalType, times: TimeTexts, *, ignores_errors: bool = False) -> Convert:
    """Return the function from a value of a message, which may be None, to that of a type.

    It raises ValueError for a time that is none, or returns None for it.
    """
    match kind.root:
        case "TIME":
            convert = _time_of
        case "TIMESTAMP":
            convert = times.timestamp
        case "TIMESTAMP_LTZ":
            convert = times.timestamp_ltz
        case "ARRAY" | "MAP" | "MULTISET" | "ROW" | "STRUCTURED":
            return _from_nested(kind, times, ignores_errors)
        case _:
            return from_python(kind)

    def read(text: Any) -> Any:
        try:
            return None if text is None else convert(text)
        except ValueError:
            if ignores_errors:
                return None
            raise

    return read


def _from_nested(kind: LogicalType, times: TimeTexts, ignores_errors: bool) -> Convert:
    parts = kind.types if kind.fields else list(kind.arguments)
    inner = [from_message(each, times, ignores_errors=ignores_errors) for each in parts]
    if kind.root == "ARRAY":
        (element,) = inner
        return lambda value: None if value is None else tuple([element(each) for each in value])
    if kind.root in ("MAP", "MULTISET"):
        key, item = inner if kind.root == "MAP" else (inner[0], same)
        return lambda value: (
            None if value is None else tuple([(key(name), item(each)) for name, each in value.items()])
        )
    return lambda value: (
        None if value is None else tuple([each(part) for each, part in zip(inner, value, strict=True)])
    )


def to_message(kind: LogicalType, times: TimeTexts) -> Convert:
    """Return the function from a value of a type, which may be None, to that of a message."""
    parts = kind.types if kind.fields else list(kind.arguments)
    inner = [to_message(each, times) for each in parts]
    match kind.root:
        case "TIME":
            convert: Convert = times.time_text
        case "TIMESTAMP":
            convert = times.timestamp_text
        case "TIMESTAMP_LTZ":
            convert = times.timestamp_ltz_text
        case "INTERVAL_MS":
            return same
        case "ARRAY":
            (element,) = inner
            convert = lambda value: [element(each) for each in value]  # noqa: E731
        case "MAP" | "MULTISET":
            key, item = inner if kind.root == "MAP" else (inner[0], same)
            convert = lambda value: {key(name): item(each) for name, each in value}  # noqa: E731
        case "ROW" | "STRUCTURED":
            names, pairs = tuple(kind.names), inner
            convert = lambda value: make_row(  # noqa: E731
                names, [each(part) for each, part in zip(pairs, value, strict=True)]
            )
        case _:
            return to_python(kind)
    return lambda value: None if value is None else convert(value)
