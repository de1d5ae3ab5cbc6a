"""Mini-batches: the ends of bundles, and group aggregates in two phases.

The local phase sums up a bundle before it is sent to the owner of the key; the global one merges that into
the state. Between them go rows of the columns of the group, the number of rows, and the accumulators,
whatever the plan says of the type.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from onceproof.engine.elements import MAX_WATERMARK, Record
from onceproof.engine.operators.base import Operator, OperatorContext
from onceproof.engine.table.aggregates.accumulation import AggregateSet
from onceproof.engine.table.aggregates.registry import AggregateCall, read_calls
from onceproof.engine.table.bundles import Bundles, KeyedBundles, bundle_size
from onceproof.engine.table.hash_order import HashOrder
from onceproof.engine.table.nodes.group_aggregate import Group, Groups, GroupSpec
from onceproof.engine.table.operators import Emit, TableContext
from onceproof.engine.table.ordering import fields_of
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.types import LogicalType, read_type
from onceproof.engine.table.values import ADDS, INSERT, Row, identity
from onceproof.engine.wall_clock import WallClock


class ProcessingTimeBundles(Operator):
    """Emits the begin of each interval of processing time as a watermark, and drops those from upstream.

    Flink: ProcTimeMiniBatchAssignerOperator. It is emitted before the first row of the interval, or when the
    interval begins.
    """

    uses_time = True
    passes_watermarks = False

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._current = 0
        self._due_ms: int | None = None

    def open(self, context: OperatorContext) -> None:
        assert context.downstream is not None
        self._downstream = context.downstream
        self._clock = context.clock
        self._wait(self._clock() + self._interval_ms)

    def _wait(self, due_ms: int) -> None:
        self._due_ms = due_ms
        self._downstream.wake_at(due_ms)

    def event_time(self) -> int:
        return self._current

    def resume_event_time(self, known: Any) -> None:
        self._current = known

    def _begin(self) -> int:
        now = self._clock()
        return now - now % self._interval_ms

    def _advance(self, begin: int) -> None:
        if begin > self._current:
            self._current = begin
            self._downstream.watermark(begin)

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        self._advance(self._begin())
        return records

    def process_watermark(self, timestamp: int) -> list[Record]:
        if timestamp == MAX_WATERMARK:
            self._advance(timestamp)
        return []

    def process_time(self, now: int) -> list[Record]:
        if self._due_ms is not None:
            if self._clock() >= self._due_ms:
                begin = self._begin()
                self._advance(begin)
                self._due_ms = begin + self._interval_ms
            # Where the task was woken for something else, it must still be asked anew.
            self._wait(self._due_ms)
        return []

    def next_due_ms(self, wall_clock: WallClock) -> int | None:
        return None if self._due_ms is None else self._due_ms - wall_clock.ahead_ms


class EventTimeBundles(Operator):
    """Passes a watermark on that reaches the end of an interval (Flink: RowTimeMiniBatchAssginerOperator)."""

    uses_time = True
    passes_watermarks = False

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._current = 0
        self._next = interval_ms - 1

    def open(self, context: OperatorContext) -> None:
        assert context.downstream is not None
        self._downstream = context.downstream

    def event_time(self) -> tuple[int, int]:
        return self._current, self._next

    def resume_event_time(self, known: Any) -> None:
        self._current, self._next = known

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        return records

    def process_watermark(self, timestamp: int) -> list[Record]:
        self._current = max(self._current, timestamp)
        if self._current >= self._next:
            self._advance()
        return []

    def next_due_ms(self, wall_clock: WallClock) -> int | None:
        """Return None: watermarks move it, no clock does."""
        return None

    def _advance(self) -> None:
        self._downstream.watermark(self._current)
        if self._current < MAX_WATERMARK:
            begin = self._current - (self._current + self._interval_ms) % self._interval_ms
            end = begin + self._interval_ms - 1
            self._next = end if end > self._current else end + self._interval_ms
        else:
            self._next = MAX_WATERMARK


@translator("mini-batch-assigner", 1)
def translate_mini_batch_assigner(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator."""
    interval = node.attributes["miniBatchInterval"]
    match interval["mode"]:
        case "ProcTime":
            create: Any = ProcessingTimeBundles
        case "RowTime":
            create = EventTimeBundles
        case other:
            raise UnsupportedPlan(f"bundles of {other}")
    return translation.operator(node, inputs[0], partial(create, interval["interval"]))


