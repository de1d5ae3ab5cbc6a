"""MIN and MAX.

Without retractions the accumulator is the value itself; a NaN only counts as the first value, for it is
neither less nor greater than another (Flink: MinAggFunction). With retractions every value is counted, and
NaN is the greatest (Flink: MinWithRetractAggFunction).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from onceproof.engine.table.aggregates.counts import change_count
from onceproof.engine.table.aggregates.registry import Aggregate, AggregateCall, aggregate
from onceproof.engine.table.ordering import key_codec, value_order
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.types import NUMBERS, TEXTS, TIMESTAMPS
from onceproof.engine.table.values import Row

_ORDERED: Final = frozenset({*NUMBERS, *TEXTS, *TIMESTAMPS, "BOOLEAN", "DATE", "TIME"})


class Extreme(Aggregate):
    """The least or greatest value, where nothing is retracted."""

    def __init__(self, choose: Callable[[Any, Any], Any]) -> None:
        self._choose = choose

    def create(self) -> None:
        return None

    def add(self, accumulator: Any, values: Row) -> Any:
        return self.merge(accumulator, values[0])

    def merge(self, accumulator: Any, other: Any) -> Any:
        if accumulator is None or other is None:
            return other if accumulator is None else accumulator
        return self._choose(accumulator, other)

    def result(self, accumulator: Any) -> Any:
        return accumulator


class RetractedExtreme(Aggregate):
    """The least or greatest value, where values are retracted.

    The accumulator is the key of the extreme, the number of values that are there, and the count of each. As
    in Flink, a value that was retracted before it came makes itself the extreme when it comes, and values
    with a count below zero are candidates for the next one.
    """

    def __init__(self, call: AggregateCall, choose: Callable[..., Any]) -> None:
        self._encode, self._decode = key_codec(call.argument_types[0])
        self._order = value_order(call.argument_types[0])
        self._choose = choose

    def create(self) -> list[Any]:
        return [None, 0, {}]

    def add(self, accumulator: list[Any], values: Row) -> list[Any]:
        if values[0] is None:
            return accumulator
        key = self._encode(values[0])
        extreme, size, counts = accumulator
        accumulator[0] = key if size == 0 or extreme is None else self._first(extreme, key)
        if change_count(counts, key, 1) == 1:
            accumulator[1] = size + 1
        return accumulator

    def retract(self, accumulator: list[Any], values: Row) -> list[Any]:
        if values[0] is None:
            return accumulator
        key = self._encode(values[0])
        counts = accumulator[2]
        if change_count(counts, key, -1) == 0:
            accumulator[1] -= 1
            if accumulator[1] == 0:
                accumulator[0] = None
            elif key == accumulator[0]:
                self._search(accumulator)
        return accumulator

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        counts = accumulator[2]
        if accumulator[1] == 0 or accumulator[0] is None:
            accumulator[0] = other[0]
        elif other[1] > 0 and other[0] is not None:
            accumulator[0] = self._first(accumulator[0], other[0])
        is_gone = False
        for key, more in other[2].items():
            after = change_count(counts, key, more)
            before = after - more
            accumulator[1] += (after > 0) - (before > 0)
            is_gone |= after <= 0 < before and key == accumulator[0]
        if is_gone:
            self._search(accumulator)
        return accumulator

    def result(self, accumulator: list[Any]) -> Any:
        return self._decode(accumulator[0]) if accumulator[1] > 0 else None

    def _first(self, *keys: Any) -> Any:
        return self._choose(keys, key=lambda key: self._order(self._decode(key)))

    def _search(self, accumulator: list[Any]) -> None:
        counts = accumulator[2]
        if counts:
            accumulator[0] = self._first(*counts)
        else:
            accumulator[0], accumulator[1] = None, 0


def _extreme(call: AggregateCall, choose: Callable[..., Any]) -> Aggregate:
    if call.argument_types[0].root not in _ORDERED:
        raise UnsupportedPlan(f"aggregate {call.function} of {call.argument_types[0]}")
    return RetractedExtreme(call, choose) if call.retracts else Extreme(choose)


@aggregate("$MIN$1")
def _min(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return _extreme(call, min)


@aggregate("$MAX$1")
def _max(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return _extreme(call, max)
