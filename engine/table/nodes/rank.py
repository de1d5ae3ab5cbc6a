"""Top-N: ROW_NUMBER with a bound, ORDER BY with LIMIT, and LIMIT.

The strategy of the plan and the bounds choose the function, as in StreamExecRank: insert-only input
(AppendFast), updates that only move forward (UpdateFast), any changes (Retract). The first row alone is
simpler.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from onceproof.engine.table.nodes.top_n import AppendedTopN, FirstRow, FirstRows, RankSpec
from onceproof.engine.table.nodes.top_n_updates import RetractedTopN, UpdatedTopN
from onceproof.engine.table.operators import TableFunction
from onceproof.engine.table.ordering import read_order
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.types import PROCTIME


def _make(spec: RankSpec) -> TableFunction:
    is_first_row = spec.end_column < 0 and spec.start == spec.end == 1
    match spec.strategy:
        case "AppendFast":
            if _is_by_processing_time(spec):
                return FirstRows(spec)
            return FirstRow(spec) if is_first_row else AppendedTopN(spec)
        case "UpdateFast":
            return FirstRow(spec) if is_first_row else UpdatedTopN(spec)
        case "Retract":
            return RetractedTopN(spec)
    raise UnsupportedPlan(f"rank strategy {spec.strategy}")


def _is_by_processing_time(spec: RankSpec) -> bool:
    if len(spec.order) != 1:
        return False
    (field,) = spec.order
    return field.ascending and spec.types[field.index].attribute == PROCTIME


def _read(node: Node, given: TableStream) -> RankSpec:
    attributes = node.attributes
    if attributes["rankType"] != "ROW_NUMBER":
        raise UnsupportedPlan(f"{attributes['rankType']} as a rank")
    bounds, strategy = attributes["rankRange"], attributes["rankStrategy"]
    start, end, column = -1, -1, -1
    match bounds["type"]:
        case "Constant":
            start, end = bounds["start"], bounds["end"]
        case "Variable":
            column = bounds["endIndex"]
        case other:
            raise UnsupportedPlan(f"rank range {other}")
    return RankSpec(
        read_order(attributes["orderBy"]),
        tuple(given.type.types),
        start,
        end,
        column,
        attributes["generateUpdateBefore"],
        attributes["outputRowNumber"],
        strategy["type"],
        tuple(strategy.get("primaryKeys", ())),
        node.ttl_ms(),
    )


@translator("sort-limit", 1)
@translator("limit", 1)
@translator("rank", 1)
def translate_rank(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator, under the key of the partition."""
    (given,) = inputs
    make = partial(_make, _read(node, given))
    return translation.keyed(node, given, node.attributes["partition"]["fields"], make)
