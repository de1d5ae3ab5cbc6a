"""Records as the lines that a program is given, and the lines that it writes as rows.

The rules this module lives by:

- A line is one record or one row, in JSON, in CSV or as bare text.
- What cannot be read as a row is a row all the same, of one column with the line: no oracle expects it, so it
  is reported and not left out.
- Numbers of CSV and text become numbers where the family's ``row_schema`` says so.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.model.program_ends import Format
from onceproof.harness.model.scenario import InputRecord

RowOf: TypeAlias = Callable[[str], Row]

SUFFIXES: Final[Mapping[Format, str]] = {"json": ".jsonl", "csv": ".csv", "text": ".txt"}
UNREADABLE: Final = (ValueError, KeyError, RecursionError, csv.Error, msgspec.DecodeError)
"""What a function that reads rows raises."""
_WHOLE: Final = frozenset({"TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "LONG"})
_REAL: Final = frozenset({"FLOAT", "DOUBLE", "REAL"})


def values_of(record: InputRecord, columns: Collection[str], timestamp: str) -> dict[str, Any]:
    """Return the fields of a record by name: its value's columns, and its timestamp if none has that name.

    ``timestamp`` is the name of the field with the event time in milliseconds; "": it is left out.
    """
    at, value = record
    parts = value if isinstance(value, tuple) else (value,)
    named = dict(zip(columns, parts, strict=False)) if columns else {"value": value}
    return {**named, timestamp: at} if timestamp and timestamp not in named else named


def line_of(named: Mapping[str, Any], form: Format) -> str:
    """Return the fields of a record as a line, without its end."""
    if form == "json":
        return msgspec.json.encode(named).decode()
    if form == "text":
        return str(next(iter(named.values())))
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(["" if each is None else each for each in named.values()])
    return text.getvalue()


def typed(kind: str, text: str) -> Any:
    """Return a text as a value of a type of Spark DDL."""
    if kind.upper() in _WHOLE:
        return int(text)
    if kind.upper() in _REAL:
        return float(text)
    return text.lower() == "true" if kind.upper() == "BOOLEAN" else text


def row_of(columns: Mapping[str, str], form: Format) -> RowOf:
    """Return the function that reads a line as a row; it raises one of UNREADABLE for a line that is none.

    Args:
        columns: the fields that are compared, in order; none: all, as they come. By column, its type as Spark
            DDL has it, for formats that have only text; "": it is not known.
        form: of a line.
    """

    def from_json(line: str) -> Row:
        value = msgspec.json.decode(line)
        if isinstance(value, dict):
            value = [value[name] for name in columns] if columns else list(value.values())
        row: Row = as_tuple(value) if isinstance(value, list) else (value,)
        return row

    def from_csv(line: str) -> Row:
        (cells,) = csv.reader([line])
        if columns and len(cells) != len(columns):
            raise ValueError(f"{len(cells)} cells for {len(columns)} columns")
        kinds = columns.values()
        return tuple(
            [typed(kind, cell) for kind, cell in zip(kinds, cells, strict=True)] if columns else cells
        )

    def from_text(line: str) -> Row:
        return (typed(next(iter(columns.values()), ""), line),)

    return from_csv if form == "csv" else from_text if form == "text" else from_json


def row_or_line_of(columns: Mapping[str, str], form: Format) -> RowOf:
    """Return the same function, which reads what is no row as a row of one column with the line."""
    read = row_of(columns, form)

    def read_or_line(line: str) -> Row:
        try:
            return read(line)
        except UNREADABLE:
            return (line,)

    return read_or_line
