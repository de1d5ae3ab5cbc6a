"""Rows as lines of CSV: what the writers of files and the schema of messages share.

The rules this module lives by:

- A field is quoted where it needs to be. Without quotes and without an escape sign such a field is refused.
- None is the null value, or an empty field; true and false are words; arrays are joined by their separator.
- A value is first converted to the type of its column, as where a stream has that type.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

from onceproof.engine.formats.bulk_writers import BulkWriter, BulkWriterFactory, OutputFile, WrongRow
from onceproof.engine.formats.csv_schema import CsvColumn, CsvForm, CsvSchema
from onceproof.engine.formats.csv_values import scalar_writer
from onceproof.engine.types import WrongValue
from onceproof.engine.types.composite import ListType


class CsvRows:
    """Writes rows of a schema as text."""

    def __init__(self, schema: CsvSchema) -> None:
        self._form = schema.form
        self._names = [column.name for column in schema.columns]
        convert = schema.row_type.converter()
        assert convert is not None
        self._convert: Callable[[Any], Any] = convert
        self._texts = [_text_of(column, schema.form) for column in schema.columns]

    def header(self) -> str:
        """Return the line with the names of the columns."""
        return self._lines([self._names])

    def text(self, rows: Sequence[Any]) -> str:
        """Return the lines of rows. Raises WrongRow for one that the schema does not take."""
        texts = self._texts
        lines = []
        for row in rows:
            try:
                fields = self._convert(row)
                lines.append([text(field) for text, field in zip(texts, fields, strict=True)])
            except (WrongValue, ValueError) as error:
                raise WrongRow(row, error) from error
        try:
            return self._lines(lines)
        except csv.Error as error:
            if len(rows) == 1:
                raise WrongRow(rows[0], f"{error}: set a quote or an escape sign") from error
            return "".join([self.text([row]) for row in rows])

    def _lines(self, lines: Sequence[Sequence[str]]) -> str:
        form = self._form
        text = io.StringIO()
        csv.writer(
            text,
            delimiter=form.column_separator,
            lineterminator=form.line_separator,
            quotechar=form.quote,
            quoting=csv.QUOTE_NONE if form.quote is None else csv.QUOTE_MINIMAL,
            escapechar=form.escape,
        ).writerows(lines)
        return text.getvalue()


def _text_of(column: CsvColumn, form: CsvForm) -> Callable[[Any], str]:
    """Return the function from a value of a column to its text."""
    null = form.null_value or ""
    if isinstance(column.type, ListType):
        separator = form.array_separator if column.separator is None else column.separator
        element_text = scalar_writer(column.type.element, f"an element of column {column.name!r}")

        def array_text(value: Any) -> str:
            if value is None:
                return null
            elements = [null if each is None else element_text(each) for each in value]
            if separator and any(separator in each for each in elements):
                raise ValueError(f"an element holds the separator {separator!r}")
            if not separator and len(elements) > 1:
                raise ValueError("an array without a separator has one element")
            return separator.join(elements)

        return array_text
    text = scalar_writer(column.type, f"column {column.name!r}")
    return lambda value: null if value is None else text(value)


class CsvBulkWriters:
    """Factories of writers of CSV files (PyFlink: CsvBulkWriters)."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvWriterFactory:
        """Return a factory of writers of rows of a schema.

        Raises:
            TypeError: it is not a CsvSchema.
        """
        if not isinstance(schema, CsvSchema):
            raise TypeError(f"{schema!r} is not a CsvSchema: make one with CsvSchema.builder()")
        return CsvWriterFactory(schema)


class CsvWriterFactory(BulkWriterFactory):
    """Makes writers of CSV files of one schema."""

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema

    def create(self, file: OutputFile) -> CsvWriter:
        """Return a writer into a file."""
        return CsvWriter(self._schema, file)


class CsvWriter(BulkWriter):
    """Writes one CSV file, with a header where the schema wants one."""

    __slots__ = ("_file", "_rows")

    def __init__(self, schema: CsvSchema, file: OutputFile) -> None:
        self._rows = CsvRows(schema)
        self._file = file
        if schema.form.uses_header:
            file.write(self._rows.header().encode())

    def add_elements(self, elements: Sequence[Any]) -> None:
        self._file.write(self._rows.text(elements).encode())

    def finish(self) -> None:
        return
