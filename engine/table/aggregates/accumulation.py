"""The aggregates of a node as one thing: what is fed with rows and holds one accumulator for each of them.

Group aggregates, windows and OVER use it (Flink: AggsHandleFunction, DistinctAggCodeGen).

Rules:

- An accumulator is a list with one entry for each unit, and plain data. ``add``, ``retract`` and ``merge``
  change the list that they are given; who stores it writes it back. ``merge`` never keeps nor changes what it
  merges from.
- A FILTER that is not TRUE keeps a row from its call.
- A call that says that it need not retract is not asked to, even where its node gets retractions: such is MAX
  over what only grows.
- Calls with DISTINCT over the same arguments and filter share one set of values, a unit. Where rows are
  retracted, the set counts each value: its first copy is added to the aggregates, its last one retracted. A
  count below zero, of a value retracted before it came, adds nothing when it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from onceproof.engine.table.aggregates.counts import change_count
from onceproof.engine.table.aggregates.registry import Aggregate, AggregateCall, create_aggregate
from onceproof.engine.table.ordering import fields_of, row_codec
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import Row

Accumulators: TypeAlias = list[Any]


class DistinctValues(Aggregate):
    """Aggregates of each value once; its result is a list of theirs.

    The accumulator is the values with their counts, and the accumulators of the aggregates.
    """

    def __init__(self, aggregates: Sequence[Aggregate], types: Sequence[LogicalType], retracts: bool) -> None:
        self._aggregates = aggregates
        self._encode, self._decode = row_codec(types)
        self._retracts = retracts

    def create(self) -> list[Any]:
        return [{}, [each.create() for each in self._aggregates]]

    def add(self, accumulator: list[Any], values: Row) -> list[Any]:
        counts, parts = accumulator
        key = self._encode(values)
        if not self._retracts:
            if key not in counts:
                counts[key] = 1
                self._apply(parts, values, adds=True)
            return accumulator
        if change_count(counts, key, 1) == 1:
            self._apply(parts, values, adds=True)
        return accumulator

    def retract(self, accumulator: list[Any], values: Row) -> list[Any]:
        counts, parts = accumulator
        key = self._encode(values)
        if change_count(counts, key, -1) == 0:
            self._apply(parts, values, adds=False)
        return accumulator

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        counts, parts = accumulator
        for key, more in other[0].items():
            before = counts.get(key, 0)
            after = change_count(counts, key, more if self._retracts else 1 - before)
            if before <= 0 < after:
                self._apply(parts, self._decode(key), adds=True)
            elif after <= 0 < before:
                self._apply(parts, self._decode(key), adds=False)
        return accumulator

    def result(self, accumulator: list[Any]) -> list[Any]:
        parts = accumulator[1]
        return [each.result(part) for each, part in zip(self._aggregates, parts, strict=True)]

    def _apply(self, parts: list[Any], values: Row, *, adds: bool) -> None:
        for place, each in enumerate(self._aggregates):
            parts[place] = (each.add if adds else each.retract)(parts[place], values)


class Unit(Struct, frozen=True):
    """What is fed with the same values: a call, or several that share their distinct values."""

    aggregate: Aggregate
    values_of: Callable[[Row], Row]
    filter: int | None
    places: tuple[int, ...]
    """Where the results are among those of all calls."""
    is_distinct: bool
    retracts: bool


class AggregateSet:
    """The aggregates of a node.

    Args:
        calls: its calls.
        settings: those of the job.

    Raises:
        UnsupportedPlan: an aggregate is not known.
    """

    def __init__(self, calls: Sequence[AggregateCall], settings: TableSettings) -> None:
        self._size = len(calls)
        self.units = _units(calls, settings)
        self._adds = [
            (place, each.aggregate.add, each.values_of, each.filter) for place, each in enumerate(self.units)
        ]
        self._retracts = [
            (place, each.aggregate.retract, each.values_of, each.filter)
            for place, each in enumerate(self.units)
            if each.retracts
        ]
        self._results = [each.aggregate.result for each in self.units]
        self._is_plain = not any(each.is_distinct for each in self.units)

    def create(self) -> Accumulators:
        """Return accumulators of no rows."""
        return [each.aggregate.create() for each in self.units]

    def add(self, accumulators: Accumulators, row: Row) -> None:
        """Add a row."""
        for place, add, values_of, condition in self._adds:
            if condition is None or row[condition]:
                accumulators[place] = add(accumulators[place], values_of(row))

    def retract(self, accumulators: Accumulators, row: Row) -> None:
        """Take a row away."""
        for place, retract, values_of, condition in self._retracts:
            if condition is None or row[condition]:
                accumulators[place] = retract(accumulators[place], values_of(row))

    def merge(self, accumulators: Accumulators, others: Sequence[Any]) -> None:
        """Add the rows of other accumulators, which stay as they are."""
        for place, each in enumerate(self.units):
            accumulators[place] = each.aggregate.merge(accumulators[place], others[place])

    def results(self, accumulators: Accumulators) -> list[Any]:
        """Return the value of each call."""
        if self._is_plain:
            return [result(each) for result, each in zip(self._results, accumulators, strict=True)]
        values: list[Any] = [None] * self._size
        for each, accumulator in zip(self.units, accumulators, strict=True):
            found = each.aggregate.result(accumulator)
            for place, value in zip(each.places, found if each.is_distinct else (found,), strict=True):
                values[place] = value
        return values


def _units(calls: Sequence[AggregateCall], settings: TableSettings) -> list[Unit]:
    units: list[Unit] = []
    shared: dict[tuple[Any, ...], list[int]] = {}
    for place, call in enumerate(calls):
        if call.distinct:
            shared.setdefault((call.arguments, call.filter), []).append(place)
        else:
            aggregate = create_aggregate(call, settings)
            values_of = fields_of(call.arguments)
            units.append(Unit(aggregate, values_of, call.filter, (place,), False, call.retracts))
    for (arguments, condition), places in shared.items():
        own = [calls[place] for place in places]
        aggregates = [create_aggregate(call, settings) for call in own]
        retracts = any(call.retracts for call in own)
        distinct = DistinctValues(aggregates, own[0].argument_types, retracts)
        units.append(Unit(distinct, fields_of(arguments), condition, tuple(places), True, retracts))
    return units
