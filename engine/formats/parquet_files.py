"""Writers of Parquet files (PyFlink: ParquetBulkWriters, AvroParquetWriters).

The rules this module lives by:

- Rows are gathered, and become a row group when there are enough of them and at the end of the file.
- The schema decides the type of each column; a value of another type is refused, never changed.
- A decimal column has 38 digits, 18 of them behind the point, as Flink's legacy decimals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.extras import PARQUET, require
from onceproof.engine.formats.arrow_schema import arrow_schema_of_avro, arrow_schema_of_rows
from onceproof.engine.formats.avro_schema import AvroSchema
from onceproof.engine.formats.bulk_writers import (
    BulkWriter,
    BulkWriterFactory,
    FileObject,
    OutputFile,
    WrongRow,
)
from onceproof.engine.types import Row, TypeInformation
from onceproof.engine.types.information import of_streams

if TYPE_CHECKING:
    import pyarrow

ROWS_PER_GROUP: Final = 50_000


class ParquetBulkWriters:
    """Factories of writers of Parquet files (PyFlink: ParquetBulkWriters)."""

    @staticmethod
    def for_row_type(
        row_type: TypeInformation, hadoop_config: object | None = None, utc_timestamp: bool = False
    ) -> ParquetWriterFactory:
        """Return a factory of writers of rows.

        Args:
            row_type: ``DataTypes.ROW`` or ``Types.ROW_NAMED`` of the columns.
            hadoop_config: not used: there is no Hadoop.
            utc_timestamp: not used: timestamps have no zone, and are written as they are.

        Raises:
            TypeError: it is not a row with names, or a column has no type in Parquet.
            ExtraMissing: pyarrow is not installed.
        """
        require("the Parquet writer", PARQUET)
        row_type = of_streams(row_type)
        arrow_schema_of_rows(row_type)
        return ParquetWriterFactory(row_type)


class AvroParquetWriters:
    """Factories of writers of Avro's records into Parquet files (PyFlink: AvroParquetWriters)."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> ParquetWriterFactory:
        """Return a factory of writers of records of a schema: dicts, or rows with names.

        Raises:
            TypeError: it is not an AvroSchema, or a field has no type in Parquet.
            ExtraMissing: pyarrow is not installed.
        """
        if not isinstance(schema, AvroSchema):
            raise TypeError(f"{schema!r} is not an AvroSchema: make one with AvroSchema.parse_string")
        require("the Parquet writer", PARQUET)
        arrow_schema_of_avro(schema)
        return ParquetWriterFactory(schema)


class ParquetWriterFactory(BulkWriterFactory):
    """Makes writers of Parquet files of one schema, which it has as the job's program gave it."""

    def __init__(self, given: TypeInformation | AvroSchema) -> None:
        self._given = given

    def create(self, file: OutputFile) -> ParquetWriter:
        """Return a writer into a file."""
        given = self._given
        schema = arrow_schema_of_avro(given) if isinstance(given, AvroSchema) else arrow_schema_of_rows(given)
        return ParquetWriter(schema, file)


class ParquetWriter(BulkWriter):
    """Writes one Parquet file, a row group after the other."""

    __slots__ = ("_file", "_names", "_rows", "_schema", "_writer")

    def __init__(self, schema: pyarrow.Schema, file: OutputFile) -> None:
        from pyarrow import parquet

        self._schema = schema
        self._names: list[str] = schema.names
        self._rows: list[Any] = []
        self._file = FileObject(file)
        self._writer = parquet.ParquetWriter(self._file, schema)

    def add_elements(self, elements: Sequence[Any]) -> None:
        self._rows.extend(elements)
        if len(self._rows) >= ROWS_PER_GROUP:
            self._write_group()

    def finish(self) -> None:
        if self._rows:
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        rows, self._rows = self._rows, []
        try:
            self._writer.write_table(self._group(rows))
        except (WrongRow, OSError):
            raise
        except Exception as error:
            raise self._wrong_row(rows, error) from error

    def _group(self, rows: Sequence[Any]) -> pyarrow.Table:
        import pyarrow

        fields = [self._fields(row) for row in rows]
        columns = [
            pyarrow.array([row[place] for row in fields], kind, from_pandas=False)
            for place, kind in enumerate(self._schema.types)
        ]
        for field, column in zip(self._schema, columns, strict=True):
            if column.null_count and not field.nullable:
                raise ValueError(f"field {field.name!r} is missing, and the schema does not let it be null")
        return pyarrow.Table.from_arrays(columns, schema=self._schema)

    def _fields(self, row: Any) -> Sequence[Any]:
        """Return the fields of a row in the order of the columns. Raises WrongRow."""
        names = self._names
        if isinstance(row, Row) and row._names is not None:
            row = row.as_dict(True)
        if isinstance(row, dict):
            if unknown := [name for name in row if name not in names]:
                raise WrongRow(row, f"there is no column {unknown[0]!r}: there are {', '.join(names)}")
            return [_plain(row.get(name)) for name in names]
        if isinstance(row, tuple | list | Row) and len(row) == len(names):
            return [_plain(field) for field in row]
        raise WrongRow(row, f"it is not a row of the columns {', '.join(names)}")

    def _wrong_row(self, rows: Sequence[Any], error: Exception) -> WrongRow:
        for row in rows:
            try:
                self._group([row])
            except Exception as own_error:
                return WrongRow(row, own_error)
        return WrongRow(rows, error)


def _plain(field: Any) -> Any:
    if isinstance(field, Row):
        return field.as_dict(True) if field._names is not None else tuple(field)
    return field
