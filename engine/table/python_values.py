"""The Python values that users' functions and streams see, and those of ``values.py`` behind them.

Rules, from PyFlink:

- Numbers, text, bytes and booleans are the same on both sides. DECIMAL is a Decimal, DATE a date, TIME a
  time, TIMESTAMP a datetime without a zone, TIMESTAMP_LTZ a datetime in UTC, an interval of time a timedelta,
  of months a number.
- ARRAY is a list, MAP a dict, MULTISET a dict of counts, ROW a Row with names.
- A ROW that comes from the user may be a Row, tuple, list or dict. Datetimes are cut to microseconds, because
  Python has no shorter time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import (
    MS_PER_DAY,
    to_decimal,
    to_float32,
)
from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.types.row import Row as UserRow

Convert = Callable[[Any], Any]

_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = _EPOCH.date()
_MICROSECOND: Final = timedelta(microseconds=1)


SCALARS: Final[Mapping[str, Callable[[], TypeInformation]]] = {
    "BOOLEAN": Types.BOOLEAN,
    "TINYINT": Types.BYTE,
    "SMALLINT": Types.SHORT,
    "INT": Types.INT,
    "BIGINT": Types.LONG,
    "FLOAT": Types.FLOAT,
    "DOUBLE": Types.DOUBLE,
    "DECIMAL": Types.BIG_DEC,
    "CHAR": Types.STRING,
    "VARCHAR": Types.STRING,
    "BINARY": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "VARBINARY": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "DATE": Types.SQL_DATE,
}
"""By the root of a type of SQL, that of a stream with the same values for Python. Formats differ in times."""


def same(value: Any) -> Any:
    """Return the value."""
    return value


def or_null(convert: Convert) -> Convert:
    """Return the conversion for values that may be NULL; ``same`` if it changes none."""
    return same if convert is same else lambda value: None if value is None else convert(value)


def to_python(kind: LogicalType) -> Convert:
    """Return the function from a value of a type to that of the user; ``same`` if they are the same."""
    return or_null(_to_python(kind))


def _to_python(kind: LogicalType) -> Convert:
    match kind.root:
        case "DATE":
            return lambda days: _EPOCH_DAY + timedelta(days)
        case "TIME":
            return lambda milliseconds: (_EPOCH + timedelta(milliseconds=milliseconds)).time()
        case "TIMESTAMP":
            return _datetime_of
        case "TIMESTAMP_LTZ":
            return lambda nanos: _datetime_of(nanos).replace(tzinfo=UTC)
        case "INTERVAL_MS":
            return lambda milliseconds: timedelta(milliseconds=milliseconds)
        case "ARRAY":
            element = to_python(kind.element)
            return list if element is same else lambda items: [element(item) for item in items]
        case "MAP" | "MULTISET":
            key = to_python(kind.arguments[0])
            item = to_python(kind.arguments[1]) if kind.root == "MAP" else same
            return lambda pairs: {key(name): item(value) for name, value in pairs}
        case "ROW" | "STRUCTURED":
            return row_to_python(kind)
    return same


def _datetime_of(nanos: int) -> datetime:
    return _EPOCH + timedelta(microseconds=nanos // 1000)


def row_to_python(kind: LogicalType, has_names: bool = True) -> Callable[[tuple[Any, ...]], UserRow]:
    """Return the function from a row to a Row, with the names of the type if it is to have any."""
    names, fields = kind.names if has_names else None, [to_python(each) for each in kind.types]

    def convert(values: tuple[Any, ...]) -> UserRow:
        row = UserRow(*[field(value) for field, value in zip(fields, values, strict=True)])
        if names is not None:
            row.set_field_names(names)
        return row

    return convert


def from_python(kind: LogicalType) -> Convert:
    """Return the function from the user's value to that of a type; ``same`` if they are the same."""
    return or_null(_from_python(kind))


def _from_python(kind: LogicalType) -> Convert:
    match kind.root:
        case "FLOAT":
            return lambda value: to_float32(float(value))
        case "DOUBLE":
            return float
        case "DECIMAL":
            return lambda value: to_decimal(Decimal(value), kind.precision, kind.scale)
        case "VARBINARY" | "BINARY":
            return bytes
        case "DATE":
            return _days_of
        case "TIME":
            return _milliseconds_of
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _nanos_of
        case "INTERVAL_MS":
            return lambda value: value // timedelta(milliseconds=1)
        case "ARRAY":
            element = from_python(kind.element)
            return tuple if element is same else lambda items: tuple([element(item) for item in items])
        case "MAP" | "MULTISET":
            key = from_python(kind.arguments[0])
            item = from_python(kind.arguments[1]) if kind.root == "MAP" else same
            return lambda pairs: tuple([(key(name), item(value)) for name, value in pairs.items()])
        case "ROW" | "STRUCTURED":
            return row_from_python(kind)
    return same


def _days_of(value: date) -> int:
    day = value.date() if isinstance(value, datetime) else value
    return (day - _EPOCH_DAY).days


def _milliseconds_of(value: time) -> int:
    since = timedelta(
        hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
    )
    return since // timedelta(milliseconds=1) % MS_PER_DAY


def _nanos_of(value: datetime) -> int:
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return (value - _EPOCH) // _MICROSECOND * 1000


def row_from_python(kind: LogicalType) -> Callable[[Any], tuple[Any, ...]]:
    """Return the function from what the user has for a row to a row of a type.

    It raises ValueError for one with another number of fields.
    """
    names, fields = kind.names, [from_python(each) for each in kind.types]

    def convert(value: Any) -> tuple[Any, ...]:
        if isinstance(value, dict):
            value = [value.get(name) for name in names]
        return tuple([field(each) for field, each in zip(fields, value, strict=True)])

    return convert
