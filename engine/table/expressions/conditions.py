"""CASE, COALESCE and their kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceproof.engine.table.expressions.registry import Evaluate, Scope, builder
from onceproof.engine.table.expressions.rex import Call
from onceproof.engine.table.values import Row


@builder("$CASE$1")
def _case(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """Operands are condition, value, condition, value, ..., value of ELSE."""
    cases = list(zip(operands[:-1:2], operands[1::2], strict=True))
    otherwise = operands[-1]

    def evaluate(row: Row) -> Any:
        for condition, value in cases:
            if condition(row):
                return value(row)
        return otherwise(row)

    return evaluate


@builder("$COALESCE$1", "$IFNULL$1")
def _coalesce(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    def evaluate(row: Row) -> Any:
        for operand in operands:
            value = operand(row)
            if value is not None:
                return value
        return None

    return evaluate


@builder("$IF$1")
def _if(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    condition, then, otherwise = operands
    return lambda row: then(row) if condition(row) else otherwise(row)