class LocalAggregate(Bundles):
    """Aggregates the rows of a bundle, without keyed state (Flink: MiniBatchLocalGroupAggFunction)."""

    def __init__(
        self,
        grouping: Sequence[int],
        key_types: Sequence[LogicalType],
        calls: Sequence[AggregateCall],
        settings: TableSettings,
        size: int,
    ) -> None:
        super().__init__()
        self._aggregates = AggregateSet(calls, settings)
        self._key_of = fields_of(grouping)
        self._order = HashOrder(key_types)
        self._size = size
        self._count = 0
        self._bundle: dict[Any, tuple[Row, Group]] = {}

    def process(self, kind: int, row: Row, emit: Emit) -> None:
        key = self._key_of(row)
        name = identity(key)
        if name not in self._bundle:
            self._bundle[name] = key, Group(0, self._aggregates.create())
        group = self._bundle[name][1]
        if ADDS[kind]:
            self._aggregates.add(group.accumulators, row)
            group.count += 1
        else:
            self._aggregates.retract(group.accumulators, row)
            group.count -= 1
        self._count += 1
        if self._count >= self._size:
            self.flush(emit)

    def flush(self, emit: Emit) -> None:
        groups = list(self._bundle.values())
        self._bundle, self._count = {}, 0
        for place in self._order.sorted([key for key, _ in groups]):
            key, group = groups[place]
            emit((INSERT, (*key, group.count, group.accumulators)))


