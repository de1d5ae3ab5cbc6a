"""Rows of a table from a user's file: lines of JSON, CSV or Parquet, their columns found by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onceproof.engine.table.types import TEXTS, LogicalType
from onceproof.engine.table.values import Row, decoder
from onceproof.harness.model.family import FamilyError
from onceproof.harness.scripts.records import sampled_records
from onceproof.harness.scripts.sql.sql_ends import SourceTable


def sampled_rows(path: Path, table: SourceTable) -> Sequence[Row]:
    """Return the rows of a sample, in its order. Raises FamilyError."""
    fields = table.end.type.fields
    rows = []
    for value, _ in sampled_records(path, None):
        cells = value
        if isinstance(value, dict):
            cells = [value.get(field.name) for field in fields]
        if not isinstance(cells, list | tuple) or len(cells) != len(fields):
            raise FamilyError(
                f"{path}: a row of {table.name} has the columns {', '.join(table.end.type.names)}, not"
                f" {str(value)[:60]}"
            )
        rows.append(tuple([_value(path, cell, each.type) for cell, each in zip(cells, fields, strict=True)]))
    return rows


def _value(path: Path, cell: Any, kind: LogicalType) -> Any:
    """Return a cell of a file as a value of a type."""
    if cell is None or (cell == "" and kind.root not in TEXTS):
        return None
    try:
        if kind.root in TEXTS and not isinstance(cell, str):
            cell = json.dumps(cell)
        if kind.root == "DECIMAL":
            cell = str(cell)
        return decoder(kind)(cell)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise FamilyError(f"{path}: {str(cell)[:40]!r} is no {kind}: {error}") from None
