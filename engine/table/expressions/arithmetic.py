"""Arithmetic. A skeleton: integers that wrap, floats, sums of decimals, and times with intervals."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from onceproof.engine.table.expressions.registry import Scope, strict
from onceproof.engine.table.expressions.rex import Call
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.types import INTEGERS, TIMESTAMPS, LogicalType
from onceproof.engine.table.values import DECIMALS, NANOS_PER_MS, to_decimal, to_float32, wrap

_DECIMAL_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "$+$1": DECIMALS.add,
    "$-$1": DECIMALS.subtract,
    "$*$1": DECIMALS.multiply,
}
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "$+$1": operator.add,
    "$-$1": operator.sub,
    "$*$1": operator.mul,
}


@strict(*_OPERATIONS)
def _arithmetic(call: Call, scope: Scope) -> Callable[..., Any]:
    if len(call.operands) == 1:
        return _result_of(operator.neg, call.type)
    roots = [operand.type.root for operand in call.operands]
    operation = _OPERATIONS[call.name]
    if roots[0] in TIMESTAMPS and roots[1] == "INTERVAL_MS":
        return lambda moment, interval: operation(moment, interval * NANOS_PER_MS)
    decimal = "DECIMAL" in roots
    if decimal and call.type.root == "DECIMAL":
        exact, precision, scale = _DECIMAL_OPERATIONS[call.name], call.type.precision, call.type.scale
        return lambda first, second: to_decimal(exact(Decimal(first), Decimal(second)), precision, scale)
    if call.type.root not in (*INTEGERS, "FLOAT", "DOUBLE") or decimal:
        raise UnsupportedPlan(f"function {call.name} of {roots[0]} and {roots[1]}")
    return _result_of(operation, call.type)


def _result_of(operation: Callable[..., Any], kind: LogicalType) -> Callable[..., Any]:
    if (bits := INTEGERS.get(kind.root)) is not None:
        half = 1 << (bits - 1)

        def integer(*values: int) -> int:
            result: int = operation(*values)
            return result if -half <= result < half else wrap(result, bits)

        return integer
    if kind.root == "FLOAT":
        return lambda *values: to_float32(operation(*values))
    return operation
