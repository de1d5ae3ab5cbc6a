"""The connector ``filesystem``: files of rows in csv, json, debezium-json, avro or parquet.

Rules:

- A source reads the files that are there and ends, or looks for new ones with ``source.monitor-interval``.
- A sink is exactly-once: part files become visible with their checkpoint (``connectors/file_sink.py``), and
  each subtask begins a new one with each checkpoint, whatever the rolling policy allows beyond.
- Tables are not partitioned here: a table with PARTITIONED BY is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from onceproof.engine.configuration.parsing import parse_memory_bytes, parse_positive_duration_ms
from onceproof.engine.connectors.avro_input import AvroFileFormat
from onceproof.engine.connectors.bulk_files import Block, BulkFile, BulkFormat
from onceproof.engine.connectors.csv_input import CsvSchemaFormat, CsvSchemaParser
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_content import UnreadableFile
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.connectors.folder_source import FileSource
from onceproof.engine.connectors.formats import FileFormat, Format, Parser
from onceproof.engine.connectors.parquet_input import ParquetFormat
from onceproof.engine.connectors.rolling import PART_SIZE, RollingPolicy
from onceproof.engine.connectors.source import Source
from onceproof.engine.elements import Record
from onceproof.engine.extras import PARQUET, require
from onceproof.engine.formats.avro_files import AvroWriterFactory
from onceproof.engine.formats.avro_schema import AvroSchema
from onceproof.engine.formats.bulk_writers import BulkWriter, BulkWriterFactory, OutputFile
from onceproof.engine.formats.csv_schema import CsvColumn, CsvSchema
from onceproof.engine.formats.message_schemas import MalformedMessage
from onceproof.engine.formats.parquet_files import ParquetWriter
from onceproof.engine.table.connectors.avro import from_avro, schema_by, to_avro
from onceproof.engine.table.connectors.message_formats import CsvFormat, MessageFormat, format_of
from onceproof.engine.table.connectors.message_types import from_message, type_of
from onceproof.engine.table.connectors.registry import Options, sink, source
from onceproof.engine.table.python_values import from_python, to_python
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import INSERT, Change, Row

AVRO: Final = "avro"
PARQUET_FILES: Final = "parquet"
_MONITOR: Final = "source.monitor-interval"
_ROLLOVER_MS: Final = 30 * 60_000
_MICROSECONDS: Final = 6


# ---- lines


class LinesFormat(Format):
    """A message for each line."""

    def __init__(self, messages: MessageFormat) -> None:
        self._messages = messages

    def parser(self, path: str, header: bytes, *, single_lines: bool) -> Parser:
        """Return a parser of lines."""
        return LinesParser(self._messages)


class LinesParser(Parser):
    """Makes changes of lines."""

    def __init__(self, messages: MessageFormat) -> None:
        self._changes = messages.changes

    def parse(self, data: bytes) -> list[Record]:
        changes = self._changes
        lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
        return [(change, None) for line in lines if line for change in changes(line)]

    def explain(self, data: bytes) -> tuple[int, str] | None:
        for number, line in enumerate(data.split(b"\n"), 1):
            try:
                self._changes(line.removesuffix(b"\r"))
            except MalformedMessage as error:
                return number, str(error)
        return None


class CsvFiles(CsvSchemaFormat):
    """Files of CSV without a header, whose quoted fields may span lines."""

    def __init__(self, messages: CsvFormat) -> None:
        row = messages.row
        columns = tuple([CsvColumn(each.name, type_of(each.type)) for each in row.fields])
        super().__init__(CsvSchema(columns, messages.form))
        self._messages = messages

    def parser(self, path: str, header: bytes, *, single_lines: bool) -> CsvSchemaParser:
        """Return a parser of records."""
        return CsvParser(self._schema, self._messages)


class CsvParser(CsvSchemaParser):
    """Makes changes of records."""

    def __init__(self, schema: CsvSchema, messages: CsvFormat) -> None:
        self._ignores = messages.ignores_errors
        super().__init__(schema, list(range(len(schema.columns))), ignores_errors=self._ignores)
        self._values = from_message(messages.row, messages.times, ignores_errors=self._ignores)

    def parse(self, data: bytes) -> list[Record]:
        return [record for record in super().parse(data) if record[0] is not None]

    def _row(self, texts: list[str]) -> Change | None:
        try:
            return INSERT, self._values(super()._row(texts))
        except ValueError:
            if self._ignores:
                return None
            raise


class ChangeEncoder(Encoder):
    """Writes a line for each change."""

    def __init__(self, messages: MessageFormat) -> None:
        self._messages = messages

    def encode_batch(self, values: Sequence[Change]) -> bytes:
        message = self._messages.message
        return b"".join([message(change) + b"\n" for change in values])


# ---- Avro and Parquet


class ChangesOfBlocks(BulkFormat):
    """Makes changes of the records of another format."""

    def __init__(self, inner: BulkFormat, row: LogicalType) -> None:
        self._inner, self._row = inner, row

    def open_file(self, path: str) -> BulkFile:
        """Open a file. Raises MalformedFile, or OSError."""
        return ChangesOfFile(self._inner.open_file(path), from_avro(self._row))


class ChangesOfFile(BulkFile):
    """A file that is open."""

    def __init__(self, inner: BulkFile, convert: Callable[[Any], Row]) -> None:
        self._inner, self._convert = inner, convert
        self.first_place = inner.first_place

    def block(self, place: int, skip: int) -> Block | None:
        found = self._inner.block(place, skip)
        if found is None:
            return None
        convert = self._convert
        batches = ([(INSERT, convert(record)) for record in batch] for batch in found.batches)
        return found._replace(batches=batches)

    def close(self) -> None:
        self._inner.close()


class ParquetChanges(ParquetFormat):
    """Rows of Parquet files as changes."""

    def __init__(self, row: LogicalType) -> None:
        self._row = row

    def columns(self) -> Sequence[str]:
        """Return the names of the columns."""
        return self._row.names

    def converter(self) -> Callable[[Sequence[Any]], Change]:
        """Return the function from the fields of a row to a change."""
        fields = [_from_arrow(kind) for kind in self._row.types]
        return lambda values: (
            INSERT,
            tuple([convert(value) for convert, value in zip(fields, values, strict=True)]),
        )


def _from_arrow(kind: LogicalType) -> Callable[[Any], Any]:
    """Return the function from a value as Arrow gives it, in which a map is a list of pairs."""
    convert = from_python(kind)
    if kind.root != "MAP":
        return convert
    return lambda value: convert(dict(value) if isinstance(value, list) else value)


def arrow_schema(row: LogicalType) -> Any:
    """Return the schema of Arrow for a row. Raises ValueError for a type that it lacks."""
    import pyarrow

    return pyarrow.schema([pyarrow.field(each.name, _arrow_type(each.type)) for each in row.fields])


def _arrow_type(kind: LogicalType) -> Any:
    import pyarrow

    plain = {
        "BOOLEAN": pyarrow.bool_,
        "TINYINT": pyarrow.int8,
        "SMALLINT": pyarrow.int16,
        "INT": pyarrow.int32,
        "BIGINT": pyarrow.int64,
        "FLOAT": pyarrow.float32,
        "DOUBLE": pyarrow.float64,
        "CHAR": pyarrow.string,
        "VARCHAR": pyarrow.string,
        "BINARY": pyarrow.binary,
        "VARBINARY": pyarrow.binary,
        "DATE": pyarrow.date32,
    }
    if kind.root in plain:
        return plain[kind.root]()
    match kind.root:
        case "DECIMAL":
            return pyarrow.decimal128(kind.precision, kind.scale)
        case "TIME":
            return pyarrow.time32("ms")
        case "TIMESTAMP" | "TIMESTAMP_LTZ" if kind.precision <= _MICROSECONDS:
            zone = "UTC" if kind.root == "TIMESTAMP_LTZ" else None
            return pyarrow.timestamp("ms" if kind.precision <= 3 else "us", tz=zone)
        case "ARRAY":
            return pyarrow.list_(_arrow_type(kind.element))
        case "MAP":
            return pyarrow.map_(*map(_arrow_type, kind.arguments))
        case "ROW" | "STRUCTURED":
            return pyarrow.struct([(each.name, _arrow_type(each.type)) for each in kind.fields])
    raise ValueError(f"Parquet carries no {kind} here")


class ChangesFactory(BulkWriterFactory):
    """Makes writers of the rows of changes into files of blocks."""

    def __init__(self, row: LogicalType, schema: AvroSchema | None) -> None:
        self._row, self._schema = row, schema

    def create(self, file: OutputFile) -> BulkWriter:
        """Return a writer into a file."""
        if self._schema is not None:
            return ChangesWriter(AvroWriterFactory(self._schema).create(file), to_avro(self._row))
        return ChangesWriter(ParquetWriter(arrow_schema(self._row), file), to_python(self._row))


class ChangesWriter(BulkWriter):
    """Writes the rows of changes."""

    def __init__(self, inner: BulkWriter, convert: Callable[[Row], Any]) -> None:
        self._inner, self._convert = inner, convert

    def add_elements(self, elements: Sequence[Change]) -> None:
        convert = self._convert
        self._inner.add_elements([convert(row) for _, row in elements])

    def finish(self) -> None:
        self._inner.finish()


# ---- the connector


@source("filesystem")
def files_source(end: TableEnd, options: Options) -> Source:
    """Read the files at a path."""
    path = _path(end, options)
    interval_ms = options.read(_MONITOR, parse_positive_duration_ms, 0)
    options.ignored("source.report-statistics")
    try:
        return FileSource(_file_format(end.type, options), [path], interval_ms or None)
    except UnreadableFile as error:
        raise options.wrong(str(error)) from None


def _file_format(row: LogicalType, options: Options) -> FileFormat:
    name = options.required("format")
    if name == AVRO:
        return ChangesOfBlocks(AvroFileFormat(_with_reasons(options, schema_by, row, options, "avro.")), row)
    if name == PARQUET_FILES:
        _check_parquet(row, options)
        return ParquetChanges(row)
    messages = format_of(row, options, "format", (PARQUET_FILES,))
    assert messages is not None
    return CsvFiles(messages) if isinstance(messages, CsvFormat) else LinesFormat(messages)


@sink("filesystem")
def files_sink(end: TableEnd, options: Options) -> FileSink:
    """Write part files below a path."""
    path, name = _path(end, options), options.required("format")
    size = options.read("sink.rolling-policy.file-size", parse_memory_bytes, PART_SIZE)
    rollover_ms = options.read(
        "sink.rolling-policy.rollover-interval", parse_positive_duration_ms, _ROLLOVER_MS
    )
    idle_ms = options.read(
        "sink.rolling-policy.inactivity-interval", parse_positive_duration_ms, _ROLLOVER_MS
    )
    check_ms = options.read("sink.rolling-policy.check-interval", parse_positive_duration_ms, 60_000)
    options.ignored("source.report-statistics")
    if name in (AVRO, PARQUET_FILES):
        schema = None
        if name == AVRO:
            schema = _with_reasons(options, schema_by, end.type, options, "avro.")
        else:
            _check_parquet(end.type, options)
        return FileSink.for_bulk_format(path, ChangesFactory(end.type, schema)).build()
    messages = format_of(end.type, options, "format", (PARQUET_FILES,))
    assert messages is not None
    policy = RollingPolicy.default_rolling_policy(size, rollover_ms, idle_ms)
    builder = FileSink.for_row_format(path, ChangeEncoder(messages)).with_rolling_policy(policy)
    return builder.with_bucket_check_interval(check_ms).build()


def _path(end: TableEnd, options: Options) -> str:
    if end.partition_keys:
        raise options.wrong("PARTITIONED BY is not supported by the connector 'filesystem' here")
    return options.required("path").removeprefix("file://")


def _check_parquet(row: LogicalType, options: Options) -> None:
    require("the format parquet", PARQUET)
    options.flag("parquet.utc-timezone")
    _with_reasons(options, arrow_schema, row)


def _with_reasons(options: Options, make: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except ValueError as error:
        raise options.wrong(str(error)) from None
