"""Arithmetic of numbers, dates and intervals (Flink: ScalarOperatorGens, DecimalDataUtils).

- The plan says the type of every result. Integers wrap, a FLOAT is rounded to 32 bits, a DECIMAL is rounded
  half up to its scale and NULL where it has too many digits.
- Integers and decimals fail at a division by zero; floats become infinite or NaN.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

from onceproof.engine.table.expressions.calendar import add_months, months_between
from onceproof.engine.table.expressions.registry import FunctionFailed, Scope, strict
from onceproof.engine.table.expressions.rex import Call
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.types import INTEGERS, NUMBERS, TIMESTAMPS, LogicalType
from onceproof.engine.table.values import (
    DECIMALS,
    MS_PER_DAY,
    NANOS_PER_DAY,
    NANOS_PER_MS,
    to_decimal,
    to_float32,
    wrap,
)

Operation = Callable[[Any, Any], Any]
DIVISION: Final = Context(prec=38, rounding=ROUND_HALF_UP)
"""Quotients of decimals have 38 digits before they are rounded to their type."""
_INTERVALS: Final = frozenset({"INTERVAL_MONTHS", "INTERVAL_MS"})


def divided(first: int, second: int) -> int:
    """Return a quotient toward zero, as Java's."""
    if not second:
        raise FunctionFailed("/ by zero", "java.lang.ArithmeticException")
    quotient = abs(first) // abs(second)
    return quotient if (first < 0) == (second < 0) else -quotient


def remainder(first: int, second: int) -> int:
    """Return a remainder with the sign of the dividend, as Java's."""
    return first - divided(first, second) * second


def float_quotient(first: float, second: float) -> float:
    """Return a quotient of floats, as Java's."""
    if second:
        return first / second
    if first != first or second != second or not first:
        return math.nan
    return math.copysign(math.inf, math.copysign(1.0, first) * math.copysign(1.0, second))


def _float_remainder(first: float, second: float) -> float:
    if not second or math.isinf(first):
        return math.nan
    return math.fmod(first, second)


def _decimal_quotient(first: Decimal, second: Decimal) -> Decimal:
    if not second:
        message = "Division by zero" if first else "Division undefined"
        raise FunctionFailed(message, "java.lang.ArithmeticException")
    return DIVISION.divide(first, second)


def _decimal_remainder(first: Decimal, second: Decimal) -> Decimal:
    if not second:
        raise FunctionFailed("Division by zero", "java.lang.ArithmeticException")
    try:
        return DIVISION.remainder(first, second)
    except InvalidOperation:
        # The quotient has more digits than Flink reckons with.
        raise FunctionFailed("Division impossible", "java.lang.ArithmeticException") from None


_OPERATIONS: Final[dict[str, tuple[Operation, Operation, Operation]]] = {
    "$+$1": (operator.add, operator.add, DECIMALS.add),
    "$-$1": (operator.sub, operator.sub, DECIMALS.subtract),
    "$*$1": (operator.mul, operator.mul, DECIMALS.multiply),
    "$/$1": (divided, float_quotient, _decimal_quotient),
    "$%$1": (remainder, _float_remainder, _decimal_remainder),
    "$MOD$1": (remainder, _float_remainder, _decimal_remainder),
    "$/INT$1": (divided, float_quotient, _decimal_quotient),
}
"""What each operator is for integers, for floats and for decimals."""
_REMAINDERS: Final = ("$%$1", "$MOD$1")


@strict(*_OPERATIONS)
def _arithmetic(call: Call, scope: Scope) -> Operation:
    if len(call.operands) == 1:
        return _negation(call.type)
    first, second = (operand.type for operand in call.operands)
    if first.root in NUMBERS and second.root in NUMBERS:
        return numeric(call.name, first, second, call.type)
    return _of_times(call, first, second)


@strict("$-/1$1", "$MINUS_PREFIX$1")
def _negative(call: Call, scope: Scope) -> Callable[..., Any]:
    return _negation(call.type)


def _negation(kind: LogicalType) -> Callable[..., Any]:
    if kind.root == "DECIMAL":
        # Unlike the operator, exact whatever the context of the thread is.
        return lambda value: value.copy_negate() if value else value
    return _result_of(operator.neg, kind)


@strict("$+/1$1")
def _positive(call: Call, scope: Scope) -> Callable[..., Any]:
    return lambda value: value