@translator("local-group-aggregate", 1)
def translate_local_aggregate(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator, without a key."""
    (given,) = inputs
    attributes = node.attributes
    calls = read_calls(attributes["aggCalls"], given.type, attributes["aggCallNeedRetractions"])
    grouping = tuple(attributes["grouping"])
    key_types = [given.type.types[place] for place in grouping]
    make = partial(LocalAggregate, grouping, key_types, calls, translation.settings, bundle_size(node))
    return translation.plain(node, given, make)


class MergedBundles(KeyedBundles):
    """Merges what local phases send, by key."""

    def __init__(self, aggregates: AggregateSet, key_types: Sequence[LogicalType], size: int) -> None:
        super().__init__(size, key_types)
        self._aggregates = aggregates

    def add(self, collected: Any, kind: int, row: Row) -> tuple[Row, Group]:
        key, group = collected or (row[:-2], Group(0, self._aggregates.create()))
        self._aggregates.merge(group.accumulators, row[-1])
        group.count += row[-2]
        return key, group


class GlobalAggregate(MergedBundles):
    """Merges bundles into the groups (Flink: MiniBatchGlobalGroupAggFunction)."""

    def __init__(self, spec: GroupSpec, settings: TableSettings, size: int) -> None:
        self._groups = Groups(spec, settings)
        super().__init__(self._groups.aggregates, spec.key_types, size)

    def start(self, context: TableContext) -> None:
        super().start(context)
        self._groups.start(context)

    def end(self, collected: tuple[Row, Group], emit: Emit) -> None:
        key, more = collected
        group, before = self._groups.stored(), None
        if group is None:
            group = more
        else:
            before = self._groups.results(group)
            self._aggregates.merge(group.accumulators, more.accumulators)
            group.count += more.count
        self._groups.keep(key, before, group, emit)


@translator("global-group-aggregate", 1)
def translate_global_aggregate(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator, under the key of the group: the first columns of its input."""
    attributes = node.attributes
    given = read_type(attributes["localAggInputRowType"])
    calls = read_calls(attributes["aggCalls"], given, attributes["aggCallNeedRetractions"])
    grouping = tuple(range(len(attributes["grouping"])))
    spec = GroupSpec(
        grouping,
        tuple([inputs[0].type.types[place] for place in grouping]),
        tuple(calls),
        attributes["needRetraction"],
        attributes["generateUpdateBefore"],
        node.ttl_ms(),
    )
    make = partial(GlobalAggregate, spec, translation.settings, bundle_size(node))
    return translation.keyed(node, inputs[0], grouping, make)


class IncrementalAggregate(MergedBundles):
    """Joins both halves of a split DISTINCT (Flink: MiniBatchIncrementalGroupAggFunction).

    It merges bundles by the partial key (the group and a bucket of the distinct values), adds the values that
    are new there to the accumulators of the group, and sends these to the global phase. Only the sets of
    values are state.
    """

    def __init__(
        self,
        calls: Sequence[AggregateCall],
        key_types: Sequence[LogicalType],
        final: Sequence[int],
        ttl_ms: int,
        settings: TableSettings,
        size: int,
    ) -> None:
        super().__init__(AggregateSet(calls, settings), key_types, size)
        self._final_key = fields_of(final)
        self._final_types = [key_types[place] for place in final]
        self._call_count = len(calls)
        self._ttl_ms = ttl_ms

    def start(self, context: TableContext) -> None:
        super().start(context)
        self._seen = context.value_state("incrementalGroupAggregateState", self._ttl_ms)

    def flush(self, emit: Emit) -> None:
        finals: dict[Any, tuple[Row, Group]] = {}
        for backend_key, (key, more) in self.take():
            self._backend.current_key = backend_key
            final_key = self._final_key(key)
            name = identity(final_key)
            if name not in finals:
                finals[name] = final_key, Group(0, self._aggregates.create())
            group = finals[name][1]
            group.count += more.count
            self._merge(group, more)
        groups = list(finals.values())
        for place in HashOrder(self._final_types).sorted([key for key, _ in groups]):
            key, group = groups[place]
            emit((INSERT, (*key, group.count, self._by_call(group))))

    def _merge(self, group: Group, more: Group) -> None:
        """Merge the accumulators of the current partial key into those of its group."""
        seen = self._seen.value() or {}
        for place, unit in enumerate(self._aggregates.units):
            if unit.is_distinct:
                group.accumulators[place][0] = seen.setdefault(place, {})
            group.accumulators[place] = unit.aggregate.merge(
                group.accumulators[place], more.accumulators[place]
            )
        if seen:
            self._seen.update(seen)

    def _by_call(self, group: Group) -> list[Any]:
        """Return the accumulators as the global phase has them: one for each call, without DISTINCT."""
        accumulators: list[Any] = [None] * self._call_count
        for unit, own in zip(self._aggregates.units, group.accumulators, strict=True):
            for place, accumulator in zip(unit.places, own[1] if unit.is_distinct else (own,), strict=True):
                accumulators[place] = accumulator
        return accumulators


@translator("incremental-group-aggregate", 1)
def translate_incremental_aggregate(
    node: Node, inputs: Sequence[TableStream], translation: Translation
) -> TableStream:
    """Add the operator, under the partial key: the first columns of its input."""
    attributes = node.attributes
    given = read_type(attributes["partialLocalAggInputRowType"])
    calls = read_calls(
        attributes["partialOriginalAggCalls"], given, attributes["partialAggCallNeedRetractions"]
    )
    partial_key = tuple(attributes["partialAggGrouping"])
    make = partial(
        IncrementalAggregate,
        calls,
        [inputs[0].type.types[place] for place in partial_key],
        tuple(attributes["finalAggGrouping"]),
        node.ttl_ms(),
        translation.settings,
        bundle_size(node),
    )
    return translation.keyed(node, inputs[0], partial_key, make)
