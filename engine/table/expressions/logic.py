"""Comparisons, sets, and the three-valued logic of AND, OR and NOT."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from onceproof.engine.table.expressions.casts import conversion
from onceproof.engine.table.expressions.comparisons import distinctness, equality
from onceproof.engine.table.expressions.literals import plain_value
from onceproof.engine.table.expressions.registry import Evaluate, Scope, builder, strict
from onceproof.engine.table.expressions.rex import Call, Sarg
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.types import TEXTS, TIMESTAMPS
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

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "$<$1": operator.lt,
    "$<=$1": operator.le,
    "$>$1": operator.gt,
    "$>=$1": operator.ge,
}
_TIMES = frozenset({"DATE", "TIME", *TIMESTAMPS})
_UNORDERED = frozenset({"ARRAY", "MAP", "MULTISET", "ROW", "STRUCTURED", "RAW", "VARIANT"})


@strict(*_ORDERS)
def _order(call: Call, scope: Scope) -> Callable[..., Any]:
    for operand in call.operands:
        if operand.type.root in _UNORDERED:
            raise UnsupportedPlan(f"function {call.name} of {operand.type.root}")
    return _of_one_root(call, scope, _ORDERS[call.name])


def _of_one_root(call: Call, scope: Scope, compare: Callable[..., Any]) -> Callable[..., Any]:
    """Return a comparison before which a text becomes the date or time that it is compared with.

    Of a TIMESTAMP and a TIMESTAMP_LTZ both get the type that is more precise.
    """
    first, second = (operand.type for operand in call.operands)
    if first.root == second.root:
        return compare
    both_moments = {first.root, second.root} <= set(TIMESTAMPS)
    if (both_moments and first.precision > second.precision) or (
        first.root in _TIMES and second.root in TEXTS
    ):
        convert = conversion(second, first, scope)
        return lambda one, other: compare(one, convert(other))
    if both_moments or (first.root in TEXTS and second.root in _TIMES):
        convert = conversion(first, second, scope)
        return lambda one, other: compare(convert(one), other)
    return compare


@strict("$=$1")
def _equals(call: Call, scope: Scope) -> Callable[..., Any]:
    return _of_one_root(call, scope, equality(*[operand.type for operand in call.operands]))


@strict("$<>$1")
def _differs(call: Call, scope: Scope) -> Callable[..., Any]:
    equal = equality(*[operand.type for operand in call.operands])
    if equal is operator.eq:
        return _of_one_root(call, scope, operator.ne)
    return lambda first, second: not equal(first, second)


@builder("$IS DISTINCT FROM$1", "$IS NOT DISTINCT FROM$1")
def _is_distinct(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    first, second = operands
    distinct = distinctness(*[operand.type for operand in call.operands])
    if call.name == "$IS DISTINCT FROM$1":
        return lambda row: distinct(first(row), second(row))
    return lambda row: not distinct(first(row), second(row))


@builder("$BETWEEN$1", "$NOT BETWEEN$1", "$BETWEEN ASYMMETRIC$1", "$NOT BETWEEN ASYMMETRIC$1")
def _between(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    value, lower, upper = operands
    inside = "NOT" not in call.name

    def evaluate(row: Row) -> bool | None:
        found, low, high = value(row), lower(row), upper(row)
        above = None if found is None or low is None else found >= low
        below = None if found is None or high is None else found <= high
        if above is False or below is False:
            return not inside
        return None if above is None or below is None else inside

    return evaluate


@builder("$IN$1", "$NOT IN$1")
def _in(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    value, *others = operands
    kind, *kinds = [operand.type for operand in call.operands]
    candidates = [(other, equality(kind, each)) for other, each in zip(others, kinds, strict=True)]
    found_is = call.name == "$IN$1"

    def evaluate(row: Row) -> bool | None:
        found = value(row)
        if found is None:
            return None
        unknown = False
        for other, equal in candidates:
            candidate = other(row)
            if candidate is None:
                unknown = True
            elif equal(found, candidate):
                return found_is
        return None if unknown else not found_is

    return evaluate


@builder("$SEARCH$1")
def _search(call: Call, operands: Sequence[Evaluate], scope: Scope) -> Evaluate:
    """Look for a value in points and ranges (Flink: SearchOperatorGen)."""
    value, sarg = operands[0], call.operands[1]
    assert isinstance(sarg, Sarg)
    kind = sarg.type
    if_null = {"TRUE": True, "FALSE": False}.get(sarg.null_as)
    points, tests = set(), []
    for each in sarg.ranges:
        lower, upper = plain_value(each.lower, kind), plain_value(each.upper, kind)
        if lower is not None and lower == upper:
            points.add(lower)
        else:
            tests.append(_range_test(lower, upper, each.lower_closed, each.upper_closed))
    if not tests:
        return lambda row: if_null if (found := value(row)) is None else found in points

    def evaluate(row: Row) -> bool | None:
        found = value(row)
        if found is None:
            return if_null
        return found in points or any(test(found) for test in tests)

    return evaluate


def _range_test(lower: Any, upper: Any, lower_closed: bool, upper_closed: bool) -> Callable[[Any], bool]:
    above = operator.ge if lower_closed else operator.gt
    below = operator.le if upper_closed else operator.lt
    if lower is None:
        return (lambda found: True) if upper is None else (lambda found: below(found, upper))
    if upper is None:
        return lambda found: above(found, lower)
    return lambda found: above(found, lower) and below(found, upper)
