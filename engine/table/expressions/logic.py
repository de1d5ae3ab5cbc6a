"""Comparisons, and the three-valued logic of AND, OR and NOT."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from onceproof.engine.table.expressions.registry import Evaluate, Scope, builder, strict
from onceproof.engine.table.expressions.rex import Call
from onceproof.engine.table.values import Row


@builder("$AND$1")
def _and(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    def evaluate(row: Row) -> bool | None:
        result: bool | None = True
        for operand in operands:
            value = operand(row)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return evaluate


@builder("$OR$1")
def _or(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    def evaluate(row: Row) -> bool | None:
        result: bool | None = False
        for operand in operands:
            value = operand(row)
            if value is True:
                return True
            if value is None:
                result = None
        return result

    return evaluate


@strict("$NOT$1")
def _not(call: Call, scope: Scope) -> Callable[..., Any]:
    return operator.not_


@builder("$IS NULL$1")
def _is_null(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    (operand,) = operands
    return lambda row: operand(row) is None


@builder("$IS NOT NULL$1")
def _is_not_null(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    (operand,) = operands
    return lambda row: operand(row) is not None


def _is(truth: bool | None, expected: bool) -> Callable[[Call, Sequence[Evaluate], Scope], Evaluate]:
    def build(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
        (operand,) = operands
        return lambda row: (operand(row) is truth) is expected

    return build


builder("$IS TRUE$1")(_is(True, True))
builder("$IS FALSE$1")(_is(False, True))
builder("$IS NOT TRUE$1")(_is(True, False))
builder("$IS NOT FALSE$1")(_is(False, False))
builder("$IS UNKNOWN$1")(_is(None, True))
builder("$IS NOT UNKNOWN$1")(_is(None, False))

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$=$1": operator.eq,
    "$<>$1": operator.ne,
    "$<$1": operator.lt,
    "$<=$1": operator.le,
    "$>$1": operator.gt,
    "$>=$1": operator.ge,
}


@strict(*_COMPARISONS)
def _compare(call: Call, scope: Scope) -> Callable[..., Any]:
    return _COMPARISONS[call.name]
