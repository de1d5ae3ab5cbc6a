"""The parsers of CSV and JSON lines.

The rules this module lives by:

- A parser works on blocks of whole lines and splits and converts each column with one call, without Python
  code for each row. Only if a block fails is it parsed again row by row, to find the line and the reason.
- Nothing is repaired, and only blank lines are skipped: a row with a field too many, a field that is no
  number or bytes that are no UTF-8 are malformed rows.
- A value is a tuple with a field for each column of the schema, in the order of the schema.
"""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import repeat
from typing import Annotated, Any, Final

import msgspec

from onceproof.engine.elements import Record
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.types import TypeInformation

Schema = Sequence[tuple[str, TypeInformation]]

_BITS: Final = {"BYTE": 8, "SHORT": 16, "INT": 32, "LONG": 64}
_NUMBERS: Final = (*_BITS, "BIG_INT", "FLOAT", "DOUBLE", "BIG_DEC")


class MalformedRow(UnrecoverableError, ValueError):
    """A row does not match the schema: the ``path``, the ``line`` from 1, and ``what`` is wrong."""

    def __init__(self, path: str, line: int, what: str) -> None:
        super().__init__(path, line, what)
        self.path = path
        self.line = line
        self.what = what

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}: {self.what}"


class Unfinished(Exception):
    """The last record of the block continues behind it."""


class Parser(ABC):
    """Parses blocks of one file into records."""

    @abstractmethod
    def parse(self, data: bytes) -> list[Record]:
        """Return the records of whole lines. Raises Unfinished, or a ValueError for a malformed row."""

    @abstractmethod
    def explain(self, data: bytes) -> tuple[int, str] | None:
        """Return the line, from 1, of the first malformed row of a block, and what is wrong with it."""


class FileFormat(ABC):  # noqa: B024
    """A format of files: of lines (``Format``), or of blocks (``BulkFormat``)."""


class Format(FileFormat):
    """A format of lines: makes the parser of each file."""

    header_lines = 0
    """The lines at the beginning of a file that are no records."""

    @abstractmethod
    def parser(self, path: str, header: bytes, *, single_lines: bool) -> Parser:
        """Return a parser for a file with this header; ``single_lines``: no record may span lines."""


def check_schema(schema: Schema, timestamp_column: str | None, nullable: Iterable[str]) -> None:
    """Raise ValueError if names do not match the schema."""
    kinds = dict(schema)
    if not kinds:
        raise ValueError("the schema has no column: name those that a value is made of")
    names = [name for name, _ in schema]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"column {name!r} is in the schema twice")
    for name in nullable:
        if name not in kinds:
            raise ValueError(f"nullable column {name!r} is not in the schema: it has {', '.join(names)}")
    if timestamp_column is not None:
        if timestamp_column not in kinds:
            raise ValueError(
                f"timestamp column {timestamp_column!r} is not in the schema: it has {', '.join(names)}"
            )
        if kinds[timestamp_column].name not in _BITS:
            raise ValueError(
                f"timestamp column {timestamp_column!r} is {kinds[timestamp_column].name}:"
                " declare Types.LONG(), milliseconds"
            )


# ---- CSV


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered == "true":
        return True
    if lowered == "false":
        return False
    raise ValueError(text)


_CONVERTERS: Final[dict[str, Callable[[str], Any]]] = {
    "STRING": str,
    "BOOLEAN": _boolean,
    "BYTE": int,
    "SHORT": int,
    "INT": int,
    "LONG": int,
    "BIG_INT": int,
    "FLOAT": float,
    "DOUBLE": float,
    "BIG_DEC": Decimal,
    "SQL_DATE": date.fromisoformat,
    "SQL_TIME": time.fromisoformat,
    "SQL_TIMESTAMP": datetime.fromisoformat,
}


class Column:
    """One column of a CSV file: its index, and the conversion of its fields."""

    __slots__ = ("_convert", "_is_number", "_largest", "_nulls", "_smallest", "index", "name", "type_name")

    def __init__(self, name: str, type_name: str, index: int, nulls: frozenset[str]) -> None:
        self.name = name
        self.type_name = type_name
        self.index = index
        self._convert = _CONVERTERS[type_name]
        self._nulls = nulls
        self._is_number = type_name in _NUMBERS
        bits = _BITS.get(type_name, 0)
        self._largest = (1 << (bits - 1)) - 1 if bits else 0
        self._smallest = -1 - self._largest

    def values(self, texts: Sequence[str], strict: bool) -> Sequence[Any]:
        nulls = self._nulls
        convert = self._convert
        if strict and self._is_number:
            return [self.value(text) for text in texts]
        if nulls and not nulls.isdisjoint(texts):
            values = [None if text in nulls else convert(text) for text in texts]
            numbers = [value for value in values if value is not None] if self._largest else []
        elif convert is str:
            return texts
        else:
            values = list(map(convert, texts))
            numbers = values
        if self._largest and numbers and (max(numbers) > self._largest or min(numbers) < self._smallest):
            raise ValueError("out of range")
        return values

    def value(self, text: str) -> Any:
        """Convert one field, as strictly as a whole column."""
        if text in self._nulls:
            return None
        if self._is_number and "_" in text:
            # Python would read 1_000 as a number.
            raise ValueError(text)
        value = self._convert(text)
        if self._largest and not self._smallest <= value <= self._largest:
            raise ValueError(text)
        return value


