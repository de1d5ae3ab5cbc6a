"""Reading Parquet files (PyFlink: ParquetColumnarRowInputFormat, AvroParquetReaders).

The rules this module lives by:

- The place of a block is the number of a row group. Its rows are read in batches, so that memory is bounded
  by a batch and the pages it is in. A restore reads the row group again and leaves out the rows it has read.
- Only the columns that are asked for are read. A column that the file lacks is None, as in Flink.
- A value that the declared type does not admit is refused with its row; it is never changed. Timestamps have
  microseconds and no zone: those that the file has in UTC stay in UTC.
- A record of Avro is a dict, with the values that Avro stores: a timestamp is a number, a decimal bytes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.connectors.bulk_files import Block, BulkFile, BulkFormat, MalformedFile
from onceproof.engine.connectors.text_lines import StreamFormat
from onceproof.engine.extras import PARQUET, require
from onceproof.engine.formats.arrow_schema import arrow_schema_of_avro, arrow_schema_of_rows
from onceproof.engine.formats.avro_schema import AvroSchema
from onceproof.engine.formats.avro_types import avro_field_of
from onceproof.engine.formats.java_texts import rounded_to_float
from onceproof.engine.types import TypeInformation, WrongValue
from onceproof.engine.types.composite import ListType, MapType
from onceproof.engine.types.information import of_streams
from onceproof.engine.types.row import RowType, make_row

if TYPE_CHECKING:
    import pyarrow

BATCH_ROWS: Final = 2048
MOST_GROUP_BYTES: Final = 1 << 31
_MEND: Final = "write the file again, or leave it out"

Convert = Callable[[Any], Any]


class ParquetFormat(BulkFormat):
    """Parquet files with some columns, and what becomes of a row of them."""

    batch_rows = BATCH_ROWS
    is_case_sensitive = True

    @abstractmethod
    def columns(self) -> Sequence[str]:
        """Return the names of the columns, in order."""

    @abstractmethod
    def converter(self) -> Callable[[Sequence[Any]], Any]:
        """Return the function from the fields of a row to its record. It raises ValueError or WrongValue."""

    def open_file(self, path: str) -> ParquetFile:
        """Open a file. Raises MalformedFile, or OSError."""
        return ParquetFile(path, self)


class ParquetColumnarRowInputFormat(ParquetFormat):
    """Rows of the columns of Parquet files (PyFlink: ParquetColumnarRowInputFormat).

    Args:
        row_type: ``DataTypes.ROW`` or ``Types.ROW_NAMED`` of the columns that are read.
        hadoop_config: not used: there is no Hadoop.
        batch_size: the rows that are read at once.
        is_utc_timestamp: not used: timestamps have no zone.
        is_case_sensitive: whether names of columns differ by case.

    Raises:
        TypeError: it is not a row with names, or a column has no type in Parquet.
        ValueError: ``batch_size`` is not positive.
        ExtraMissing: pyarrow is not installed.
    """

    def __init__(
        self,
        row_type: TypeInformation,
        hadoop_config: object | None = None,
        batch_size: int = BATCH_ROWS,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        require("the Parquet reader", PARQUET)
        row_type = of_streams(row_type)
        arrow_schema_of_rows(row_type)
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}: give at least 1")
        assert isinstance(row_type, RowType)
        self._row_type = row_type
        self.batch_rows = batch_size
        self.is_case_sensitive = is_case_sensitive

    def columns(self) -> Sequence[str]:
        """Return the names of the fields."""
        return self._row_type.names or ()

    def converter(self) -> Callable[[Sequence[Any]], Any]:
        """Return the function that makes a Row of the declared type."""
        names = self._row_type.names
        converters = [_from_arrow(kind) for kind in self._row_type.fields]
        check = self._row_type.converter()

        def convert(fields: Sequence[Any]) -> Any:
            pairs = zip(converters, fields, strict=True)
            return check(make_row(names, [each if made is None else made(each) for made, each in pairs]))

        return convert


def _from_arrow(kind: TypeInformation) -> Convert | None:
    """Return the function from a value as Arrow gives it to one of a type; None where they are the same."""
    if isinstance(kind, RowType):
        names, parts = kind.names or (), [_from_arrow(field) for field in kind.fields]

        def convert_row(value: Any) -> Any:
            if not isinstance(value, dict):
                return value
            items = [value.get(name) for name in names]
            pairs = zip(parts, items, strict=True)
            return make_row(names, [each if made is None else made(each) for made, each in pairs])

        return convert_row
    if isinstance(kind, MapType):
        convert_item = _from_arrow(kind.value) or _same
        return lambda value: (
            {key: convert_item(item) for key, item in value} if isinstance(value, list) else value
        )
    if isinstance(kind, ListType):
        convert_element = _from_arrow(kind.element)
        if convert_element is None:
            return None
        return lambda value: list(map(convert_element, value)) if isinstance(value, list) else value
    if kind.name == "SQL_TIMESTAMP":
        return lambda value: value if value is None or value.tzinfo is None else value.replace(tzinfo=None)
    if kind.name == "FLOAT":
        return _float
    return None


def _same(value: Any) -> Any:
    return value


def _float(value: Any) -> Any:
    # The type rounds floats of 64 bits, and a reader changes nothing.
    if isinstance(value, float) and value == value and rounded_to_float(value) != value:
        raise ValueError(f"{value} is not a float of 32 bits: declare DOUBLE")
    return value


class AvroParquetReaders:
    """Formats of Parquet files that hold records of Avro (PyFlink: AvroParquetReaders)."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat:
        """Return the format whose records are dicts with the fields of a schema.

        Raises:
            TypeError: it is not an AvroSchema, or a field has no type in Parquet.
            ExtraMissing: pyarrow is not installed.
        """
        if not isinstance(schema, AvroSchema):
            raise TypeError(f"{schema!r} is not an AvroSchema: make one with AvroSchema.parse_string")
        require("the Parquet reader", PARQUET)
        arrow_schema_of_avro(schema)
        return StreamFormat(AvroParquetFormat(schema))


