"""How a file sink turns values into bytes (PyFlink: Encoder).

An encoder turns a list of values into bytes in one call, because a sink gets whole buffers; a row always ends
in a newline, so that files can be joined by appending. Encoders keep nothing between calls and are shared.
"""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from onceproof.engine.types import Row

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
    """Turns values into bytes."""

    @abstractmethod
    def encode_batch(self, values: Sequence[Any]) -> bytes:
        """The rows of ``values``, one after another."""

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """One line a value: its ``str``."""
        return StringEncoder(charset_name)

    @staticmethod
    def csv_encoder(delimiter: str = ",") -> Encoder:
        """One line a tuple, list or Row (another value is a line of one field), quoted where needed."""
        return CsvEncoder(delimiter)

    @staticmethod
    def json_lines_encoder(field_names: Sequence[str] | None = None) -> Encoder:
        """One JSON document a line: a Row with names is an object, so are tuples with field names given."""
        return JsonLinesEncoder(field_names)


class StringEncoder(Encoder):
    """``str(value)`` and a newline."""

    def __init__(self, charset_name: str) -> None:
        "".encode(charset_name)  # An unknown charset is an error here, not at the first row.
        self._charset_name = charset_name

    def encode_batch(self, values: Sequence[Any]) -> bytes:
        """One line each."""
        return "".join([f"{value}\n" for value in values]).encode(self._charset_name)


class CsvEncoder(Encoder):
    """Comma-separated values as RFC 4180 has them; None is an empty field, and so is an empty text."""

    def __init__(self, delimiter: str) -> None:
        csv.reader((), delimiter=delimiter)  # A delimiter that is none is an error here.
        self._delimiter = delimiter

    def encode_batch(self, values: Sequence[Any]) -> bytes:
        """One line each, except where a text holds newlines."""
        rows = [value if type(value) in _WITH_FIELDS else (value,) for value in values]
        text = self._text(rows, csv.QUOTE_MINIMAL)
        if "\r" in text:
            # The writer quotes only the line end that it is told of, but readers take \r for one as well.
            text = self._text(rows, csv.QUOTE_NONNUMERIC)
        return text.encode()

    def _text(self, rows: list[Any], quoting: Literal[0, 2]) -> str:
        text = io.StringIO()
        csv.writer(text, delimiter=self._delimiter, lineterminator="\n", quoting=quoting).writerows(rows)
        return text.getvalue()


class JsonLinesEncoder(Encoder):
    """JSON, a document a line."""

    def __init__(self, field_names: Sequence[str] | None) -> None:
        self._field_names = None if field_names is None else tuple(field_names)

    def encode_batch(self, values: Sequence[Any]) -> bytes:
        """One line each."""
        names = self._field_names
        if names is not None:
            values = [dict(zip(names, value, strict=True)) for value in values]
        return _JSON.encode_lines(values)
