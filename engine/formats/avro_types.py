"""The types of rows that schemas of Avro describe, and their values in Avro (Flink: AvroSchemaConverter).

The rules this module lives by:

- A record is a row with names, an enum is text, an array OBJECT_ARRAY, fixed and bytes are bytes or decimals.
  A union with null is the other type; a union of several others is DYNAMIC, as Avro has the value.
- Logical types are converted here, and the package gets a schema without them: dates and times of day,
  timestamps in UTC without a zone, decimals with all their digits. Others are what they are stored as.
- A schema that contains itself is refused: a message could nest it until the stack is exhausted. So is an
  array of items without bytes, of which a message of a few bytes could claim any number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

from onceproof.engine.formats.avro_schema import AvroSchema, InvalidAvroSchema
from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.types.row import make_row

MOST_LEVELS: Final = 100

_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DAY_MICROSECONDS: Final = 86_400_000_000
_MICROSECOND: Final = timedelta(microseconds=1)
_EXACT: Final = Context(prec=1_000_000, Emax=999_999, Emin=-999_999)

Convert = Callable[[Any], Any]


class AvroField(NamedTuple):
    """What a part of a schema is: its type, and how values come from Avro and go to it."""

    type: TypeInformation
    read: Convert
    write: Convert
    stored: Any
    """The schema without logical types."""
    has_bytes: bool = True
    """Whether each value takes at least one byte."""


def avro_field_of(schema: AvroSchema) -> AvroField:
    """Return what a schema is.

    Raises:
        InvalidAvroSchema: it contains itself, is nested too deeply, or has an array of items without bytes.
    """
    return _Parts().field(schema.parsed, "the schema", 0)


def _same(value: Any) -> Any:
    return value


class _Parts:
    """Converts the parts of one schema."""

    def __init__(self) -> None:
        self._named: dict[str, AvroField | None] = {}

    def field(self, kind: Any, what: str, level: int) -> AvroField:
        if level > MOST_LEVELS:
            raise InvalidAvroSchema(f"{what[:80]} is nested deeper than {MOST_LEVELS} levels")
        if isinstance(kind, list):
            return self._union(kind, what, level)
        if isinstance(kind, str):
            kind = {"type": kind}
        name = kind["type"]
        if isinstance(name, dict | list):
            return self.field(name, what, level + 1)
        if name in self._named:
            known = self._named[name]
            if known is None:
                raise InvalidAvroSchema(
                    f"{what} contains itself ({name!r}): a message could nest it without end"
                )
            return known._replace(stored=name)
        match name:
            case "record" | "error":
                return self._record(kind, what, level)
            case "array":
                return self._array(kind, what, level)
            case "map":
                return self._map(kind, what, level)
            case "enum" | "fixed":
                return self._keep(kind["name"], _scalar(kind))
        return _scalar(kind)

    def _keep(self, name: str, field: AvroField) -> AvroField:
        self._named[name] = field
        return field

    def _union(self, kinds: list[Any], what: str, level: int) -> AvroField:
        fields = [self.field(kind, what, level + 1) for kind in kinds]
        stored = [field.stored for field in fields]
        others = [field for field in fields if field.type is not Types.VOID()]
        if len(others) != 1:
            kind = Types.DYNAMIC() if others else Types.VOID()
            return AvroField(kind, _same, _same, stored)
        if len(fields) > 2:
            return AvroField(Types.DYNAMIC(), _same, _same, stored)
        return AvroField(others[0].type, _or_none(others[0].read), _or_none(others[0].write), stored)

    def _record(self, kind: Mapping[str, Any], what: str, level: int) -> AvroField:
        self._named[kind["name"]] = None
        names = tuple(field["name"] for field in kind["fields"])
        fields = [
            self.field(field["type"], f"{what}, field {field['name']!r}", level + 1)
            for field in kind["fields"]
        ]
        reads = list(zip(names, (field.read for field in fields), strict=True))
        writes = list(zip(names, (field.write for field in fields), strict=True))
        stored = {
            "type": "record",
            "name": kind["name"],
            "fields": [
                {**without_logical(member), "type": field.stored}
                for member, field in zip(kind["fields"], fields, strict=True)
            ],
        }

        def read(record: Any) -> Any:
            return make_row(names, [convert(record[name]) for name, convert in reads])

        def write(row: Any) -> Any:
            if isinstance(row, dict):
                row = [row[name] for name in names]
            return {
                name: _placed(convert, item, name) for (name, convert), item in zip(writes, row, strict=True)
            }

        return self._keep(
            kind["name"],
            AvroField(
                Types.ROW_NAMED(list(names), [field.type for field in fields]),
                read,
                write,
                stored,
                any(field.has_bytes for field in fields),
            ),
        )

    def _array(self, kind: Mapping[str, Any], what: str, level: int) -> AvroField:
        item = self.field(kind["items"], f"{what}, element", level + 1)
        if not item.has_bytes:
            raise InvalidAvroSchema(f"{what} is an array of items without bytes, which may be of any length")
        read, write = item.read, item.write
        return AvroField(
            Types.OBJECT_ARRAY(item.type),
            lambda items: list(map(read, items)),
            lambda items: list(map(write, items)),
            {"type": "array", "items": item.stored},
        )

    def _map(self, kind: Mapping[str, Any], what: str, level: int) -> AvroField:
        item = self.field(kind["values"], f"{what}, value", level + 1)
        read, write = item.read, item.write
        return AvroField(
            Types.MAP(Types.STRING(), item.type),
            lambda items: {key: read(value) for key, value in items.items()},
            lambda items: {key: write(value) for key, value in dict(items).items()},
            {"type": "map", "values": item.stored},
        )


def _placed(convert: Convert, item: Any, name: str) -> Any:
    try:
        return convert(item)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"field {name!r}: {error}") from None


def without_logical(member: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a member of a record has beside its type."""
    return {key: value for key, value in member.items() if key in ("name", "default", "aliases")}


