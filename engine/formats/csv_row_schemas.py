"""Rows as messages of CSV (PyFlink: CsvRowSerializationSchema, CsvRowDeserializationSchema).

The rules this module lives by:

- A message is one record: a field for each field of the row, in order. A second record is malformed, where
  Flink leaves it out unseen.
- Fields are read and written as Flink does it (`csv_values`), with the signs of Jackson (`csv_lines`).
- With ``set_ignore_parse_errors`` a field that cannot be read and one that is missing is None, and what is
  no record, or has a field too many, is left out.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from onceproof.engine.formats.bulk_writers import WrongRow
from onceproof.engine.formats.csv_lines import CsvScanner, CsvWriting
from onceproof.engine.formats.csv_schema import CsvForm, sign
from onceproof.engine.formats.csv_values import FieldReaders, field_writer
from onceproof.engine.formats.message_schemas import (
    DeserializationSchema,
    MalformedMessage,
    SerializationSchema,
    checked_row_type,
    shown,
)
from onceproof.engine.types import TypeInformation, WrongValue
from onceproof.engine.types.row import RowType, make_row

_MEND: Final = "correct the message or the type, or drop it with set_ignore_parse_errors(True)"
_LINE_ENDS: Final = ("\n", "\r", "\r\n", "")


class CsvRowDeserializationSchema(DeserializationSchema):
    """Makes rows of records of CSV (PyFlink: CsvRowDeserializationSchema). Make one with ``Builder``."""

    def __init__(self, row_type: RowType, form: CsvForm, ignores_errors: bool) -> None:
        self._row_type = row_type
        self._form = form
        self._ignores_errors = ignores_errors
        readers = FieldReaders(form, ignores_errors)
        names = row_type.names or [f"f{place}" for place in range(len(row_type.fields))]
        self._fields = [
            (name, readers.nullable(kind, f"field {name!r} of the row"))
            for name, kind in zip(names, row_type.fields, strict=True)
        ]
        self._scanner = CsvScanner(form)

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message; None for what is ignored. Raises MalformedMessage."""
        try:
            return self._row(self._texts(message.decode()))
        except ValueError as error:
            if self._ignores_errors:
                return None
            raise MalformedMessage(
                f"the message {shown(message)} is not a row of CSV: {error}; {_MEND}"
            ) from None

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._row_type

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._row_type, self._form, self._ignores_errors)

    def _texts(self, text: str) -> list[str]:
        begin = self._scanner.after_comments(text, 0)
        if begin == len(text):
            raise ValueError("there is no record")
        texts, end = self._scanner.record(text, begin)
        if text[self._scanner.after_comments(text, end) :].strip("\r\n"):
            raise ValueError("there is more than one record")
        return texts

    def _row(self, texts: list[str]) -> Any:
        width = len(self._fields)
        if len(texts) == width + 1 and not texts[-1]:
            # Jackson takes a separator at the end of a record for none.
            texts = texts[:-1]
        if len(texts) > width or (len(texts) < width and not self._ignores_errors):
            raise ValueError(f"{width} fields are needed, it has {len(texts)}")
        items = []
        for (name, read), text in zip(self._fields, texts, strict=False):
            try:
                items.append(read(text))
            except ValueError as error:
                raise ValueError(f"field {name!r}: {error}") from None
        return make_row(self._row_type.names, items + [None] * (width - len(items)))

    class Builder:
        """Builds a CsvRowDeserializationSchema. Each method returns the builder.

        Args:
            type_info: the type of the rows.

        Raises:
            TypeError: it is not a type of rows; ``build``: CSV does not carry the type of a field.
            ValueError: a sign is not one character.
        """

        def __init__(self, type_info: TypeInformation) -> None:
            self._type_info = checked_row_type(type_info)
            self._form = CsvForm()
            self._ignore_parse_errors = False

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Set what separates fields; a comma by default."""
            return self._set(column_separator=sign("field delimiter", delimiter))

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:
            """Leave out lines that begin with ``#``."""
            return self._set(allows_comments=bool(allow_comments))

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Set what separates the elements of arrays and of rows within a row; a semicolon by default."""
            return self._set(array_separator=_text("array element delimiter", delimiter))

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Set the sign around fields that hold other signs; a double quote by default."""
            return self._set(quote=sign("quote character", c))

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Set the sign behind which any sign counts for itself; none by default."""
            return self._set(escape=sign("escape character", c))

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """Set the text that stands for None; none by default."""
            return self._set(null_value=_text("null literal", null_literal))

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:
            """Make None of fields that cannot be read, and leave out what is not a record."""
            self._ignore_parse_errors = bool(ignore_parse_errors)
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """Return the schema."""
            return CsvRowDeserializationSchema(self._type_info, self._form, self._ignore_parse_errors)

        def _set(self, **changed: object) -> CsvRowDeserializationSchema.Builder:
            self._form = replace(self._form, **changed)
            return self


class CsvRowSerializationSchema(SerializationSchema):
    """Makes records of CSV of rows (PyFlink: CsvRowSerializationSchema). Make one with ``Builder``."""

    def __init__(self, row_type: RowType, form: CsvForm) -> None:
        self._row_type = row_type
        self._form = form
        self._converter = row_type.converter()
        names = row_type.names or [f"f{place}" for place in range(len(row_type.fields))]
        self._writers = [
            field_writer(kind, f"field {name!r} of the row", form)
            for name, kind in zip(names, row_type.fields, strict=True)
        ]
        self._line = CsvWriting(form).line

    def serialize(self, element: Any) -> bytes:
        """Return the message of a row. Raises WrongRow for one that does not match the type."""
        try:
            row = self._converter(element)
            fields = [write(item) for write, item in zip(self._writers, row, strict=True)]
            return self._line(fields).encode()
        except (WrongValue, ValueError) as error:
            raise WrongRow(element, error) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._row_type, self._form)

    class Builder:
        """Builds a CsvRowSerializationSchema. Each method returns the builder.

        Args:
            type_info: the type of the rows.

        Raises:
            TypeError: it is not a type of rows; ``build``: CSV does not carry the type of a field.
            ValueError: a sign is not one character, or a line ends with another text than a newline, a
                carriage return, both or nothing.
        """

        def __init__(self, type_info: TypeInformation) -> None:
            self._type_info = checked_row_type(type_info)
            self._form = CsvForm()

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set what separates fields; a comma by default."""
            return self._set(column_separator=sign("field delimiter", c))

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set what ends a message; a newline by default."""
            if delimiter not in _LINE_ENDS:
                raise ValueError(f"line delimiter {delimiter!r} must be '\\n', '\\r', '\\r\\n' or ''")
            return self._set(line_separator=delimiter)

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set what separates the elements of arrays and of rows within a row; a semicolon by default."""
            return self._set(array_separator=_text("array element delimiter", delimiter))

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """Write no quotes. A field that needs them is refused, where Flink writes it all the same."""
            return self._set(quote=None)

        def set_quote_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the sign around fields that hold other signs; a double quote by default."""
            return self._set(quote=sign("quote character", c))

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the sign that is doubled in quotes, because it escapes others when it is read."""
            return self._set(escape=sign("escape character", c))

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Set the text that stands for None; empty by default."""
            return self._set(null_value=_text("null literal", s))

        def build(self) -> CsvRowSerializationSchema:
            """Return the schema."""
            return CsvRowSerializationSchema(self._type_info, self._form)

        def _set(self, **changed: object) -> CsvRowSerializationSchema.Builder:
            self._form = replace(self._form, **changed)
            return self


def _text(what: str, text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{what} must be text, not {text!r}")
    return text
