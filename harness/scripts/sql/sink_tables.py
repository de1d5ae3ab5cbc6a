"""The tables to which the rows of a run come, for all sinks of a script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from onceproof.harness.model.family import Rows
from onceproof.harness.model.history import Row
from onceproof.harness.scripts.sql.changelog import RowCounts, applied, corrected
from onceproof.harness.scripts.sql.sql_ends import SinkTable

Tables: TypeAlias = Mapping[str, RowCounts]
"""By sink, the rows of its table."""
Changes: TypeAlias = Mapping[str, Sequence[Row]]
"""By sink, the changes that reach it."""
Sinks: TypeAlias = Mapping[str, SinkTable]


def by_sink(sinks: Sinks, rows: Iterable[Row]) -> Changes:
    """Return the changes in the rows of a run."""
    rows = list(rows)
    return {name: list(end.sink.rows_of(rows)) for name, end in sinks.items()}


def final_tables(sinks: Sinks, rows: RowCounts) -> Tables:
    """Return the tables to which the rows of a run come."""
    changes = by_sink(sinks, rows.elements())
    return {name: applied(end.sink, changes[name]).table for name, end in sinks.items()}


def corrected_rows(sinks: Sinks, rows: Rows, calm: RowCounts) -> list[Row]:
    """Return the changes that should be there, by the rows of a run without faults."""
    changes, calm_changes = by_sink(sinks, rows), by_sink(sinks, calm.elements())
    return [
        row for name, end in sinks.items() for row in corrected_in(end, changes[name], calm_changes[name])
    ]


def corrected_in(end: SinkTable, changes: Sequence[Row], calm: Sequence[Row]) -> list[Row]:
    """Return the changes that should be in one sink, by those of a run without faults."""
    right = applied(end.sink, calm)
    return [*map(end.sink.written, corrected(end.sink, changes, right.table, right.is_sound))]


def first_difference(batch: Tables, run: Tables) -> str:
    """Return the first row that only one of two has."""
    for name in batch:
        for tables, others, where in ((batch, run, "in batch"), (run, batch, "in the run")):
            if rows := sorted((tables[name] - others[name]).elements(), key=repr):
                return f"{rows[0]} of {name} is only {where}"
    return ""
