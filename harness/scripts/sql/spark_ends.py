"""The ends of a script's query on Structured Streaming: the changes by which its rows reach the sinks.

Rules:

- Spark gives rows, and the harness numbers their changes by what the batches before have written, as a sink
  does that writes by key. A row that is there already is no change.
- Where a batch has all rows of a sink, those that are missing are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onceproof.engine.table.python_values import from_python
from onceproof.harness.model.history import Row
from onceproof.harness.scripts.sql.changelog import ADDED, ADDS, applied
from onceproof.harness.scripts.sql.sql_ends import SinkTable
from onceproof.harness.systems.structured.streamed_script import StreamedScript

_REPLACED, _DELETED = ADDS[1], "-D"


class SparkEnds:
    """The ends of a script.

    Args:
        script: its query.
        sinks: the tables that it writes.
    """

    def __init__(self, script: StreamedScript, sinks: Mapping[str, SinkTable]) -> None:
        self.script = script
        self._sinks = sinks
        self._values = {
            name: [from_python(kind) for kind in table.end.type.types] for name, table in sinks.items()
        }

    def changes(
        self, sink: str, before: Iterable[Row], rows: Iterable[Sequence[Any]], *, is_complete: bool
    ) -> list[Row]:
        """Return the changes by which the rows of a batch reach a sink."""
        table = self._sinks[sink]
        end, values = table.sink, self._values[sink]
        cells = [
            table.cells([convert(value) for convert, value in zip(values, row, strict=True)]) for row in rows
        ]
        if not end.is_numbered:
            return [end.written((ADDED, *row)) for row in cells]
        there = applied(end, end.rows_of(before))
        current = {end.identity(row): row for row in there.table}
        numbers = dict(there.highest)
        changes: list[Row] = []

        def change(kind: str, key: Row, row: Row) -> None:
            numbers[key] = numbers.get(key, 0) + 1
            changes.append(end.written((kind, *row, numbers[key])))

        for row in cells:
            key = end.identity(row)
            if current.get(key) != row:
                change(_REPLACED if key in current else ADDED, key, row)
                current[key] = row
        if is_complete:
            kept = set(map(end.identity, cells))
            for key in [each for each in current if each not in kept]:
                change(_DELETED, key, current[key])
        return changes
