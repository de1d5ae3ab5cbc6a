"""Rolling aggregations of one field: what ``sum``, ``min``, ``max``, ``min_by`` and ``max_by`` reduce with.

A position is an index into a tuple or list, or 0 for a value that is itself the number. As in Flink, ``min``
and ``max`` keep the first element and replace its field, ``min_by`` and ``max_by`` keep the whole element
that holds the extreme, the first of equals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.functions import ReduceFunction
from engine.graph import InvalidJob


class FieldAggregation(ReduceFunction):
    """Replaces a field of the reduced element by ``combine(its field, the new element's field)``."""

    def __init__(self, position: int, combine: Callable[[Any, Any], Any]) -> None:
        self._position = check_position(position)
        self._combine = combine

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The element as reduced so far, with its field brought up to date; a new object, as state needs."""
        kind = type(value1)
        if kind is not tuple and kind is not list:
            return self._combine(value1, value2)
        position = self._position
        fields = list(value1)
        fields[position] = self._combine(value1[position], value2[position])
        return kind(fields)


class ExtremeElement(ReduceFunction):
    """Keeps the element whose field is the least, or the greatest."""

    def __init__(self, position: int, *, greatest: bool) -> None:
        self._position = check_position(position)
        self._greatest = greatest

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The new element only where its field is strictly beyond the old one's."""
        is_row = isinstance(value1, tuple | list)
        old = value1[self._position] if is_row else value1
        new = value2[self._position] if is_row else value2
        return value2 if (new > old if self._greatest else new < old) else value1


def add(left: Any, right: Any) -> Any:
    """Sum of two fields."""
    return left + right


def check_position(position: object) -> int:
    """Returns the position if it is one."""
    if type(position) is int:
        return position
    raise InvalidJob(f"an aggregation needs the index of a field, not {position!r}: sum(1) for (word, count)")
