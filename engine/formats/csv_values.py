"""Values of rows from fields of CSV and to them, as Flink reads and writes them.

The rules this module lives by:

- A field is text, and its type decides how it is read: numbers as Java reads them, blanks around them left
  out; bytes in Base64; arrays and rows within a row by the separator of arrays.
- A field, or an element of an array, that is the null text is None. Without a null text none is None when it
  is read, and None is written as an empty field.
- A date that no calendar has is refused, where Flink takes the one so many days later.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from typing import Any, Final

from onceproof.engine.formats import java_texts
from onceproof.engine.formats.csv_lines import CsvWriting
from onceproof.engine.formats.csv_schema import CsvForm
from onceproof.engine.formats.message_schemas import shown
from onceproof.engine.types import TypeInformation
from onceproof.engine.types.composite import ListType
from onceproof.engine.types.row import RowType, make_row
from onceproof.engine.types.scalars import IntegerType

_DATE: Final = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIME: Final = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})", re.ASCII)
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2}) (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?", re.ASCII
)
_ANY_NONE: Final = frozenset(("BASIC_ARRAY", "OBJECT_ARRAY"))

Read = Callable[[str], Any]
Write = Callable[[Any], str]


def _parts(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match.groups()


def _time(text: str) -> time:
    hour, minute, second = map(int, _parts(_TIME, text))
    return time(hour, minute, second)


def _date(text: str) -> date:
    year, month, day = map(int, _parts(_DATE, text))
    return date(year, month, day)


def _timestamp(text: str) -> datetime:
    *numbers, fraction = _parts(_TIMESTAMP, java_texts.trimmed(text))
    year, month, day, hour, minute, second = map(int, numbers)
    return datetime(year, month, day, hour, minute, second, int((fraction or "0")[:6].ljust(6, "0")))


_READ: Final[dict[str, Read]] = {
    "STRING": str,
    "BOOLEAN": lambda text: java_texts.boolean_of(java_texts.trimmed(text)),
    "BIG_INT": lambda text: java_texts.integer_of(java_texts.trimmed(text)),
    "FLOAT": lambda text: java_texts.rounded_to_float(java_texts.double_of(java_texts.trimmed(text))),
    "DOUBLE": lambda text: java_texts.double_of(java_texts.trimmed(text)),
    "BIG_DEC": lambda text: java_texts.decimal_of(java_texts.trimmed(text)),
    "BYTES": java_texts.bytes_of,
    "SQL_DATE": _date,
    "SQL_TIME": _time,
    "SQL_TIMESTAMP": _timestamp,
    "VOID": lambda text: None,
}


def _integer(kind: IntegerType) -> Read:
    smallest, largest = kind.limits

    def read(text: str) -> int:
        number = java_texts.integer_of(java_texts.trimmed(text))
        if not smallest <= number <= largest:
            raise ValueError(text)
        return number

    return read


class FieldReaders:
    """Makes the functions from fields to values."""

    def __init__(self, form: CsvForm, ignores_errors: bool = False) -> None:
        self._null = form.null_value
        self._separator = form.array_separator
        self._ignores_errors = ignores_errors

    def nullable(self, kind: TypeInformation, what: str, separator: str | None = None) -> Read:
        """Return the function for a field of a type. Raises TypeError for what CSV does not carry.

        Args:
            kind: the type.
            what: how a message calls the field.
            separator: between the elements of an array; None: that of the form.
        """
        between = self._separator if separator is None else separator
        if isinstance(kind, ListType):
            return self._guarded(self._array(kind, what, between), kind, None)
        if isinstance(kind, RowType):
            return self._guarded(self._row(kind, what, between), kind, self._null)
        return self._guarded(scalar_reader(kind, what), kind, self._null)

    def _guarded(self, read: Read, kind: TypeInformation, null: str | None) -> Read:
        ignores, name = self._ignores_errors, kind.name

        def read_or_none(text: str) -> Any:
            if text == null:
                return None
            try:
                return read(text)
            except ValueError:
                if ignores:
                    return None
                raise ValueError(f"{shown(text)} is no {name}") from None

        return read_or_none

    def _array(self, kind: ListType, what: str, separator: str) -> Read:
        read_element = self._guarded(scalar_reader(kind.element, f"an element of {what}"), kind, self._null)
        may_be_none = kind.kind in _ANY_NONE

        def read(text: str) -> list[Any]:
            if not text:
                return []
            elements = [read_element(each) for each in (text.split(separator) if separator else [text])]
            if not may_be_none and None in elements:
                raise ValueError(text)
            return elements

        return read

    def _row(self, kind: RowType, what: str, separator: str) -> Read:
        readers = [
            self._guarded(scalar_reader(field, f"field {place} of {what}"), field, self._null)
            for place, field in enumerate(kind.fields)
        ]
        width, names, ignores = len(readers), kind.names, self._ignores_errors

        def read(text: str) -> Any:
            if not text:
                return None
            parts = text.split(separator) if separator else [text]
            if len(parts) != width and not ignores:
                raise ValueError(text)
            items = [read_part(part) for read_part, part in zip(readers, parts, strict=False)]
            return make_row(names, items + [None] * (width - len(items)))

        return read


def scalar_reader(kind: TypeInformation, what: str) -> Read:
    """Return the function from a text to a value of a scalar type. Raises TypeError for another type."""
    if isinstance(kind, IntegerType):
        return _integer(kind)
    if kind.name not in _READ:
        raise _not_in_csv(what, kind)
    return _READ[kind.name]


def _not_in_csv(what: str, kind: TypeInformation) -> TypeError:
    return TypeError(
        f"{what} is {kind.name}, which CSV does not carry: declare a scalar, or an array or a row of scalars"
    )


# ---- from values to fields

_RAW: Final = frozenset(("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "BIG_INT", "FLOAT", "DOUBLE", "BIG_DEC"))
"""The types whose texts are never quoted."""
_WRITE: Final[dict[str, Write]] = {
    "STRING": str,
    "BOOLEAN": lambda value: "true" if value else "false",
    "BYTE": str,
    "SHORT": str,
    "INT": str,
    "LONG": str,
    "BIG_INT": str,
    "FLOAT": java_texts.float_text,
    "DOUBLE": java_texts.double_text,
    "BIG_DEC": java_texts.decimal_text,
    "BYTES": lambda value: b64encode(value).decode(),
    "SQL_DATE": lambda value: value.isoformat(),
    "SQL_TIME": lambda value: value.isoformat("seconds"),
    "SQL_TIMESTAMP": lambda value: (
        f"{value.isoformat(' ', 'seconds')}{java_texts.fraction_text(value) or '.0'}"
    ),
    "VOID": lambda value: "",
}


def scalar_writer(kind: TypeInformation, what: str) -> Write:
    """Return the function from a value of a scalar type to its text. Raises TypeError for another type."""
    if kind.name not in _WRITE:
        raise _not_in_csv(what, kind)
    return _WRITE[kind.name]


def field_writer(kind: TypeInformation, what: str, form: CsvForm) -> Write:
    """Return the function from a value of a type, or None, to its field. Raises TypeError."""
    null, quoted, separator = form.null_value or "", CsvWriting(form).quoted, form.array_separator
    if isinstance(kind, ListType):
        write_element = scalar_writer(kind.element, f"an element of {what}")

        def texts_of(value: Any) -> Sequence[str]:
            return [null if each is None else write_element(each) for each in value]

        return lambda value: null if value is None else quoted(_joined(texts_of(value), separator))
    if isinstance(kind, RowType):
        writers = [
            scalar_writer(field, f"field {place} of {what}") for place, field in enumerate(kind.fields)
        ]

        def texts_of_row(value: Any) -> Sequence[str]:
            pairs = zip(writers, value, strict=True)
            return [null if each is None else write_part(each) for write_part, each in pairs]

        return lambda value: null if value is None else quoted(_joined(texts_of_row(value), separator))
    write = scalar_writer(kind, what)
    if kind.name in _RAW:
        return lambda value: null if value is None else write(value)
    return lambda value: null if value is None else quoted(write(value))


def _joined(texts: Sequence[str], separator: str) -> str:
    if not separator and len(texts) > 1:
        raise ValueError("an array without a separator has one element")
    if separator and any(separator in text for text in texts):
        raise ValueError(f"an element holds the separator {separator!r}")
    return separator.join(texts)
