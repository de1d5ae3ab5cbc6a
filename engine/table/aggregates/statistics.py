"""PERCENTILE, and what STDDEV and VAR are made from in plans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from onceproof.engine.table.aggregates.counts import change_count
from onceproof.engine.table.aggregates.registry import Aggregate, AggregateCall, aggregate
from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.ordering import float_order, key_codec
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import Row

_ENCODE, _DECODE = key_codec(LogicalType("DOUBLE"))


class Percentile(Aggregate):
    """Exact percentiles, interpolated (Flink: PercentileAggFunction).

    Its arguments are the value, the percentage or an array of them, and optionally how often the value
    counts. The accumulator is the percentages of the first row, and the count of each value.
    """

    def __init__(self, *, is_array: bool) -> None:
        self._is_array = is_array

    def create(self) -> list[Any]:
        return [None, {}]

    def add(self, accumulator: list[Any], values: Row) -> list[Any]:
        if accumulator[0] is None:
            accumulator[0] = self._checked(values[1])
        return self._count(accumulator, values, 1)

    def retract(self, accumulator: list[Any], values: Row) -> list[Any]:
        return self._count(accumulator, values, -1)

    def _checked(self, given: Any) -> list[float]:
        percentages = list(given) if self._is_array else [given]
        for each in percentages:
            if not 0 <= each <= 1:
                raise FunctionFailed(
                    f"Percentage of PERCENTILE should be between [0.0, 1.0], but was '{each}'.",
                    "java.lang.IllegalArgumentException",
                )
        return percentages

    @staticmethod
    def _count(accumulator: list[Any], values: Row, change: int) -> list[Any]:
        frequency = values[2] if len(values) > 2 else 1
        if values[0] is not None and frequency is not None and frequency > 0:
            change_count(accumulator[1], _ENCODE(float(values[0])), change * int(frequency))
        return accumulator

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        if accumulator[0] is None and other[0] is not None:
            accumulator[0] = list(other[0])
        for key, count in other[1].items():
            change_count(accumulator[1], key, count)
        return accumulator

    def result(self, accumulator: list[Any]) -> Any:
        percentages, counts = accumulator
        total = sum(counts.values())
        if not percentages or total <= 0:
            return None
        values = sorted([(_DECODE(key), count) for key, count in counts.items()], key=_first_order)
        found = tuple([_percentile(values, each * (total - 1) + 1) for each in percentages])
        return found if self._is_array else found[0]


def _first_order(entry: tuple[float, int]) -> Any:
    return float_order(entry[0])


def _percentile(values: Sequence[tuple[float, int]], position: float) -> float:
    """Return what is at a position, from 1, of values that occur so many times each."""
    lower, higher = math.floor(position), math.ceil(position)
    passed, place = values[0][1], 0
    while passed < lower:
        place += 1
        passed += values[place][1]
    if passed >= higher:
        return values[place][0]
    return (higher - position) * values[place][0] + (position - lower) * values[place + 1][0]


@aggregate("$PERCENTILE$1")
def _percentiles(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return Percentile(is_array=call.argument_types[1].root == "ARRAY")


class SquaredDistances(Aggregate):
    """The sum of squared distances from the mean, by Welford's algorithm (Flink: WelfordM2AggFunction).

    The accumulator is the number of values, their mean and the sum. Below one value nothing is summed up; a
    sum below zero, of retractions that match no value, is NULL.
    """

    def create(self) -> tuple[int, float, float]:
        return 0, 0.0, 0.0

    def add(self, accumulator: tuple[int, float, float], values: Row) -> tuple[int, float, float]:
        if values[0] is None:
            return accumulator
        count, mean, total = accumulator
        count += 1
        if count <= 0:
            return count, mean, total
        value = float(values[0])
        distance = value - mean
        mean += distance / count
        return count, mean, total + distance * (value - mean)

    def retract(self, accumulator: tuple[int, float, float], values: Row) -> tuple[int, float, float]:
        if values[0] is None:
            return accumulator
        count, mean, total = accumulator
        count -= 1
        if count <= 0:
            return (0, 0.0, 0.0) if count == 0 else (count, mean, total)
        value = float(values[0])
        distance = value - mean
        mean -= distance / count
        return count, mean, total - (value - mean) * distance

    def merge(
        self, accumulator: tuple[int, float, float], other: tuple[int, float, float]
    ) -> tuple[int, float, float]:
        (count, mean, total), (more, other_mean, other_total) = accumulator, other
        if more <= 0:
            count += more
            return (count, 0.0, 0.0) if count <= 0 else (count, mean, total)
        if count == 0:
            return other
        both = count + more
        if both <= 0:
            return both, 0.0, 0.0
        distance = other_mean - mean
        mean += more / both * distance
        return both, mean, total + other_total + float(count) * more / both * distance * distance

    def result(self, accumulator: tuple[int, float, float]) -> float | None:
        count, _, total = accumulator
        return None if count <= 0 or total < 0 else total


@aggregate("$$WELFORD_M2$1$1")
def _squared_distances(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return SquaredDistances()
