"""State with a time to live: for how long it lives, and what a job makes that has forgotten all of it.

Rules:

- When a row came is not known, so neither is what is left of state that may have expired. It is known where
  nothing is left: if the clock is set forward by the longest time to live when a job has been restored, and
  before any further row is read, the job is one that begins anew with the rest of the rows.
- Its sinks then have the rows of the part before, and over them those of the rest. That is so where nothing
  is taken back: for aggregates by key over rows that are only added, whose results are not filtered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from onceproof.engine.table.plans import Plan, duration_ms
from onceproof.harness.model.family import Records
from onceproof.harness.model.history import Cut
from onceproof.harness.scripts.sql.changelog import RowCounts, Sink

TTL: Final = "table.exec.state.ttl"
_STATELESS: Final = ("calc", "correlate", "exchange", "expand", "sink", "table-source-scan", "union")
_AGGREGATES: Final = ("group-aggregate", "global-group-aggregate")
_FIRST_PHASE: Final = ("local-group-aggregate", "mini-batch-assigner")


def lives_ms_of(plan: Plan, options: Mapping[str, str]) -> list[int]:
    """Return for how long states live that expire."""
    states = [(node, each["index"]) for node in plan.nodes for each in node.attributes.get("state") or ()]
    found = [duration_ms(options.get(TTL, "0")), *[node.ttl_ms(index) for node, index in states]]
    return [each for each in found if each > 0]


def forgets_after_ms(plan: Plan) -> int:
    """Return after how long a job has forgotten all, and is one that begins anew; 0: this is not known."""
    lives_ms: list[int] = []
    behind: set[int] = set()
    for node in plan.nodes:
        is_behind = bool(behind.intersection(node.inputs))
        filters = node.type == "calc" and node.attributes.get("condition") is not None
        if node.type not in (*_STATELESS, *_AGGREGATES, *_FIRST_PHASE) or (is_behind and filters):
            return 0
        if node.type in _AGGREGATES:
            lives_ms.append(node.ttl_ms())
            if is_behind or not node.attributes["grouping"] or node.attributes.get("needRetraction"):
                return 0
        if node.type == "sink" and node.attributes.get("requireUpsertMaterialize"):
            return 0
        if is_behind or node.type in _AGGREGATES:
            behind.add(node.id)
    return max(lives_ms) if all(lives_ms) and lives_ms else 0


def parts_of(records: Records, cut: Cut) -> tuple[Records, Records]:
    """Return the records before a cut, and those behind it."""
    before = {split: own[: cut.get(split, 0)] for split, own in records.items()}
    return before, {split: own[cut.get(split, 0) :] for split, own in records.items()}


def begun_anew(sink: Sink, before: RowCounts, after: RowCounts) -> RowCounts:
    """Return the table of a sink to which a job has written, and then one that has begun anew."""
    if sink.key is None:
        return before + after
    written = {sink.identity(row) for row in after}
    kept = {row: count for row, count in before.items() if sink.identity(row) not in written}
    return Counter(kept) + after
