"""The ends of a script's job on Flink itself: its plan, and changes and rows as text.

Text holds the values of `engine/table/values.py`, so that the connector (`ScenarioTables.java`) prints no
dates and times, and rows of Flink are those of the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from onceproof.engine.table.types import Field, LogicalType
from onceproof.engine.table.values import KIND_OF, KINDS, decoder, encoder
from onceproof.harness.model.family import Records
from onceproof.harness.model.history import Row
from onceproof.harness.model.split_names import source_of
from onceproof.harness.scripts.sql.sql_ends import SinkTable, SourceTable

_AS_NUMBERS: Final = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"})


class FlinkEnds:
    """The tables of a script.

    Args:
        plan: the plan as the planner wrote it.
        options: those that the script sets.
        sources: the tables that are read.
        sinks: those that are written.
    """

    def __init__(
        self,
        plan: Mapping[str, Any],
        options: Mapping[str, str],
        sources: Mapping[str, SourceTable],
        sinks: Mapping[str, SinkTable],
    ) -> None:
        self._plan, self._options, self._sources, self._sinks = plan, options, sources, sinks
        self._encoders = {name: encoder(_with_numbers(table.end.type)) for name, table in sources.items()}
        self._decoders = {name: decoder(_with_numbers(table.end.type)) for name, table in sinks.items()}

    def order(self, records: Records) -> dict[str, Any]:
        """Return what the client of Flink needs to run the job over records."""
        changes: dict[str, dict[str, list[Any]]] = {name: {} for name in self._sources}
        for split, own in records.items():
            name = source_of(split)
            table, encode = self._sources[name], self._encoders[name]
            held = [table.change_of(value) for _, value in own]
            changes[name][split] = [[KINDS[kind], *encode(row)] for kind, row in held]
        return {
            "plan": self._plan,
            "options": self._options,
            "sources": {
                table.end.identifier: {"name": name, "mode": table.mode, "splits": changes[name]}
                for name, table in self._sources.items()
            },
            "sinks": {table.end.identifier: self._sink(table) for table in self._sinks.values()},
        }

    def row_of(self, line: Row) -> Row:
        """Return the row of a run for a line that the connector has written."""
        name, kind, cells, number = line
        table = self._sinks[name]
        return table.written(
            (KIND_OF[kind], self._decoders[name](cells)), () if number is None else (number,)
        )

    @staticmethod
    def _sink(table: SinkTable) -> dict[str, str]:
        return {
            "name": table.end.name,
            "mode": table.end.options.get("sink-mode", "any"),
            "numbered": str(table.sink.is_numbered).lower(),
            "key": ",".join(map(str, table.sink.key or ())),
            "writers": str(table.writers),
        }


def _with_numbers(kind: LogicalType) -> LogicalType:
    """Return a type whose text has numbers in place of dates and times."""
    if kind.root in _AS_NUMBERS:
        return LogicalType("BIGINT")
    return replace(
        kind,
        arguments=tuple(map(_with_numbers, kind.arguments)),
        fields=tuple([Field(field.name, _with_numbers(field.type)) for field in kind.fields]),
    )
