"""What Flink stores for the stateful nodes of a plan, so that a restore that it refuses is refused here too.

Rules:

- An operator is found by its uid, ``<node id>_<node type>``.
- Flink stores rows and accumulators with their column types, and takes no others
  (``RowDataSerializer.resolveSchemaCompatibility``). The engine's own values describe themselves, and
  would be restored.
- A layout is what these types follow from: of an aggregate its functions, of any other node its inputs; and
  the types of key and sort columns. Names, filters, conditions and times to live are no part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from onceproof.engine.table.plans import Node, Plan
from onceproof.engine.table.types import LogicalType

_AGGREGATES: Final = frozenset(
    (
        "group-aggregate",
        "global-group-aggregate",
        "incremental-group-aggregate",
        "window-aggregate",
        "global-window-aggregate",
        "group-window-aggregate",
    )
)
_OF_ROWS: Final = frozenset(
    (
        "changelog-normalize",
        "deduplicate",
        "interval-join",
        "join",
        "limit",
        "match",
        "over-aggregate",
        "rank",
        "sort-limit",
        "temporal-join",
        "temporal-sort",
        "window-deduplicate",
        "window-join",
        "window-rank",
    )
)


def uid_of(node: Node) -> str:
    """Return the uid of a node's operator."""
    return f"{node.id}_{node.type}"


def refused_layout(old: Plan, new: Plan) -> str:
    """Return why Flink would not restore the state of a plan in another; "": it would."""
    before, after = dict(_layouts(old)), dict(_layouts(new))
    for uid in [uid for uid in before if uid in after and before[uid] != after[uid]]:
        return (
            f"operator {uid!r} has stored {before[uid]} and would read {after[uid]}: Flink refuses it with a"
            " StateMigrationException, as the new state serializer is incompatible with the old one"
        )
    return ""


def _layouts(plan: Plan) -> Iterator[tuple[str, str]]:
    nodes = {node.id: node for node in plan.nodes}
    for node in plan.nodes:
        inputs = [nodes[each] for each in node.inputs]
        if node.type in _AGGREGATES:
            parts = [_calls(node), *map(_key, inputs)]
        elif node.type in _OF_ROWS:
            sorted_by = [f"sorted by {_types(inputs[0].output, columns)}" for columns in _sort_columns(node)]
            parts = [*[_types(each.output) for each in inputs], *map(_key, inputs), *sorted_by]
        else:
            continue
        yield uid_of(node), " ".join(filter(None, parts))


def _calls(node: Node) -> str:
    calls = node.attributes.get("aggCalls") or node.attributes.get("originalAggCalls") or ()
    retracts: Sequence[bool] = node.attributes.get("aggCallNeedRetractions") or ()
    texts = [
        f"{'DISTINCT ' if call.get('distinct') else ''}{_function(call)} {call['type']}"
        f"{' with retraction' if number < len(retracts) and retracts[number] else ''}"
        for number, call in enumerate(calls)
    ]
    return f"({', '.join(texts)})"


def _function(call: Mapping[str, Any]) -> str:
    name = call.get("internalName") or call.get("catalogName") or call.get("systemName") or "?"
    return str(name).strip("$").split("$")[0]


def _key(node: Node) -> str:
    """Return the types of the columns by which an exchange sends rows."""
    keys = [key for each in node.distributions if each.kind == "HASH" for key in each.keys]
    return f"by {_types(node.output, keys)}" if keys else ""


def _sort_columns(node: Node) -> Iterator[list[int]]:
    fields = (node.attributes.get("orderBy") or {}).get("fields", ())
    if fields:
        yield [field["index"] for field in fields]


def _types(row: LogicalType, columns: Sequence[int] | None = None) -> str:
    types = row.types if columns is None else [row.types[column] for column in columns]
    return f"({', '.join(map(str, types))})"
