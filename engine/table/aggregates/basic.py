"""COUNT, SUM and AVG."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from onceproof.engine.table.aggregates.registry import Aggregate, AggregateCall, aggregate
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.types import FLOATS, INTEGERS, NUMBERS, LogicalType
from onceproof.engine.table.values import DECIMALS, Row, to_decimal, to_float32, wrap

_LONGEST_DECIMAL: Final = 38


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
    return 0.0 if kind.root in FLOATS else 0


Operation = Callable[[Any, Any], Any]


def plus_and_minus(kind: LogicalType) -> tuple[Operation, Operation]:
    """Return addition and subtraction within a type of numbers; NULL where the result is too big for it."""
    fit = fitting(kind)
    if kind.root == "DECIMAL":
        return lambda a, b: fit(DECIMALS.add(a, b)), lambda a, b: fit(DECIMALS.subtract(a, b))
    if kind.root == "DOUBLE":
        return operator.add, operator.sub
    return lambda a, b: fit(a + b), lambda a, b: fit(a - b)


class Sum(Aggregate):
    """The sum of what is not NULL, NULL over nothing (Flink: SumAggFunction, SumWithRetractAggFunction).

    The accumulator is the sum and the number of values. A sum that was too big is NULL until the next value,
    with which it begins anew.
    """

    def __init__(self, kind: LogicalType) -> None:
        self._plus, self._minus = plus_and_minus(kind)
        self._zero = zero_of(kind)

    def create(self) -> tuple[Any, int]:
        return None, 0

    def add(self, accumulator: tuple[Any, int], values: Row) -> tuple[Any, int]:
        (value,) = values
        if value is None:
            return accumulator
        total, count = accumulator
        return value if total is None else self._plus(total, value), count + 1

    def retract(self, accumulator: tuple[Any, int], values: Row) -> tuple[Any, int]:
        (value,) = values
        if value is None:
            return accumulator
        total, count = accumulator
        return self._minus(self._zero if total is None else total, value), count - 1

    def merge(self, accumulator: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
        (first, count), (second, more) = accumulator, other
        if first is None or second is None:
            return second if first is None else first, count + more
        return self._plus(first, second), count + more

    def result(self, accumulator: tuple[Any, int]) -> Any:
        total, count = accumulator
        return total if count else None


class SumOrZero(Aggregate):
    """The sum of what is not NULL, 0 over nothing (Flink: Sum0AggFunction); too big it stays NULL."""

    def __init__(self, kind: LogicalType) -> None:
        self._plus, self._minus = plus_and_minus(kind)
        self._zero = zero_of(kind)

    def create(self) -> Any:
        return self._zero

    def add(self, accumulator: Any, values: Row) -> Any:
        return self._join(self._plus, accumulator, values[0])

    def retract(self, accumulator: Any, values: Row) -> Any:
        return self._join(self._minus, accumulator, values[0])

    @staticmethod
    def _join(operation: Operation, total: Any, value: Any) -> Any:
        return total if value is None or total is None else operation(total, value)

    def merge(self, accumulator: Any, other: Any) -> Any:
        return None if accumulator is None or other is None else self._plus(accumulator, other)

    def result(self, accumulator: Any) -> Any:
        return accumulator


def _check_number(call: AggregateCall) -> None:
    if call.type.root not in NUMBERS:
        raise UnsupportedPlan(f"aggregate {call.function} of {call.type.root}")


@aggregate("$SUM$1")
def _sum(call: AggregateCall, settings: TableSettings) -> Aggregate:
    _check_number(call)
    return Sum(call.type)


@aggregate("$$SUM0$1")
def _sum0(call: AggregateCall, settings: TableSettings) -> Aggregate:
    _check_number(call)
    return SumOrZero(call.type)


class Average(Aggregate):
    """The mean of what is not NULL (Flink: AvgAggFunction).

    Integers are summed as BIGINT and the mean is cut, the mean of decimals is rounded half up. The
    accumulator is the sum and the number of values.
    """

    def __init__(self, given: LogicalType, result: LogicalType) -> None:
        if given.root in INTEGERS:
            total = LogicalType("BIGINT")
        elif given.root == "DECIMAL":
            total = LogicalType("DECIMAL", precision=_LONGEST_DECIMAL, scale=given.scale)
        else:
            total = LogicalType("DOUBLE")
        self._sum = SumOrZero(total)
        self._divide = _division(total, result)

    def create(self) -> tuple[Any, int]:
        return self._sum.create(), 0

    def add(self, accumulator: tuple[Any, int], values: Row) -> tuple[Any, int]:
        if values[0] is None:
            return accumulator
        return self._sum.add(accumulator[0], values), accumulator[1] + 1

    def retract(self, accumulator: tuple[Any, int], values: Row) -> tuple[Any, int]:
        if values[0] is None:
            return accumulator
        return self._sum.retract(accumulator[0], values), accumulator[1] - 1

    def merge(self, accumulator: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
        return self._sum.merge(accumulator[0], other[0]), accumulator[1] + other[1]

    def result(self, accumulator: tuple[Any, int]) -> Any:
        total, count = accumulator
        return None if total is None or not count else self._divide(total, count)


def _division(total: LogicalType, result: LogicalType) -> Operation:
    fit = fitting(result)
    if total.root == "BIGINT":
        return lambda value, count: fit(abs(value) // abs(count) * (1 if (value < 0) == (count < 0) else -1))
    if total.root == "DOUBLE":
        return lambda value, count: fit(value / count)
    scale = max(total.scale, 6)

    def divide(value: Decimal, count: int) -> Decimal | None:
        quotient = to_decimal(DECIMALS.divide(value, Decimal(count)), _LONGEST_DECIMAL, scale)
        return None if quotient is None else fit(quotient)

    return divide


@aggregate("$AVG$1")
def _average(call: AggregateCall, settings: TableSettings) -> Aggregate:
    _check_number(call)
    return Average(call.argument_types[0], call.type)