def _or_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


_SCALARS: Final[Mapping[str, Callable[[], TypeInformation]]] = {
    "null": Types.VOID,
    "boolean": Types.BOOLEAN,
    "int": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "string": Types.STRING,
    "enum": Types.STRING,
    "bytes": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "fixed": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
}


def _scalar(kind: Mapping[str, Any]) -> AvroField:
    name = kind["type"]
    if name not in _SCALARS:
        raise InvalidAvroSchema(f"{name!r} is not a type of Avro")
    stored: Any = name
    if name in ("enum", "fixed"):
        kept = ("type", "name", "symbols", "size", "default")
        stored = {key: value for key, value in kind.items() if key in kept}
    has_bytes = name != "null" and not (name == "fixed" and kind["size"] == 0)
    logical = kind.get("logicalType")
    if logical == "decimal" and name in ("bytes", "fixed"):
        read, write = _decimal(kind)
        return AvroField(Types.BIG_DEC(), read, write, stored, has_bytes)
    if (name, logical) in _LOGICAL:
        made, read, write = _LOGICAL[name, logical]
        return AvroField(made(), read, write, stored)
    return AvroField(_SCALARS[name](), _same, _same, stored, has_bytes)


def _decimal(kind: Mapping[str, Any]) -> tuple[Convert, Convert]:
    precision, scale = int(kind["precision"]), int(kind.get("scale", 0))
    size = kind.get("size")

    def read(data: bytes) -> Decimal:
        if len(data) > precision // 2 + 16:
            raise ValueError(f"{len(data)} bytes are not a decimal of {precision} digits")
        return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _EXACT)

    def write(value: Any) -> bytes:
        sign, digits, exponent = Decimal(value).as_tuple()
        if not isinstance(exponent, int) or len(digits) + exponent + scale > precision:
            raise ValueError(f"{value} has more than {precision} digits, {scale} of them behind the point")
        shift = exponent + scale
        figures = "".join(map(str, digits))
        if shift < 0 and figures[shift:].strip("0"):
            raise ValueError(f"{value} has more than {scale} digits behind the point")
        unscaled = int((figures[:shift] or "0") if shift < 0 else figures + "0" * shift)
        unscaled = -unscaled if sign else unscaled
        length = unscaled.bit_length() // 8 + 1 if size is None else int(size)
        return unscaled.to_bytes(length, "big", signed=True)

    return read, write


def _microseconds(value: datetime) -> int:
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return (value - _EPOCH) // _MICROSECOND


def _time_of(microseconds: int) -> time:
    if not 0 <= microseconds < _DAY_MICROSECONDS:
        raise ValueError(f"{microseconds} microseconds are not a time of day")
    return (_EPOCH + timedelta(microseconds=microseconds)).time()


def _time_microseconds(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


_LOGICAL: Final[Mapping[tuple[str, Any], tuple[Callable[[], TypeInformation], Convert, Convert]]] = {
    ("int", "date"): (
        Types.SQL_DATE,
        lambda days: date.fromordinal(_EPOCH_DAY + days),
        lambda value: value.toordinal() - _EPOCH_DAY,
    ),
    ("int", "time-millis"): (
        Types.SQL_TIME,
        lambda millis: _time_of(millis * 1000),
        lambda value: _time_microseconds(value) // 1000,
    ),
    ("long", "time-micros"): (Types.SQL_TIME, _time_of, _time_microseconds),
    ("long", "timestamp-millis"): (
        Types.SQL_TIMESTAMP,
        lambda millis: _EPOCH + timedelta(milliseconds=millis),
        lambda value: _microseconds(value) // 1000,
    ),
    ("long", "timestamp-micros"): (
        Types.SQL_TIMESTAMP,
        lambda micros: _EPOCH + timedelta(microseconds=micros),
        _microseconds,
    ),
}
