"""Reading CSV files with a schema (PyFlink: CsvReaderFormat).

The rules this module lives by:

- A record is a Row of the schema's columns. Fields are read as in messages (`formats/csv_values.py`).
- With a header the file's own order of the columns counts; with strict headers it must be the schema's. A
  column that one of both lacks is malformed.
- Blank lines are left out, and comments where the schema allows them.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any

from onceproof.engine.connectors.formats import Format, MalformedRow, Parser, Unfinished
from onceproof.engine.connectors.text_lines import StreamFormat
from onceproof.engine.elements import Record
from onceproof.engine.formats.csv_lines import CsvScanner, UnfinishedRecord, WrongRecord
from onceproof.engine.formats.csv_schema import CsvSchema
from onceproof.engine.formats.csv_values import FieldReaders, Read
from onceproof.engine.types.row import make_row


class CsvReaderFormat(StreamFormat):
    """The format of CSV files with a schema (PyFlink: CsvReaderFormat). Make one with ``for_schema``."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """Return the format whose records are rows of a schema. Raises TypeError: it is not a CsvSchema."""
        if not isinstance(schema, CsvSchema):
            raise TypeError(f"{schema!r} is not a CsvSchema: make one with CsvSchema.builder()")
        return CsvReaderFormat(CsvSchemaFormat(schema))


class CsvSchemaFormat(Format):
    """CSV files with a schema."""

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema
        self.header_lines = schema.form.uses_header + schema.form.skips_first_row

    def parser(self, path: str, header: bytes, *, single_lines: bool) -> CsvSchemaParser:
        """Find the columns of the schema in the header, where there is one."""
        names = [column.name for column in self._schema.columns]
        found = names
        if self._schema.form.uses_header:
            found = self._header_names(path, header)
            form = self._schema.form
            if sorted(found) != sorted(names) or (form.strict_headers and found != names):
                raise MalformedRow(
                    path, 1, f"the header has {', '.join(found)}: the schema asks for {', '.join(names)}"
                )
        return CsvSchemaParser(self._schema, [found.index(name) for name in names])

    def _header_names(self, path: str, header: bytes) -> list[str]:
        try:
            found, _ = CsvScanner(self._schema.form).record(header.decode(), 0)
        except (WrongRecord, UnicodeDecodeError) as error:
            raise MalformedRow(path, 1, f"the header cannot be read: {error}") from error
        return found


class CsvSchemaParser(Parser):
    """Reads blocks of one CSV file."""

    def __init__(self, schema: CsvSchema, places: list[int], *, ignores_errors: bool = False) -> None:
        readers = FieldReaders(schema.form, ignores_errors)
        self._names = tuple(column.name for column in schema.columns)
        self._fields: list[tuple[str, Read, int]] = [
            (column.name, readers.nullable(column.type, f"column {column.name!r}", column.separator), place)
            for column, place in zip(schema.columns, places, strict=True)
        ]
        self._scanner = CsvScanner(schema.form)

    def parse(self, data: bytes) -> list[Record]:
        text = data.decode()
        records: list[Any] = []
        place = self._next(text, 0)
        while place < len(text):
            try:
                texts, place = self._scanner.record(text, place)
            except UnfinishedRecord as error:
                raise Unfinished from error
            records.append(self._row(texts))
            place = self._next(text, place)
        return list(zip(records, repeat(None), strict=False))

    def explain(self, data: bytes) -> tuple[int, str] | None:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            return data.count(b"\n", 0, error.start) + 1, f"byte 0x{data[error.start]:02x} is not UTF-8"
        place = self._next(text, 0)
        while place < len(text):
            line = text.count("\n", 0, place) + 1
            try:
                texts, place = self._scanner.record(text, place)
                self._row(texts)
            except ValueError as error:
                return line, str(error)
            place = self._next(text, place)
        return None

    def _next(self, text: str, place: int) -> int:
        """Return where the next record begins."""
        while True:
            begin = self._scanner.after_comments(text, place)
            while begin < len(text) and text[begin] in "\r\n":
                begin += 1
            if begin == place:
                return place
            place = begin

    def _row(self, texts: list[str]) -> Any:
        if len(texts) != len(self._fields):
            raise ValueError(f"{len(self._fields)} fields are needed, it has {len(texts)}")
        items = []
        for name, read, place in self._fields:
            try:
                items.append(read(texts[place]))
            except ValueError as error:
                raise ValueError(f"column {name!r}: {error}") from None
        return make_row(self._names, items)
