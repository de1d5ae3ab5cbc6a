"""Tables of rows of the program: what types they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from onceproof.engine.graph import InvalidJob
from onceproof.engine.table.api.types import logical_of
from onceproof.engine.table.python_values import row_from_python
from onceproof.engine.table.types import Field, LogicalType, parse_type
from onceproof.engine.table.values import INSERT, Change
from onceproof.engine.types.row import Row

_TYPES: Final[Mapping[type, str]] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bytes: "BYTES",
    bytearray: "BYTES",
    Decimal: "DECIMAL(38, 18)",
    date: "DATE",
    time: "TIME(0)",
    datetime: "TIMESTAMP_LTZ(6)",
    timedelta: "INTERVAL SECOND(6)",
}
"""What PyFlink infers from a value (pyflink.table.types._type_mappings)."""


def schema_of(rows: Sequence[Any], schema: Any) -> LogicalType:
    """Return the ROW of rows: a DataType, names of columns, or what they look like. Raises InvalidJob."""
    if schema is not None and not isinstance(schema, list | tuple):
        kind = logical_of(schema)
        return kind if kind.root == "ROW" else LogicalType("ROW", fields=(Field("value", kind),))
    if not rows:
        raise InvalidJob("there is no row to infer the types of columns from: give a DataType as the schema")
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise InvalidJob(f"the rows have {' or '.join(map(str, sorted(widths)))} fields")
    names = schema or getattr(rows[0], "_names", None) or [f"_{place + 1}" for place in range(len(rows[0]))]
    if len(names) < len(rows[0]):
        names = [*names, *[f"_{place + 1}" for place in range(len(names), len(rows[0]))]]
    values = zip(*[_values(row, names) for row in rows], strict=True)
    fields = [Field(name, _common(column, name)) for name, column in zip(names, values, strict=True)]
    return LogicalType("ROW", fields=tuple(fields))


def _values(row: Any, names: Sequence[str]) -> list[Any]:
    return [row.get(name) for name in names] if isinstance(row, dict) else list(row)


def _common(column: Sequence[Any], name: str) -> LogicalType:
    found = {_type_of(value, name) for value in column if value is not None}
    if len(found) != 1:
        shown = " and ".join(sorted(map(str, found))) or "nothing but NULL"
        raise InvalidJob(f"column {name!r} has {shown}: give a DataType as the schema")
    return found.pop()


def _type_of(value: Any, name: str) -> LogicalType:
    text = _TYPES.get(type(value))
    if text is not None:
        return parse_type(text)
    if isinstance(value, list):
        return LogicalType("ARRAY", arguments=(_common(value, name),))
    if isinstance(value, dict):
        return LogicalType("MAP", arguments=(_common(list(value), name), _common([*value.values()], name)))
    if isinstance(value, tuple | Row):
        return schema_of([value], None)
    raise InvalidJob(f"column {name!r} has {value!r}, for which there is no type: give a DataType")


def changes_of(rows: Sequence[Any], kind: LogicalType) -> list[Change]:
    """Return rows of the program as insertions of a type."""
    convert = row_from_python(kind)
    is_bare = len(kind.fields) == 1
    return [
        (INSERT, convert((row,) if is_bare and not isinstance(row, list | tuple | dict | Row) else row))
        for row in rows
    ]
