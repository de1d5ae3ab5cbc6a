"""FIRST_VALUE, LAST_VALUE and SINGLE_VALUE: one value of a group, by the order of arrival."""

from __future__ import annotations

from typing import Any, Final

from onceproof.engine.table.aggregates.registry import Aggregate, AggregateCall, aggregate
from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.ordering import key_codec
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.values import Row

MORE_THAN_ONE: Final = "SingleValueAggFunction received more than one element."


class FirstValue(Aggregate):
    """The first value that is not NULL, where nothing is retracted (Flink: FirstValueAggFunction)."""

    def create(self) -> None:
        return None

    def add(self, accumulator: Any, values: Row) -> Any:
        return values[0] if accumulator is None else accumulator

    def merge(self, accumulator: Any, other: Any) -> Any:
        return other if accumulator is None else accumulator

    def result(self, accumulator: Any) -> Any:
        return accumulator


class LastValue(FirstValue):
    """The last value that is not NULL, where nothing is retracted (Flink: LastValueAggFunction)."""

    def add(self, accumulator: Any, values: Row) -> Any:
        return accumulator if values[0] is None else values[0]

    def merge(self, accumulator: Any, other: Any) -> Any:
        return accumulator if other is None else other


class RetractedValue(Aggregate):
    """The first or last value, where values are retracted (Flink: FirstValueWithRetractAggFunction).

    A retraction takes away the oldest equal value. As in Flink it cannot merge. The accumulator is the number
    of the next value, the keys of the values by number, in order, and the numbers of each key.
    """

    def __init__(self, call: AggregateCall, *, is_last: bool) -> None:
        self._encode, self._decode = key_codec(call.argument_types[0])
        self._is_last = is_last

    def create(self) -> list[Any]:
        return [0, {}, {}]

    def add(self, accumulator: list[Any], values: Row) -> list[Any]:
        if values[0] is not None:
            key = self._encode(values[0])
            number, keys, numbers = accumulator
            keys[number] = key
            numbers.setdefault(key, []).append(number)
            accumulator[0] = number + 1
        return accumulator

    def retract(self, accumulator: list[Any], values: Row) -> list[Any]:
        _, keys, numbers = accumulator
        if values[0] is None or not (own := numbers.get(key := self._encode(values[0]))):
            return accumulator
        del keys[own.pop(0)]
        if not own:
            del numbers[key]
        return accumulator

    def result(self, accumulator: list[Any]) -> Any:
        keys = accumulator[1]
        if not keys:
            return None
        return self._decode(keys[next(reversed(keys)) if self._is_last else next(iter(keys))])


@aggregate("$FIRST_VALUE$1")
def _first_value(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return RetractedValue(call, is_last=False) if call.retracts else FirstValue()


@aggregate("$LAST_VALUE$1")
def _last_value(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return RetractedValue(call, is_last=True) if call.retracts else LastValue()


class SingleValue(Aggregate):
    """The value of the only row, as a scalar subquery has it; a second row fails the job.

    Flink: SingleValueAggFunction. The accumulator is the value and the number of rows, which is -1 after a
    retraction that came first.
    """

    def create(self) -> tuple[Any, int]:
        return None, 0

    def add(self, accumulator: tuple[Any, int], values: Row) -> tuple[Any, int]:
        if accumulator[1] > 0:
            raise FunctionFailed(MORE_THAN_ONE)
        return values[0], accumulator[1] + 1

    def retract(self, accumulator: tuple[Any, int], values: Row) -> tuple[Any, int]:
        if accumulator[1] not in (0, 1):
            raise FunctionFailed(MORE_THAN_ONE)
        return None, accumulator[1] - 1

    def merge(self, accumulator: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
        if accumulator[1] > 0 and other[1] > 0:
            raise FunctionFailed(MORE_THAN_ONE)
        return other[0] if other[1] > 0 else accumulator[0], accumulator[1] + other[1]

    def result(self, accumulator: tuple[Any, int]) -> Any:
        return accumulator[0]


@aggregate("$SINGLE_VALUE$1")
def _single_value(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return SingleValue()
