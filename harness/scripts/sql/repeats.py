"""A script whose checkpoints are at least once: what must be there although records have come twice.

Rules:

- A query is judged if records that come again, in their order, change nothing in its tables: it adds up
  nothing, and keeps no row twice. Any other is not judged after a restore.
- By key, one of the last changes of each key has the row of the table. A restore sets numbers back, so
  several changes may be the last.
- In a sink without a key each row of the table is there at least once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from onceproof.engine.table.plans import Plan
from onceproof.harness.model.history import Row
from onceproof.harness.scripts.sql.changelog import ADDED, ADDS, RowCounts, Sink

_IDEMPOTENT: Final = frozenset(
    (
        "calc",
        "changelog-normalize",
        "correlate",
        "deduplicate",
        "drop-update-before",
        "exchange",
        "mini-batch-assigner",
        "sink",
        "table-source-scan",
        "union",
        "values",
        "watermark-assigner",
    )
)
_AGGREGATES: Final = frozenset(("group-aggregate", "local-group-aggregate", "global-group-aggregate"))
_FUNCTIONS: Final = frozenset(("$MAX$1", "$MIN$1"))


def adds_up(plan: Plan) -> str:
    """Return the first node whose table a record that comes again changes; "": there is none."""
    for node in plan.nodes:
        calls = node.attributes.get("aggCalls") or ()
        is_extreme = node.type in _AGGREGATES and not node.attributes.get("needRetraction")
        is_extreme &= all(call.get("internalName") in _FUNCTIONS for call in calls)
        if node.type not in _IDEMPOTENT and not is_extreme:
            return node.place
    return ""


def missing_rows(sink: Sink, changes: Sequence[Row], table: RowCounts) -> Iterator[Row]:
    """Yield the changes that a table lacks in a run whose records may have come twice."""
    if sink.key is None:
        there = {change[1:-1] if sink.is_numbered else change[1:] for change in changes}
        for row in table.keys() - there:
            yield (ADDED, *row, 1) if sink.is_numbered else (ADDED, *row)
        return
    last: dict[Row, list[Row]] = {}
    for change in sorted(changes, key=lambda change: change[-1]):
        own = last.setdefault(sink.identity(change[1:-1]), [])
        if own and own[0][-1] < change[-1]:
            own.clear()
        own.append(change)
    wanted = {sink.identity(row): row for row in table}
    for identity in wanted.keys() | last.keys():
        own, wanted_row = last.get(identity, []), wanted.get(identity)
        found = {change[1:-1] if change[0] in ADDS else None for change in own} or {None}
        if wanted_row not in found:
            number = own[0][-1] + 1 if own else 1
            yield ("-D", *own[0][1:-1], number) if wanted_row is None else (ADDED, *wanted_row, number)
