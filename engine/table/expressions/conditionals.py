"""CASE, COALESCE, GREATEST and their kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from onceproof.engine.table.expressions.casts import conversion
from onceproof.engine.table.expressions.comparisons import equality
from onceproof.engine.table.expressions.registry import Evaluate, Scope, builder
from onceproof.engine.table.expressions.rex import Call
from onceproof.engine.table.types import TIMESTAMPS, LogicalType
from onceproof.engine.table.values import Row

_OF_TIMES: Final = (*TIMESTAMPS, "TIME")


def as_type(evaluate: Evaluate, given: LogicalType, wanted: LogicalType, scope: Scope) -> Evaluate:
    """Return the evaluation of an operand in the type of the result, where the planner adds no cast."""
    narrows = given.root in _OF_TIMES and given.precision > wanted.precision
    if (given.root == wanted.root and given.root != "DECIMAL" and not narrows) or given.root == "NULL":
        return evaluate
    if given.as_nullable() == wanted.as_nullable():
        return evaluate
    convert = conversion(given, wanted, scope)

    def converted(row: Row) -> Any:
        value = evaluate(row)
        return None if value is None else convert(value)

    return converted


def _values(call: Call, operands: Sequence[Evaluate], scope: Scope, first: int, step: int) -> list[Evaluate]:
    return [
        as_type(operands[index], call.operands[index].type, call.type, scope)
        for index in range(first, len(operands), step)
    ]


@builder("$CASE$1")
def _case(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """Operands are condition, value, condition, value, ..., value of ELSE."""
    values = _values(call, operands[:-1], scope, 1, 2)
    cases = list(zip(operands[:-1:2], values, strict=True))
    otherwise = as_type(operands[-1], call.operands[-1].type, call.type, scope)

    def evaluate(row: Row) -> Any:
        for condition, value in cases:
            if condition(row):
                return value(row)
        return otherwise(row)

    return evaluate


@builder("$COALESCE$1", "$IFNULL$1")
def _coalesce(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    values = _values(call, operands, scope, 0, 1)

    def evaluate(row: Row) -> Any:
        for operand in values:
            value = operand(row)
            if value is not None:
                return value
        return None

    return evaluate


@builder("$IF$1")
def _if(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    condition = operands[0]
    then, otherwise = _values(call, operands, scope, 1, 1)
    return lambda row: then(row) if condition(row) else otherwise(row)


@builder("$NULLIF$1")
def _null_if(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    first, second = operands
    equal = equality(*[operand.type for operand in call.operands])

    def evaluate(row: Row) -> Any:
        value, other = first(row), second(row)
        return None if value is not None and other is not None and equal(value, other) else value

    return evaluate


def _extreme(choose: Callable[[Any, Any], bool]) -> Any:
    """Return the builder of the value that ``choose`` prefers to all others; NULL where any is."""

    def build(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
        values = _values(call, operands, scope, 0, 1)

        def evaluate(row: Row) -> Any:
            best = values[0](row)
            if best is None:
                return None
            for operand in values[1:]:
                value = operand(row)
                if value is None:
                    return None
                if choose(value, best):
                    best = value
            return best

        return evaluate

    return build


builder("$GREATEST$1")(_extreme(lambda value, best: value > best))
builder("$LEAST$1")(_extreme(lambda value, best: value < best))
