"""Rows as messages of Avro (PyFlink: AvroRowSerializationSchema, AvroRowDeserializationSchema).

The rules this module lives by:

- A message is one record in Avro's binary form, without a header: both sides know the schema.
- The schema decides the type of the rows (`avro_types`). What stands behind the record is malformed.
- A message costs memory in proportion to its length.
"""

from __future__ import annotations

import io
from typing import Any

from onceproof.engine.formats.avro_schema import AvroSchema
from onceproof.engine.formats.avro_types import avro_field_of
from onceproof.engine.formats.bulk_writers import WrongRow
from onceproof.engine.formats.message_schemas import (
    DeserializationSchema,
    MalformedMessage,
    SerializationSchema,
    checked_row_type,
    shown,
)
from onceproof.engine.types import TypeInformation, WrongValue


def _schema_of(record_class: str | None, avro_schema_string: str | None) -> AvroSchema:
    if record_class is not None:
        raise TypeError(f"record_class {record_class!r} is a class of Java: give avro_schema_string instead")
    if avro_schema_string is None:
        raise TypeError("there is no schema: give avro_schema_string")
    return AvroSchema.parse_string(avro_schema_string)


class AvroRowDeserializationSchema(DeserializationSchema):
    """Makes rows of records of Avro (PyFlink: AvroRowDeserializationSchema).

    Args:
        record_class: not possible: there is no Java.
        avro_schema_string: the schema of the records, as JSON.

    Raises:
        TypeError: there is no schema, or it is none of records.
        InvalidAvroSchema: it is not a schema, or one that contains itself.
        ExtraMissing: fastavro is not installed.
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = _schema_of(record_class, avro_schema_string)
        import fastavro

        field = avro_field_of(self._schema)
        self._type = checked_row_type(field.type)
        self._convert = field.read
        self._stored = fastavro.parse_schema(field.stored)
        self._read: Any = fastavro.schemaless_reader

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message. Raises MalformedMessage."""
        data = io.BytesIO(message)
        try:
            row = self._convert(self._read(data, self._stored))
        except Exception as error:
            # The binding raises EOFError, IndexError and others, as the bytes have it.
            raise self._malformed(message, f"{type(error).__name__}: {error}") from None
        if data.tell() < len(message):
            raise self._malformed(message, f"{len(message) - data.tell()} bytes stand behind the record")
        return row

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, str(self._schema))

    def _malformed(self, message: bytes, what: str) -> MalformedMessage:
        return MalformedMessage(
            f"the message {shown(message)} is not a record of Avro's schema: {what};"
            " give the schema that it was written with"
        )


class AvroRowSerializationSchema(SerializationSchema):
    """Makes records of Avro of rows (PyFlink: AvroRowSerializationSchema).

    Args:
        record_class: not possible: there is no Java.
        avro_schema_string: the schema of the records, as JSON.

    Raises:
        TypeError: there is no schema, or it is none of records.
        InvalidAvroSchema: it is not a schema, or one that contains itself.
        ExtraMissing: fastavro is not installed.
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = _schema_of(record_class, avro_schema_string)
        import fastavro

        field = avro_field_of(self._schema)
        self._converter = checked_row_type(field.type).converter()
        self._convert = field.write
        self._stored = fastavro.parse_schema(field.stored)
        self._write: Any = fastavro.schemaless_writer

    def serialize(self, element: Any) -> bytes:
        """Return the message of a row. Raises WrongRow for one that does not match the schema."""
        data = io.BytesIO()
        try:
            self._write(data, self._stored, self._convert(self._converter(element)))
        except WrongValue as error:
            raise WrongRow(element, error) from error
        except Exception as error:
            # The binding raises whatever a value of another type raises.
            raise WrongRow(element, f"{type(error).__name__}: {error}") from error
        return data.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, str(self._schema))
