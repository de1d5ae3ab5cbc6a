"""Writers of Avro's container files (PyFlink: AvroBulkWriters)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any, cast

from onceproof.engine.formats.avro_schema import AvroSchema
from onceproof.engine.formats.bulk_writers import (
    BulkWriter,
    BulkWriterFactory,
    FileObject,
    OutputFile,
    WrongRow,
)
from onceproof.engine.types import Row


class AvroBulkWriters:
    """Factories of writers of Avro files (PyFlink: AvroBulkWriters)."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroWriterFactory:
        """Return a factory of writers of records of a schema: dicts, or rows with names.

        Raises:
            TypeError: it is not an AvroSchema.
        """
        if not isinstance(schema, AvroSchema):
            raise TypeError(f"{schema!r} is not an AvroSchema: make one with AvroSchema.parse_string")
        return AvroWriterFactory(schema)


class AvroWriterFactory(BulkWriterFactory):
    """Makes writers of Avro files of one schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def create(self, file: OutputFile) -> AvroWriter:
        """Return a writer into a file."""
        return AvroWriter(self._schema, file)


class AvroWriter(BulkWriter):
    """Writes a container file: a header with the schema, then blocks of records."""

    __slots__ = ("_writer",)

    def __init__(self, schema: AvroSchema, file: OutputFile) -> None:
        from fastavro.write import Writer

        self._writer: Any = Writer(cast("IO[Any]", FileObject(file)), schema.parsed)

    def add_elements(self, elements: Sequence[Any]) -> None:
        write = self._writer.write
        for element in elements:
            record = element.as_dict(True) if isinstance(element, Row) else element
            try:
                write(record)
            except OSError:
                raise
            except Exception as error:
                # The binding raises whatever a value of another type raises.
                raise WrongRow(element, f"{type(error).__name__}: {error}") from error

    def finish(self) -> None:
        self._writer.flush()
