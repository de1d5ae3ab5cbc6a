"""Records and rows as messages of Kafka: lines without an end, Avro, Protobuf, and the bytes of one value.

The rules this module lives by:

- A message of Avro is the bare record, without the header of a schema registry.
- Types of Protobuf come from a descriptor file. No code is generated and none of the program's is imported.
- Bytes are what Kafka's own serializers make of the first column: 4 or 8 bytes of an integer, 8 of a double,
  the UTF-8 of anything else.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from onceproof.engine.extras import AVRO, PROTOBUF, require
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.model.program_ends import Input, Output
from onceproof.harness.systems.program.line_formats import (
    SUFFIXES,
    UNREADABLE,
    line_of,
    row_of,
    row_or_line_of,
    typed,
)

Encode: TypeAlias = Callable[[Mapping[str, Any]], bytes]
MessageRow: TypeAlias = Callable[[bytes | None, bytes], Row]
"""Reads the key and the value of a message as a row."""

_LAYOUTS: Final[Mapping[str, str]] = {
    "INT": ">i",
    "INTEGER": ">i",
    "BIGINT": ">q",
    "LONG": ">q",
    "FLOAT": ">f",
    "DOUBLE": ">d",
}


def encoder_of(end: Input, columns: Mapping[str, str], here: Path, place: str) -> Encode:
    """Return what encodes the fields of a record. Raises FamilyError, ExtraMissing.

    Args:
        end: the input.
        columns: by the columns of a record, their types as Spark DDL has them.
        here: the folder of the program's file.
        place: of the input in that file, for errors.
    """
    match end.format:
        case "avro":
            schema = _avro_schema(here / end.schema, place)
            from fastavro import schemaless_writer

            def encode(named: Mapping[str, Any]) -> bytes:
                message = io.BytesIO()
                schemaless_writer(message, schema, named)
                return message.getvalue()

        case "protobuf":
            message_class = _message_class(here / end.descriptor, end.message, place)
            from google.protobuf.json_format import ParseDict

            def encode(named: Mapping[str, Any]) -> bytes:
                message: bytes = ParseDict(
                    named, message_class(), ignore_unknown_fields=True
                ).SerializeToString()
                return message

        case "bytes":

            def encode(named: Mapping[str, Any]) -> bytes:
                name, value = next(iter(named.items()))
                layout = _LAYOUTS.get(columns.get(name, "").upper())
                return struct.pack(layout, value) if layout else str(value).encode()

        case form:
            return lambda named: line_of(named, form).encode()

    def encode_or_refuse(named: Mapping[str, Any]) -> bytes:
        try:
            return encode(named)
        except Exception as error:
            # Each library has exceptions of its own for a value that does not fit.
            cause = " ".join(str(error).split())
            raise FamilyError(f"{place}.format: {dict(named)} is no {end.format}: {cause}") from None

    return encode_or_refuse


def message_row_of(end: Output, columns: Mapping[str, str], here: Path, place: str) -> MessageRow:
    """Return what reads a message as a row; what is none is a row of one column with the message.

    Raises FamilyError, ExtraMissing. The arguments are those of ``encoder_of``, of an output.
    """
    if end.format in SUFFIXES and not end.key:
        read_line = row_or_line_of(columns, end.format)
        return lambda _, value: read_line(value.decode(errors="replace"))
    kinds = {name: kind for name, kind in columns.items() if name != end.key}
    fields_of = _fields_of(end, kinds, here, place)

    def read(key: bytes | None, value: bytes) -> Row:
        try:
            fields = fields_of(value)
            if end.key:
                fields = {end.key: typed(columns.get(end.key, ""), (key or b"").decode()), **fields}
            return tuple([as_tuple(fields[name]) for name in columns or fields])
        except (*UNREADABLE, AttributeError):
            return (value.decode(errors="replace"),)

    return read


def _fields_of(
    end: Output, kinds: Mapping[str, str], here: Path, place: str
) -> Callable[[bytes], Mapping[str, Any]]:
    """Return what reads the value of a message as fields by name."""
    match end.format:
        case "avro":
            schema = _avro_schema(here / end.schema, place)
            from fastavro import schemaless_reader

            def from_avro(value: bytes) -> Mapping[str, Any]:
                try:
                    fields = schemaless_reader(io.BytesIO(value), schema, None)
                except (EOFError, IndexError) as error:
                    raise ValueError(str(error)) from None
                return fields if isinstance(fields, dict) else {next(iter(kinds), "value"): fields}

            return from_avro
        case "protobuf":
            message_class = _message_class(here / end.descriptor, end.message, place)
            from google.protobuf.json_format import MessageToDict
            from google.protobuf.message import DecodeError

            def from_protobuf(value: bytes) -> Mapping[str, Any]:
                try:
                    message = message_class.FromString(value)
                except DecodeError as error:
                    raise ValueError(str(error)) from None
                fields = MessageToDict(
                    message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
                )
                # Integers of 64 bits are texts there.
                return {
                    name: typed(kinds.get(name, ""), each) if isinstance(each, str) else each
                    for name, each in fields.items()
                }

            return from_protobuf
        case "bytes":
            name, kind = next(iter(kinds.items()), ("value", ""))
            layout = _LAYOUTS.get(kind.upper())

            def from_bytes(value: bytes) -> Mapping[str, Any]:
                if layout is None:
                    return {name: value.decode()}
                if len(value) != struct.calcsize(layout):
                    raise ValueError(f"{len(value)} bytes for {kind}")
                return {name: struct.unpack(layout, value)[0]}

            return from_bytes
    read = row_of(kinds, end.format)
    return lambda value: dict(zip(kinds, read(value.decode(errors="replace")), strict=False))


def _avro_schema(path: Path, place: str) -> Any:
    require(f"{place}.format 'avro'", AVRO)
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        return parse_schema(json.loads(path.read_bytes()))
    except OSError as error:
        raise FamilyError(f"{place}.schema: {path}: {error.strerror or error}") from None
    except (ValueError, SchemaParseException, UnknownType) as error:
        raise FamilyError(f"{place}.schema: {path} is no schema of Avro: {error}") from None


def _message_class(path: Path, name: str, place: str) -> Any:
    require(f"{place}.format 'protobuf'", PROTOBUF)
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass

    pool = DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(path.read_bytes()).file:
            pool.Add(file)
        return GetMessageClass(pool.FindMessageTypeByName(name))
    except OSError as error:
        raise FamilyError(f"{place}.descriptor: {path}: {error.strerror or error}") from None
    except (DecodeError, TypeError) as error:
        raise FamilyError(f"{place}.descriptor: {path} is no descriptor file: {error}") from None
    except KeyError:
        raise FamilyError(f"{place}.message: {path} describes no message {name!r}") from None
