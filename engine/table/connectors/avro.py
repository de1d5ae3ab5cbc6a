"""Rows of tables as records of Avro: the schema of a row type, and the format ``avro`` of messages.

Rules, from Flink's AvroSchemaConverter:

- A column that may be NULL is a union with null. Times are numbers with their logical type; TIMESTAMP is
  timestamp-millis, whatever its zone, unless ``timestamp_mapping.legacy`` is false: then TIMESTAMP is
  local-timestamp and TIMESTAMP_LTZ timestamp, in milliseconds or microseconds.
- A message is a record without a header, so its reader must have the schema of its writer.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, Final

from onceproof.engine.extras import AVRO, require
from onceproof.engine.formats.avro_schema import AvroSchema
from onceproof.engine.formats.avro_types import avro_field_of
from onceproof.engine.formats.message_schemas import MalformedMessage, shown
from onceproof.engine.table.connectors.message_formats import (
    MessageFormat,
    RowReader,
    RowWriter,
    message_format,
)
from onceproof.engine.table.connectors.registry import Options
from onceproof.engine.table.python_values import or_null, same
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import to_decimal

Convert = Callable[[Any], Any]

_NAME: Final = "org.apache.flink.avro.generated.record"
_PLAIN: Final = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "bytes",
    "VARBINARY": "bytes",
}
_MILLIS: Final = 3


def avro_schema(row: LogicalType, *, is_legacy: bool) -> AvroSchema:
    """Return the schema of a row. Raises ValueError for a type that Avro does not carry."""
    return AvroSchema.parse_string(json.dumps(_declared(row.as_nullable(False), _NAME, is_legacy)))


def _declared(kind: LogicalType, name: str, is_legacy: bool) -> Any:
    declared = _declared_value(kind, name, is_legacy)
    return ["null", declared] if kind.nullable else declared


def _declared_value(kind: LogicalType, name: str, is_legacy: bool) -> Any:
    if kind.root in _PLAIN:
        return _PLAIN[kind.root]
    match kind.root:
        case "DATE":
            return {"type": "int", "logicalType": "date"}
        case "TIME" if kind.precision <= _MILLIS:
            return {"type": "int", "logicalType": "time-millis"}
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return {"type": "long", "logicalType": _time_type(kind, is_legacy)}
        case "DECIMAL":
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": kind.precision,
                "scale": kind.scale,
            }
        case "ARRAY":
            return {"type": "array", "items": _declared(kind.element, name, is_legacy)}
        case "MAP" if kind.arguments[0].root in ("CHAR", "VARCHAR"):
            return {"type": "map", "values": _declared(kind.arguments[1], name, is_legacy)}
        case "ROW" | "STRUCTURED":
            fields = [
                {"name": each.name, "type": _declared(each.type, f"{name}_{each.name}", is_legacy)}
                | ({"default": None} if each.type.nullable else {})
                for each in kind.fields
            ]
            return {"type": "record", "name": name, "fields": fields}
    raise ValueError(f"Avro carries no {kind}")


def _time_type(kind: LogicalType, is_legacy: bool) -> str:
    if is_legacy and (kind.root != "TIMESTAMP" or kind.precision > _MILLIS):
        raise ValueError(
            f"Avro carries no {kind} by the legacy mapping: set timestamp_mapping.legacy to false, or declare"
            " TIMESTAMP(3)"
        )
    if kind.precision > 2 * _MILLIS:
        raise ValueError(f"Avro carries no {kind}: declare a precision of at most 6")
    local = "local-" if kind.root == "TIMESTAMP" and not is_legacy else ""
    return f"{local}timestamp-{'millis' if kind.precision <= _MILLIS else 'micros'}"


def _unit(kind: LogicalType) -> int:
    """Return the nanoseconds of the unit of a time."""
    return 1_000_000 if kind.precision <= _MILLIS else 1000


def to_avro(kind: LogicalType) -> Convert:
    """Return the function from a value, which may be NULL, to what the schema takes."""
    return or_null(_to_avro(kind))


def _to_avro(kind: LogicalType) -> Convert:
    match kind.root:
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            unit = _unit(kind)
            return lambda nanos: nanos // unit
        case "ARRAY":
            element = to_avro(kind.element)
            return lambda value: [element(each) for each in value]
        case "MAP":
            item = to_avro(kind.arguments[1])
            return lambda value: {name: item(each) for name, each in value}
        case "ROW" | "STRUCTURED":
            fields = [(each.name, to_avro(each.type)) for each in kind.fields]
            return lambda row: {
                name: convert(value) for (name, convert), value in zip(fields, row, strict=True)
            }
    return same


def from_avro(kind: LogicalType) -> Convert:
    """Return the function from a value as Avro stores it, which may be None, to that of the type."""
    return or_null(_from_avro(kind))


def _from_avro(kind: LogicalType) -> Convert:
    match kind.root:
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            unit = _unit(kind)
            return lambda number: number * unit
        case "DECIMAL":
            return partial(_decimal_of, kind)
        case "ARRAY":
            element = from_avro(kind.element)
            return lambda value: tuple([element(each) for each in value])
        case "MAP":
            item = from_avro(kind.arguments[1])
            return lambda value: tuple([(name, item(each)) for name, each in value.items()])
        case "ROW" | "STRUCTURED":
            fields = [(each.name, from_avro(each.type)) for each in kind.fields]
            return lambda record: tuple([convert(record.get(name)) for name, convert in fields])
    return same


def _decimal_of(kind: LogicalType, data: bytes) -> Decimal | None:
    unscaled = Decimal(int.from_bytes(data, "big", signed=True))
    return to_decimal(unscaled.scaleb(-kind.scale), kind.precision, kind.scale)


class AvroFormat(MessageFormat):
    """A record of Avro without a header."""

    def __init__(self, row: LogicalType, schema: AvroSchema) -> None:
        super().__init__(row)
        self._schema = schema

    @cached_property
    def read_row(self) -> RowReader:
        import fastavro

        stored = fastavro.parse_schema(avro_field_of(self._schema).stored)
        convert = from_avro(self.row)
        read: Any = fastavro.schemaless_reader

        def read_row(message: bytes) -> Any:
            data = io.BytesIO(message)
            try:
                row = convert(read(data, stored))
            except Exception as error:
                # The binding raises EOFError, IndexError and others, as the bytes have it.
                raise MalformedMessage(
                    f"the message {shown(message)} is no record of Avro: {type(error).__name__}: {error}"
                ) from None
            if data.tell() < len(message):
                left = len(message) - data.tell()
                raise MalformedMessage(f"the message {shown(message)} has {left} bytes behind its record")
            return row

        return read_row

    @cached_property
    def write_row(self) -> RowWriter:
        import fastavro

        convert, schema, write = to_avro(self.row), self._schema.parsed, fastavro.schemaless_writer

        def write_row(row: Any) -> bytes:
            data = io.BytesIO()
            write(data, schema, convert(row))
            return data.getvalue()

        return write_row


def schema_by(row: LogicalType, options: Options, prefix: str) -> AvroSchema:
    """Return the schema of a row by the options of the format."""
    require("the format avro", AVRO)
    options.choice(f"{prefix}encoding", "binary", ("binary",))
    return avro_schema(row, is_legacy=options.flag(f"{prefix}timestamp_mapping.legacy", True))


@message_format("avro")
def avro_format(row: LogicalType, options: Options, prefix: str) -> MessageFormat:
    """Make the format of records without a header."""
    return AvroFormat(row, schema_by(row, options, prefix))
