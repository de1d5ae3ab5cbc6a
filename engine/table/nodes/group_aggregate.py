"""Aggregates without windows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from onceproof.engine.table.aggregates.registry import AggregateCall, create_aggregate, read_calls
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.values import ADDS, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Row


class GroupSpec(Struct, frozen=True):
    """What a group aggregate is to do."""

    grouping: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    counts_rows: bool
    """Whether rows are retracted, so that a group may end."""
    emits_before: bool
    """Whether an update has -U."""
    ttl_ms: int


class GroupAggregate(TableFunction):
    """Emits the changed row of a group after each row of it (Flink: GroupAggFunction).

    - Its state is the number of rows and the accumulators.
    - A retraction for a group that is not there is dropped.
    - A row that stays as it was is not emitted, except with a time to live, so that later states live on.
    """

    def __init__(self, spec: GroupSpec, settings: TableSettings) -> None:
        super().__init__()
        self._spec = spec
        for call in spec.calls:
            if call.distinct or call.filter is not None:
                raise UnsupportedPlan(
                    f"aggregate {call.function} with {'DISTINCT' if call.distinct else 'FILTER'}"
                )
        self._aggregates = [(create_aggregate(call, settings), call.arguments) for call in spec.calls]

    def start(self, context: TableContext) -> None:
        self._state = context.value_state("groupAggregateState", self._spec.ttl_ms)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        spec, adds = self._spec, ADDS[kind]
        stored = self._state.value()
        if stored is None:
            if not adds:
                return
            count, accumulators = 0, [each.create() for each, _ in self._aggregates]
            before = None
        else:
            count, accumulators = stored
            before = self._row_of(row, accumulators)
        accumulators = [
            (each.add if adds else each.retract)(accumulator, tuple([row[place] for place in arguments]))
            for (each, arguments), accumulator in zip(self._aggregates, accumulators, strict=True)
        ]
        count += 1 if adds else -1
        if spec.counts_rows and count == 0:
            self._state.clear()
            if before is not None:
                emit((DELETE, before))
            return
        self._state.update((count, accumulators))
        after = self._row_of(row, accumulators)
        if before is None:
            emit((INSERT, after))
        elif spec.ttl_ms or before != after:
            if spec.emits_before:
                emit((UPDATE_BEFORE, before))
            emit((UPDATE_AFTER, after))

    def _row_of(self, row: Row, accumulators: Sequence[Any]) -> Row:
        results = [
            each.result(accumulator)
            for (each, _), accumulator in zip(self._aggregates, accumulators, strict=True)
        ]
        return (*[row[place] for place in self._spec.grouping], *results)


@translator("group-aggregate", 1)
def translate_group_aggregate(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator, under the key of the group."""
    (given,) = inputs
    attributes = node.attributes
    if node.option("table.exec.mini-batch.enabled") == "true":
        raise UnsupportedPlan("a group aggregate with mini-batch")
    grouping = tuple(attributes["grouping"])
    calls = read_calls(attributes["aggCalls"], given.type, attributes["aggCallNeedRetractions"])
    spec = GroupSpec(
        grouping,
        tuple(calls),
        attributes["needRetraction"],
        attributes["generateUpdateBefore"],
        node.ttl_ms(),
    )
    return translation.keyed(node, given, grouping, partial(GroupAggregate, spec, translation.settings))