class AvroParquetFormat(ParquetFormat):
    """Records of Avro in Parquet files."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def columns(self) -> Sequence[str]:
        """Return the names of the fields."""
        return [field["name"] for field in self._schema.parsed["fields"]]

    def converter(self) -> Callable[[Sequence[Any]], Any]:
        """Return the function that makes a dict of the values that Avro stores."""
        field = avro_field_of(self._schema)
        stored = [member["type"] for member in field.stored["fields"]]
        names = self.columns()
        required = [
            name
            for name, kind in zip(names, stored, strict=True)
            if kind != "null" and not (isinstance(kind, list) and "null" in kind)
        ]
        write = field.write

        def convert(fields: Sequence[Any]) -> Any:
            record = dict(zip(names, fields, strict=True))
            for name in required:
                if record[name] is None:
                    raise ValueError(f"field {name!r} is missing, and the schema does not let it be null")
            return write(record)

        return convert

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._schema,)


class ParquetFile(BulkFile):
    """A Parquet file that is open."""

    first_place = 0

    def __init__(self, path: str, parquet_format: ParquetFormat) -> None:
        from pyarrow import parquet

        self._path = path
        self._batch_rows = parquet_format.batch_rows
        self._convert = parquet_format.converter()
        self._file = open(path, "rb")  # noqa: SIM115
        try:
            self._parquet = self._guarded("footer", lambda: parquet.ParquetFile(self._file))
            self._found = self._columns_of(parquet_format)
        except BaseException:
            self._file.close()
            raise

    def block(self, place: int, skip: int) -> Block | None:
        metadata = self._parquet.metadata
        if place >= metadata.num_row_groups:
            return None
        where = f"row group {place + 1}"
        group = self._guarded(where, lambda: metadata.row_group(place))
        if not 0 <= group.total_byte_size <= MOST_GROUP_BYTES:
            raise MalformedFile(
                self._path, where, f"it has {group.total_byte_size} bytes: write smaller row groups"
            )
        return Block(self._batches(place, skip, where), group.num_rows, place + 1)

    def close(self) -> None:
        self._file.close()

    def _batches(self, place: int, skip: int, where: str) -> Iterator[list[Any]]:
        names = [name for name in self._found if name is not None]
        batches = self._guarded(
            where,
            lambda: self._parquet.iter_batches(self._batch_rows, row_groups=[place], columns=names),
        )
        row = 0
        while True:
            batch = self._guarded(f"{where}, after row {row}", lambda: next(batches, None))
            if batch is None:
                return
            begin = max(skip - row, 0)
            if begin < batch.num_rows:
                yield self._records(batch, begin, row, where)
            row += batch.num_rows

    def _records(self, batch: pyarrow.RecordBatch, begin: int, row: int, where: str) -> list[Any]:
        part = batch.slice(begin)

        def values(name: str) -> list[Any]:
            column = f"{where}, column {name!r}"
            found: list[Any] = self._guarded(column, lambda: _values(part.column(name)))
            return found

        columns = [[None] * part.num_rows if name is None else values(name) for name in self._found]
        convert = self._convert
        records = []
        for fields in zip(*columns, strict=True):
            try:
                records.append(convert(fields))
            except (WrongValue, ValueError, TypeError, AttributeError) as error:
                number = row + begin + len(records) + 1
                path = f"{', '.join(reversed(error.path))}: " if isinstance(error, WrongValue) else ""
                raise MalformedFile(
                    self._path, f"{where}, row {number}", f"{path}{error}; declare the type that the file has"
                ) from None
        return records

    def _columns_of(self, parquet_format: ParquetFormat) -> list[str | None]:
        """Return the columns of the file for those that are asked for; None for one that the file lacks."""
        names = self._guarded("footer", lambda: self._parquet.schema_arrow.names)
        if parquet_format.is_case_sensitive:
            return [name if name in names else None for name in parquet_format.columns()]
        found: list[str | None] = []
        for wanted in parquet_format.columns():
            same = [name for name in names if name.lower() == wanted.lower()]
            if len(same) > 1:
                raise MalformedFile(
                    self._path, "footer", f"columns {', '.join(same)} differ by case only: read them by case"
                )
            found.append(same[0] if same else None)
        return found

    def _guarded(self, where: str, step: Callable[[], Any]) -> Any:
        """Return what a step of the package returns. Raises MalformedFile for a file that is damaged."""
        try:
            return step()
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            # The binding raises ArrowInvalid, OSError without a number and others, as the bytes have it.
            raise MalformedFile(
                self._path, where, f"it cannot be read ({type(error).__name__}: {str(error)[:200]}): {_MEND}"
            ) from None


def _values(column: pyarrow.Array) -> list[Any]:
    """Return the values of a column as Python has them; nanoseconds are cut to microseconds."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_timestamp(kind) and kind.unit == "ns":
        column = column.cast(pyarrow.timestamp("us", tz=kind.tz), safe=False)
    elif pyarrow.types.is_time(kind) and kind.unit == "ns":
        column = column.cast(pyarrow.time64("us"), safe=False)
    values: list[Any] = column.to_pylist()
    return values