class CsvFormat(Format):
    """Comma-separated values with or without a header."""

    def __init__(
        self,
        schema: Schema,
        *,
        timestamp_column: str | None,
        delimiter: str,
        header: bool,
        nullable: Iterable[str],
        null_values: Iterable[str],
    ) -> None:
        check_schema(schema, timestamp_column, nullable)
        csv.reader((), delimiter=delimiter)
        for name, kind in schema:
            if kind.name not in _CONVERTERS:
                raise ValueError(
                    f"column {name!r} is {kind.name}, which CSV does not carry:"
                    " read it as Types.STRING() and map it"
                )
        self.header_lines = int(header)
        self.delimiter = delimiter
        self._schema = [(name, kind.name) for name, kind in schema]
        self._timestamp_column = timestamp_column
        self._nullable = frozenset(nullable)
        self._null_values = frozenset(null_values)

    def parser(self, path: str, header: bytes, *, single_lines: bool) -> CsvParser:
        """Find the columns of the schema in the header."""
        names = [name for name, _ in self._schema]
        found = names
        if self.header_lines:
            found = self._header_names(path, header)
            for name in names:
                if found.count(name) != 1:
                    how = "no column" if name not in found else "more than one column"
                    raise MalformedRow(path, 1, f"{how} {name!r} in the header: it has {', '.join(found)}")
        none: frozenset[str] = frozenset()
        columns = [
            Column(name, kind, found.index(name), self._null_values if name in self._nullable else none)
            for name, kind in self._schema
        ]
        timestamp = None if self._timestamp_column is None else names.index(self._timestamp_column)
        return CsvParser(columns, len(found), self.delimiter, timestamp, single_lines)

    def _header_names(self, path: str, header: bytes) -> list[str]:
        try:
            rows = list(csv.reader([header.decode()], delimiter=self.delimiter, strict=True))
        except (csv.Error, UnicodeDecodeError) as error:
            raise MalformedRow(path, 1, f"the header cannot be read: {error}") from error
        if not rows or not rows[0]:
            raise MalformedRow(path, 1, "no header: begin the file with one, or pass header=False")
        return rows[0]


class CsvParser(Parser):
    """Reads blocks of one CSV file."""

    def __init__(
        self, columns: list[Column], width: int, delimiter: str, timestamp: int | None, single_lines: bool
    ) -> None:
        self._columns = columns
        self._width = width
        self._delimiter = delimiter
        self._timestamp = timestamp
        self._single_lines = single_lines

    def parse(self, data: bytes) -> list[Record]:
        """Split the block into columns, convert them, and zip them into rows."""
        text = data.decode()
        if not text.endswith("\n"):
            text += "\n"
        cut = self._cut_plain(text)
        if cut is None:
            cut = self._cut_quoted(text)
        if not cut:
            return []
        strict = "_" in text
        columns = [column.values(cut[column.index], strict) for column in self._columns]
        timestamps = repeat(None) if self._timestamp is None else columns[self._timestamp]
        return list(zip(zip(*columns, strict=True), timestamps, strict=False))

    def explain(self, data: bytes) -> tuple[int, str] | None:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            return data.count(b"\n", 0, error.start) + 1, f"byte 0x{data[error.start]:02x} is not UTF-8"
        reader = self._reader(text)
        line = 1
        try:
            for row in reader:
                what = self._wrong(row)
                if what is None and self._single_lines and reader.line_num > line:
                    what = (
                        "a quoted field spans lines, so the file cannot be read by byte ranges:"
                        " leave out bytes_per_split"
                    )
                if what is not None:
                    return line, what
                line = reader.line_num + 1
        except csv.Error as error:
            if _is_unfinished(error):
                return line, "a quote opens that never closes"
            return line, str(error)
        return None

    def _cut_plain(self, text: str) -> list[Sequence[str]] | None:
        """Columns of a block without quotes: one split of the whole, with a mark behind every row.

        Every row has the right number of fields exactly if all marks, and only they, are where marks belong.
        """
        if '"' in text:
            return None
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        if "\r" in text or "\n\n" in text or text[0] == "\n":
            return None
        width = self._width
        delimiter = self._delimiter
        fields = text.replace("\n", f"{delimiter}\n{delimiter}").split(delimiter)
        rows = text.count("\n")
        step = width + 1
        marks = fields[width::step]
        if len(marks) != rows or marks.count("\n") != rows:
            raise ValueError("a row has the wrong number of fields")
        del fields[-1]
        return [fields[index::step] for index in range(width)]

    def _cut_quoted(self, text: str) -> list[Sequence[str]]:
        """Split any block into columns with the csv module."""
        reader = self._reader(text)
        try:
            rows = list(reader)
        except csv.Error as error:
            if _is_unfinished(error):
                raise Unfinished from error
            raise ValueError(str(error)) from error
        if self._single_lines and reader.line_num != len(rows):
            raise ValueError("a record spans lines")
        rows = [row for row in rows if row]
        if any(len(row) != self._width for row in rows):
            raise ValueError("a row has the wrong number of fields")
        return list(zip(*rows, strict=True))

    def _reader(self, text: str) -> Any:
        return csv.reader(_lines(text), delimiter=self._delimiter, strict=True)

    def _wrong(self, row: list[str]) -> str | None:
        if not row:
            return None
        if len(row) != self._width:
            return f"{self._width} fields are needed, it has {len(row)}"
        for column in self._columns:
            text = row[column.index]
            try:
                column.value(text)
            except (ValueError, ArithmeticError):
                return f"column {column.name!r}: {text!r} is no {column.type_name}"
        return None