def numeric(name: str, first: LogicalType, second: LogicalType, result: LogicalType) -> Operation:
    """Return an operator of two types of numbers with a type of result."""
    whole, inexact, exact = _OPERATIONS[name]
    roots = (first.root, second.root)
    if result.root == "DECIMAL":
        precision, scale = result.precision, result.scale
        if "FLOAT" in roots or "DOUBLE" in roots:
            raise UnsupportedPlan(f"function {name} of {roots[0]} and {roots[1]}")
        return lambda one, other: to_decimal(exact(Decimal(one), Decimal(other)), precision, scale)
    if "DECIMAL" in roots and "FLOAT" not in roots and "DOUBLE" not in roots:
        # The remainder of a decimal by an integer is one, and that of both as BIGINT.
        bits = INTEGERS.get(result.root, 64)
        return lambda one, other: wrap(whole(wrap(int(one), 64), wrap(int(other), 64)), bits)
    if "DECIMAL" in roots:
        return _result_of(lambda one, other: inexact(float(one), float(other)), result)
    if roots[0] in INTEGERS and roots[1] in INTEGERS:
        return _result_of(whole, result)
    if result.root == "FLOAT" and ("DOUBLE" not in roots or name not in _REMAINDERS):
        # The operands become numbers of the result's type first; of a remainder only if they have one type.
        # Java converts an integer to a float of 32 bits first.
        return lambda one, other: to_float32(inexact(to_float32(one), to_float32(other)))
    return _result_of(lambda one, other: inexact(float(one), float(other)), result)


def _result_of(operation: Callable[..., Any], kind: LogicalType) -> Callable[..., Any]:
    if (bits := INTEGERS.get(kind.root)) is not None:
        half = 1 << (bits - 1)

        def integer(*values: int) -> int:
            result: int = operation(*values)
            return result if -half <= result < half else wrap(result, bits)

        return integer
    if kind.root == "FLOAT":
        return lambda *values: to_float32(operation(*values))
    if kind.root == "INTERVAL_MONTHS":
        return lambda *values: wrap(operation(*values), 32)
    return operation


# ---- times


def _of_times(call: Call, first: LogicalType, second: LogicalType) -> Operation:
    name, roots = call.name, (first.root, second.root)
    sign = -1 if name == "$-$1" else 1
    if first.root in _INTERVALS and name in ("$*$1", "$/$1", "$/INT$1", "$%$1", "$MOD$1"):
        whole = _OPERATIONS[name][0]
        return lambda one, other: whole(one, int(other))
    if name == "$*$1" and second.root in _INTERVALS:
        return lambda one, other: int(one) * other
    if name not in ("$+$1", "$-$1"):
        raise UnsupportedPlan(f"function {name} of {roots[0]} and {roots[1]}")
    if roots[0] == roots[1] and roots[0] in _INTERVALS:
        return _OPERATIONS[name][0]
    if second.root in _INTERVALS:
        return _moved_in_type(first, second, sign, call.type)
    if first.root in _INTERVALS:
        moved = _moved_in_type(second, first, 1, call.type)
        return lambda one, other: moved(other, one)
    if name == "$-$1" and call.type.root in _INTERVALS:
        return _difference(first, second, call.type)
    raise UnsupportedPlan(f"function {name} of {roots[0]} and {roots[1]}")


def _moved_in_type(time: LogicalType, interval: LogicalType, sign: int, result: LogicalType) -> Operation:
    """Return the addition of an interval; a date to which hours are added becomes a timestamp."""
    if time.root == "DATE" and result.root in TIMESTAMPS:
        moved = _moved(result, interval, sign)
        return lambda days, by: moved(days * NANOS_PER_DAY, by)
    return _moved(time, interval, sign)


def _moved(time: LogicalType, interval: LogicalType, sign: int) -> Operation:
    """Return the addition of an interval to a date or time."""
    months = interval.root == "INTERVAL_MONTHS"
    match time.root:
        case "DATE" if months:
            return lambda moment, by: add_months(moment, sign * by)
        case "DATE":
            return lambda moment, by: moment + sign * divided(by, MS_PER_DAY)
        case "TIME" if not months:
            return lambda moment, by: (moment + sign * by) % MS_PER_DAY
        case "TIME":
            return lambda moment, by: moment
        case _ if time.root in TIMESTAMPS and not months:
            unit = sign * NANOS_PER_MS
            return lambda moment, by: moment + by * unit
        case _ if time.root in TIMESTAMPS:

            def move(moment: int, by: int) -> int:
                days, rest = divmod(moment, NANOS_PER_DAY)
                return add_months(days, sign * by) * NANOS_PER_DAY + rest

            return move
    raise UnsupportedPlan(f"an interval added to {time.root}")


def milliseconds_of(kind: LogicalType) -> Callable[[int], int]:
    """Return the function from a date or time to milliseconds. Raises UnsupportedPlan."""
    if kind.root == "DATE":
        return lambda value: value * MS_PER_DAY
    if kind.root == "TIME":
        return lambda value: value
    if kind.root in TIMESTAMPS:
        return lambda value: value // NANOS_PER_MS
    raise UnsupportedPlan(f"a difference of {kind.root}")


def _difference(first: LogicalType, second: LogicalType, result: LogicalType) -> Operation:
    later, earlier = milliseconds_of(first), milliseconds_of(second)
    if result.root == "INTERVAL_MS":
        return lambda one, other: later(one) - earlier(other)

    def months(one: int, other: int) -> int:
        days, rest = divmod(later(one), MS_PER_DAY)
        other_days, other_rest = divmod(earlier(other), MS_PER_DAY)
        return months_between(days, other_days, rest, other_rest)

    return months
