"""Aggregates without windows, in one phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from onceproof.engine.table.aggregates.accumulation import Accumulators, AggregateSet
from onceproof.engine.table.aggregates.registry import AggregateCall, read_calls
from onceproof.engine.table.bundles import KeyedBundles, bundle_size
from onceproof.engine.table.operators import Emit, TableContext, TableFunction
from onceproof.engine.table.ordering import fields_of, row_equality
from onceproof.engine.table.plans import Node
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import ADDS, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Row

STATE = "groupAggregateState"

_ARRAY_AGG = "$ARRAY_AGG$1"


class GroupSpec(Struct, frozen=True):
    """What a group aggregate is to do."""

    grouping: tuple[int, ...]
    key_types: tuple[LogicalType, ...]
    calls: tuple[AggregateCall, ...]
    counts_rows: bool
    """Whether rows are retracted, so that a group may end."""
    emits_before: bool
    """Whether an update has -U."""
    ttl_ms: int


class Group(Struct, array_like=True):
    """The state of a group, while it is worked on."""

    count: int
    """The number of its rows."""
    accumulators: Accumulators


def result_equality(calls: Sequence[AggregateCall]) -> Callable[[Row, Row], bool]:
    """Return whether two results of calls are the same.

    Flink compares maps, and arrays that it has just made, value by value as ``=`` does: a NULL among them
    equals nothing, so such a result is emitted anew. Arrays that were values of a column are equal by bytes.
    """
    same = row_equality([call.type for call in calls])
    maps = [place for place, call in enumerate(calls) if call.type.root == "MAP"]
    arrays = [place for place, call in enumerate(calls) if call.function == _ARRAY_AGG]
    if not maps and not arrays:
        return same

    def equal(first: Row, second: Row) -> bool:
        return (
            same(first, second)
            and not any(value is None for place in maps for _, value in first[place] or ())
            and not any(value is None for place in arrays for value in first[place] or ())
        )

    return equal


class Groups:
    """The groups of a node: their state, and the changes that they make.

    - A row that stays as it was is not emitted, except with a time to live, so that later states live on.
    - A group whose count falls to 0 ends. A new group that has no rows at its first change leaves nothing.
    """

    def __init__(self, spec: GroupSpec, settings: TableSettings) -> None:
        self.aggregates = AggregateSet(spec.calls, settings)
        self._spec = spec
        self._same = result_equality(spec.calls)

    def start(self, context: TableContext) -> None:
        self._state = context.value_state(STATE, self._spec.ttl_ms)

    def stored(self) -> Group | None:
        """Return the group of the current key, if it is there."""
        stored = self._state.value()
        return None if stored is None else Group(*stored)

    def create(self) -> Group:
        """Return a group without rows."""
        return Group(0, self.aggregates.create())

    def results(self, group: Group) -> Row:
        """Return the results of a group."""
        return tuple(self.aggregates.results(group.accumulators))

    def keep(self, key: Row, before: Row | None, group: Group, emit: Emit) -> None:
        """Store the changed group of the current key, and emit how its row changed.

        Args: key: the columns of the group. before: its results before; None: it was not there.
        """
        spec = self._spec
        if spec.counts_rows and group.count == 0:
            self._state.clear()
            if before is not None:
                emit((DELETE, key + before))
            return
        self._state.update((group.count, group.accumulators))
        after = self.results(group)
        if before is None:
            emit((INSERT, key + after))
        elif spec.ttl_ms or not self._same(before, after):
            if spec.emits_before:
                emit((UPDATE_BEFORE, key + before))
            emit((UPDATE_AFTER, key + after))


class GroupAggregate(TableFunction):
    """Emits the changed row of a group after each row of it (Flink: GroupAggFunction).

    A retraction for a group that is not there is dropped.
    """

    def __init__(self, spec: GroupSpec, settings: TableSettings) -> None:
        super().__init__()
        self._groups = Groups(spec, settings)
        self._key_of = fields_of(spec.grouping)

    def start(self, context: TableContext) -> None:
        self._groups.start(context)

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        groups, adds = self._groups, ADDS[kind]
        group = groups.stored()
        if group is None:
            if not adds:
                return
            group, before = groups.create(), None
        else:
            before = groups.results(group)
        _apply(groups.aggregates, group, adds, row)
        groups.keep(self._key_of(row), before, group, emit)


def _apply(aggregates: AggregateSet, group: Group, adds: bool, row: Row) -> None:
    if adds:
        aggregates.add(group.accumulators, row)
        group.count += 1
    else:
        aggregates.retract(group.accumulators, row)
        group.count -= 1


class BundledGroupAggregate(KeyedBundles):
    """Emits the changed row of a group at the end of a bundle (Flink: MiniBatchGroupAggFunction).

    What a bundle retracts from a group that is not there, before it adds to it, is dropped.
    """

    def __init__(self, spec: GroupSpec, settings: TableSettings, size: int) -> None:
        super().__init__(size, spec.key_types)
        self._groups = Groups(spec, settings)
        self._key_of = fields_of(spec.grouping)

    def start(self, context: TableContext) -> None:
        super().start(context)
        self._groups.start(context)

    def add(self, collected: Any, kind: int, row: Row) -> list[tuple[bool, Row]]:
        changes: list[tuple[bool, Row]] = [] if collected is None else collected
        changes.append((ADDS[kind], row))
        return changes

    def end(self, collected: list[tuple[bool, Row]], emit: Emit) -> None:
        groups = self._groups
        group, before = groups.stored(), None
        if group is None:
            first = next((place for place, (adds, _) in enumerate(collected) if adds), None)
            if first is None:
                return
            collected = collected[first:]
            group = groups.create()
        else:
            before = groups.results(group)
        for adds, row in collected:
            _apply(groups.aggregates, group, adds, row)
        groups.keep(self._key_of(collected[0][1]), before, group, emit)


def read_group(node: Node, given: TableStream) -> GroupSpec:
    """Read the specification of a node over rows of a stream."""
    attributes = node.attributes
    calls = read_calls(attributes["aggCalls"], given.type, attributes["aggCallNeedRetractions"])
    grouping = tuple(attributes["grouping"])
    return GroupSpec(
        grouping,
        tuple([given.type.types[place] for place in grouping]),
        tuple(calls),
        attributes["needRetraction"],
        attributes["generateUpdateBefore"],
        node.ttl_ms(),
    )


@translator("python-group-aggregate", 1)
@translator("group-aggregate", 1)
def translate_group_aggregate(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator, under the key of the group; the user's functions run where it runs."""
    (given,) = inputs
    spec, size = read_group(node, given), bundle_size(node)
    if size:
        return translation.keyed(
            node, given, spec.grouping, partial(BundledGroupAggregate, spec, translation.settings, size)
        )
    return translation.keyed(node, given, spec.grouping, partial(GroupAggregate, spec, translation.settings))
