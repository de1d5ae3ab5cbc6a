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
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.model.program_file import LineFormat
from onceproof.harness.model.scenario import InputRecord

RowOf: TypeAlias = Callable[[str], Row]

TIMESTAMP: Final = "timestamp"
"""The field of a record with its event time in milliseconds."""
SUFFIXES: Final[Mapping[LineFormat, str]] = {"json": ".jsonl", "csv": ".csv", "text": ".txt"}
_WHOLE: Final = frozenset({"TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "LONG"})
_REAL: Final = frozenset({"FLOAT", "DOUBLE", "REAL"})


def values_of(record: InputRecord, columns: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a record by name: its value's columns, and its timestamp if none has that name."""
    timestamp, value = record
    parts = value if isinstance(value, tuple) else (value,)
    named = dict(zip(columns, parts, strict=False)) if columns else {"value": value}
    return named if TIMESTAMP in named else {**named, TIMESTAMP: timestamp}


def line_of(record: InputRecord, columns: Sequence[str], form: LineFormat) -> str:
    """Return a record as a line, without its end."""
    named = values_of(record, columns)
    match form:
        case "json":
            return msgspec.json.encode(named).decode()
        case "csv":
            text = io.StringIO()
            csv.writer(text, lineterminator="").writerow(
                ["" if each is None else each for each in named.values()]
            )
            return text.getvalue()
        case "text":
            return str(next(iter(named.values())))


def row_of(columns: Sequence[str], types: Mapping[str, str], form: LineFormat) -> RowOf:
    """Return the function that reads a line as a row.

    Args:
        columns: the fields that are compared, in order; none: all, as they come.
        types: by column, its type as Spark DDL has it, for formats that have only text.
        form: of a line.
    """

    def typed(name: str, text: str) -> Any:
        kind = types.get(name, "").upper()
        if kind in _WHOLE:
            return int(text)
        if kind in _REAL:
            return float(text)
        return text.lower() == "true" if kind == "BOOLEAN" else text

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
        return tuple(
            [typed(name, cell) for name, cell in zip(columns, cells, strict=True)] if columns else cells
        )

    def from_text(line: str) -> Row:
        return (typed(columns[0] if columns else "", line),)

    read = {"json": from_json, "csv": from_csv, "text": from_text}[form]

    def read_or_line(line: str) -> Row:
        try:
            return read(line)
        except (ValueError, KeyError, RecursionError, csv.Error, msgspec.DecodeError):
            return (line,)

    return read_or_line