def _is_unfinished(error: csv.Error) -> bool:
    return str(error) == "unexpected end of data"


def _lines(text: str) -> Iterator[str]:
    """Yield the lines with their ends, split at newlines only."""
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin) + 1 or len(text)
        yield text[begin:end]
        begin = end


# ---- JSON lines


class JsonLinesFormat(Format):
    """One JSON document for each line; without a schema, a value is the document."""

    def __init__(
        self, schema: Schema | None, *, timestamp_column: str | None, nullable: Iterable[str]
    ) -> None:
        self._timestamp: str | int | None = timestamp_column
        document: Any = Any
        if schema is not None:
            check_schema(schema, timestamp_column, nullable)
            document = _document(schema, frozenset(nullable))
            if timestamp_column is not None:
                self._timestamp = [name for name, _ in schema].index(timestamp_column)
        elif timestamp_column is not None:
            document = dict[str, Any]
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(document)
        self._has_schema = schema is not None

    def parser(self, path: str, header: bytes, *, single_lines: bool) -> JsonLinesParser:
        """Return a parser; JSON documents of one line need no header."""
        return JsonLinesParser(self._decoder, self._timestamp, self._has_schema)


class JsonLinesParser(Parser):
    """Reads blocks of JSON lines."""

    def __init__(
        self, decoder: msgspec.json.Decoder[Any], timestamp: str | int | None, has_schema: bool
    ) -> None:
        self._decoder = decoder
        self._timestamp = timestamp
        self._has_schema = has_schema

    def parse(self, data: bytes) -> list[Record]:
        try:
            values = self._decoder.decode_lines(data)
        except RecursionError as error:
            raise ValueError("the document is nested too deeply") from error
        if self._has_schema:
            values = list(map(msgspec.structs.astuple, values))
        timestamp = self._timestamp
        if timestamp is None:
            return list(zip(values, repeat(None), strict=False))
        return [(value, _timestamp(value, timestamp)) for value in values]

    def explain(self, data: bytes) -> tuple[int, str] | None:
        for number, line in enumerate(data.split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                self._decoder.decode(line)
                self.parse(line)
            except RecursionError:
                return number, "the document is nested too deeply"
            except UnicodeDecodeError as error:
                return number, f"byte 0x{error.object[error.start]:02x} is not UTF-8"
            except ValueError as error:
                return number, str(error)
        return None


def _timestamp(value: Any, field: Any) -> int | None:
    timestamp = value.get(field) if type(value) is dict else value[field]
    if timestamp is not None and type(timestamp) is not int:
        raise ValueError(f"timestamp column {field!r} holds {timestamp!r}: milliseconds are needed")
    return timestamp


def _document(schema: Schema, nullable: frozenset[str]) -> type:
    """Return a struct type with a field for each column; column names need not be identifiers."""
    fields: list[Any] = []
    for index, (name, kind) in enumerate(schema):
        wanted: Any = kind.python_type
        bits = _BITS.get(kind.name)
        if bits is not None:
            largest = (1 << (bits - 1)) - 1
            wanted = Annotated[int, msgspec.Meta(ge=-1 - largest, le=largest)]
        if name in nullable:
            fields.append((f"field_{index}", wanted | None, msgspec.field(default=None, name=name)))
        else:
            fields.append((f"field_{index}", wanted, msgspec.field(name=name)))
    return msgspec.defstruct("Document", fields, gc=False, kw_only=True)
