"""COUNT, SUM, MIN and MAX."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from onceproof.engine.table.aggregates.registry import Aggregate, AggregateCall, aggregate
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.settings import TableSettings
from onceproof.engine.table.types import INTEGERS, LogicalType
from onceproof.engine.table.values import DECIMALS, Row, to_decimal, to_float32, wrap


class Count(Aggregate):
    """The number of rows, of those whose arguments are not NULL."""

    def create(self) -> int:
        return 0

    def add(self, accumulator: int, values: Row) -> int:
        return accumulator if None in values else accumulator + 1

    def retract(self, accumulator: int, values: Row) -> int:
        return accumulator if None in values else accumulator - 1

    def merge(self, accumulator: int, other: int) -> int:
        return accumulator + other

    def result(self, accumulator: int) -> int:
        return accumulator


@aggregate("$COUNT$1")
def _count(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return Count()


def fitting(kind: LogicalType) -> Callable[[Any], Any]:
    """Return the function that brings a number into its type: wrapped, rounded, or NULL if too big."""
    if kind.root in INTEGERS:
        bits = INTEGERS[kind.root]
        return lambda value: wrap(value, bits)
    if kind.root == "DECIMAL":
        return lambda value: to_decimal(value, kind.precision, kind.scale)
    return to_float32 if kind.root == "FLOAT" else lambda value: value


def zero_of(kind: LogicalType) -> Any:
    """Return the zero of a type of numbers."""
    if kind.root == "DECIMAL":
        return Decimal(0).scaleb(-kind.scale)
    return 0.0 if kind.root in ("FLOAT", "DOUBLE") else 0


class Sum(Aggregate):
    """The sum of what is not NULL; NULL over nothing, or 0 for $SUM0.

    The accumulator is the sum and the number of values.
    """

    def __init__(self, kind: LogicalType, over_nothing: Any) -> None:
        self._fit = fitting(kind)
        self._over_nothing = over_nothing
        self._zero = zero_of(kind)
        is_decimal = kind.root == "DECIMAL"
        self._plus: Callable[[Any, Any], Any] = DECIMALS.add if is_decimal else operator.add
        self._minus: Callable[[Any, Any], Any] = DECIMALS.subtract if is_decimal else operator.sub

    def create(self) -> tuple[Any, int]:
        return self._zero, 0

    def add(self, accumulator: tuple[Any, int], values: Row) -> tuple[Any, int]:
        (value,) = values
        total, count = accumulator
        if value is None:
            return accumulator
        return None if total is None else self._fit(self._plus(total, value)), count + 1

    def retract(self, accumulator: tuple[Any, int], values: Row) -> tuple[Any, int]:
        (value,) = values
        total, count = accumulator
        if value is None:
            return accumulator
        return None if total is None else self._fit(self._minus(total, value)), count - 1

    def merge(self, accumulator: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
        (first, count), (second, more) = accumulator, other
        return None if first is None or second is None else self._fit(self._plus(first, second)), count + more

    def result(self, accumulator: tuple[Any, int]) -> Any:
        total, count = accumulator
        return total if count else self._over_nothing


@aggregate("$SUM$1")
def _sum(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return Sum(call.type, None)


@aggregate("$$SUM0$1")
def _sum0(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return Sum(call.type, zero_of(call.type))


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

    The accumulator counts each value; a count may be negative, for a retraction that came first.
    """

    def __init__(self, choose: Callable[..., Any]) -> None:
        self._choose = choose

    def create(self) -> dict[Any, int]:
        return {}

    def add(self, accumulator: dict[Any, int], values: Row) -> dict[Any, int]:
        return self._count(accumulator, values[0], 1)

    def retract(self, accumulator: dict[Any, int], values: Row) -> dict[Any, int]:
        return self._count(accumulator, values[0], -1)

    def _count(self, accumulator: dict[Any, int], value: Any, change: int) -> dict[Any, int]:
        if value is not None:
            count = accumulator.get(value, 0) + change
            if count:
                accumulator[value] = count
            else:
                del accumulator[value]
        return accumulator

    def merge(self, accumulator: dict[Any, int], other: dict[Any, int]) -> dict[Any, int]:
        for value, count in other.items():
            self._count(accumulator, value, count)
        return accumulator

    def result(self, accumulator: dict[Any, int]) -> Any:
        present = [value for value, count in accumulator.items() if count > 0]
        return self._choose(present) if present else None


def _extreme(call: AggregateCall, choose: Callable[..., Any]) -> Aggregate:
    if call.type.root in ("FLOAT", "DOUBLE"):
        raise UnsupportedPlan(f"aggregate {call.function} of {call.type}")
    return RetractedExtreme(choose) if call.retracts else Extreme(choose)


@aggregate("$MIN$1")
def _min(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return _extreme(call, min)


@aggregate("$MAX$1")
def _max(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return _extreme(call, max)
