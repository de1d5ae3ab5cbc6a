"""The encoders of file sinks (PyFlink: Encoder).

An encoder converts a list of values into bytes in one call, because a sink gets whole buffers. Every row ends
in a newline, so that files can be concatenated. Encoders have no state and are shared.
"""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from onceproof.engine.formats.bulk_writers import BulkWriter, BulkWriterFactory, OutputFile, WrongRow
from onceproof.engine.types import Row, TypeInformation
from onceproof.engine.types.java_text import text_of

_WITH_FIELDS = frozenset((tuple, list, Row))


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        try:
            return value.as_dict()
        except TypeError:
            return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


_JSON = msgspec.json.Encoder(enc_hook=_plain)


class Encoder(ABC):
    """Converts values into the bytes of a file (PyFlink: Encoder)."""

    @abstractmethod
    def encode_batch(self, values: Sequence[Any]) -> bytes:
        """Return the rows of ``values`` as bytes, each ending in a newline."""

    def for_type(self, value_type: TypeInformation | None) -> Encoder:
        """Return an encoder for values of a declared type (ours: Flink's encoders get objects of Java)."""
        return self

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Return an encoder of one line for each value: its ``str``, or Flink's text if its type is declared.

        Raises:
            LookupError: Python does not know the charset.
        """
        return StringEncoder(charset_name)

    @staticmethod
    def csv_encoder(delimiter: str = ",") -> Encoder:
        """Return an encoder of CSV as in RFC 4180.

        A tuple, list or Row is a line with a field for each item, any other value a line of one field.

        Raises:
            TypeError: the delimiter is not one character.
        """
        return CsvEncoder(delimiter)

    @staticmethod
    def json_lines_encoder(field_names: Sequence[str] | None = None) -> Encoder:
        """Return an encoder of one JSON document for each line.

        Args:
            field_names: makes tuples JSON objects with these keys. Rows with names are objects anyway.
        """
        return JsonLinesEncoder(field_names)


class EncodedRows(BulkWriterFactory):
    """Makes writers of an encoder's rows."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def create(self, file: OutputFile) -> EncodedRowWriter:
        """Return a writer into a file."""
        return EncodedRowWriter(self._encoder, file)


class EncodedRowWriter(BulkWriter):
    """Writes rows as an encoder has them; a file has no end of its own."""

    __slots__ = ("_encode", "_write")

    def __init__(self, encoder: Encoder, file: OutputFile) -> None:
        self._encode = encoder.encode_batch
        self._write = file.write

    def add_elements(self, elements: Sequence[Any]) -> None:
        try:
            data = self._encode(elements)
        except (TypeError, ValueError) as error:
            raise self._wrong_row(elements, error) from error
        self._write(data)

    def finish(self) -> None:
        return

    def _wrong_row(self, elements: Sequence[Any], error: Exception) -> WrongRow:
        for row in elements:
            try:
                self._encode([row])
            except (TypeError, ValueError) as own_error:
                return WrongRow(row, own_error)
        return WrongRow(elements, error)


class StringEncoder(Encoder):
    """The text of a value and a newline."""

    def __init__(self, charset_name: str, value_type: TypeInformation | None = None) -> None:
        "".encode(charset_name)  # Raise for an unknown charset here, not at the first row.
        self._charset_name = charset_name
        self._value_type = value_type

    def for_type(self, value_type: TypeInformation | None) -> StringEncoder:
        return StringEncoder(self._charset_name, value_type)

    def encode_batch(self, values: Sequence[Any]) -> bytes:
        text = text_of(self._value_type)
        return "".join([f"{text(value)}\n" for value in values]).encode(self._charset_name)


class CsvEncoder(Encoder):
    """CSV as in RFC 4180; both None and an empty text are an empty field."""

    def __init__(self, delimiter: str) -> None:
        csv.reader((), delimiter=delimiter)  # Raise for a wrong delimiter here, not at the first row.
        self._delimiter = delimiter

    def encode_batch(self, values: Sequence[Any]) -> bytes:
        rows: Sequence[Any] = values
        if not _WITH_FIELDS.issuperset(map(type, values)):
            rows = [value if type(value) in _WITH_FIELDS else (value,) for value in values]
        text = self._text(rows, csv.QUOTE_MINIMAL)
        if "\r" in text:
            # The csv writer quotes only its own line terminator, but readers take \r for one as well.
            text = self._text(rows, csv.QUOTE_NONNUMERIC)
        return text.encode()

    def _text(self, rows: Sequence[Any], quoting: Literal[0, 2]) -> str:
        text = io.StringIO()
        csv.writer(text, delimiter=self._delimiter, lineterminator="\n", quoting=quoting).writerows(rows)
        return text.getvalue()


class JsonLinesEncoder(Encoder):
    """One JSON document for each line."""

    def __init__(self, field_names: Sequence[str] | None) -> None:
        self._field_names = None if field_names is None else tuple(field_names)

    def encode_batch(self, values: Sequence[Any]) -> bytes:
        names = self._field_names
        if names is not None:
            values = [dict(zip(names, value, strict=True)) for value in values]
        return _JSON.encode_lines(values)
