"""How values compare, and which are distinct.

Flink has two orders of floats, and both occur:

- Generated code (``=``, ``<``, sort keys, MIN and MAX without retraction) compares as Java's operators do:
  NaN is neither less than, equal to nor greater than anything. That is what Python's operators do.
- What compares boxed values (MIN and MAX with retraction) takes ``Double.compareTo``: NaN is the greatest
  value and equals itself, and -0.0 is less than 0.0. ``order_key`` gives a key with that order.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.types import FLOATS, LogicalType

Equal = Callable[[Any, Any], "bool | None"]


def order_key(kind: LogicalType) -> Callable[[Any], Any] | None:
    """Return the key by which values of a type, never NULL, are ordered as boxed values of Java are.

    Returns:
        None where the values order themselves.
    """
    return float_order if kind.root in FLOATS else None


def float_order(value: float) -> tuple[bool, float, float]:
    """Return a key that orders floats as ``Double.compareTo``: -0.0 before 0.0, NaN last."""
    return (True, 0.0, 0.0) if value != value else (False, value, math.copysign(1.0, value))


def equality(left: LogicalType, right: LogicalType) -> Equal:
    """Return ``=`` of two types for values that are not NULL (Flink: ScalarOperatorGens.generateEquals).

    Inside arrays, maps and rows NULL equals NULL in arrays and maps only.
    """
    match left.root:
        case "ARRAY":
            return _array_equality(left, right)
        case "MAP" | "MULTISET":
            return _map_equality(left, right)
        case "ROW" | "STRUCTURED":
            return _row_equality(left, right)
        case "RAW" | "VARIANT":
            raise UnsupportedPlan(f"a comparison of {left.root}")
    return operator.eq


def distinctness(left: LogicalType, right: LogicalType) -> Callable[[Any, Any], bool]:
    """Return IS DISTINCT FROM: NULL is a value like others."""
    equal = equality(left, right)

    def distinct(first: Any, second: Any) -> bool:
        if first is None or second is None:
            return first is not second
        return not equal(first, second)

    return distinct


def _same(equal: Equal) -> Equal:
    def same(first: Any, second: Any) -> bool | None:
        if first is None or second is None:
            return first is second
        return equal(first, second)

    return same


def _array_equality(left: LogicalType, right: LogicalType) -> Equal:
    same = _same(equality(left.element, right.element))
    return lambda first, second: len(first) == len(second) and all(map(same, first, second))


def _map_equality(left: LogicalType, right: LogicalType) -> Equal:
    if left.root == "MULTISET":
        same: Equal = operator.eq
    else:
        same = _same(equality(left.arguments[1], right.arguments[1]))

    def equal(first: Any, second: Any) -> bool:
        others = dict(second)
        return len(first) == len(others) and all(
            key in others and same(value, others[key]) for key, value in first
        )

    return equal


def _row_equality(left: LogicalType, right: LogicalType) -> Equal:
    fields = [equality(*pair) for pair in zip(left.types, right.types, strict=True)]

    def equal(first: Any, second: Any) -> bool:
        return all(
            one is not None and other is not None and same(one, other)
            for same, one, other in zip(fields, first, second, strict=True)
        )

    return equal
