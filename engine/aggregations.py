"""Rolling aggregations of one field: what ``sum``, ``min``, ``max``, ``min_by`` and ``max_by`` reduce with.

A position is an index into a tuple or list, a field's name in a Row, or 0 for a value that is itself the
number. As in Flink, ``min`` and ``max`` keep the first element and replace its field, ``min_by`` and
``max_by`` keep the whole element that holds the extreme, the first of equals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.functions import ReduceFunction
from engine.graph import InvalidJob

Position = int | str


def _read(value: Any, position: Position) -> Any:
    if isinstance(value, str | bytes | int | float) or not hasattr(value, "__getitem__"):
        return value
    return value[position]


def _replace(value: Any, position: Position, field: Any) -> Any:
    """A copy of ``value`` with another field: reduced values sit in state and are never changed in place."""
    if type(value) is tuple:
        assert type(position) is int
        index = position if position >= 0 else len(value) + position
        return (*value[:index], field, *value[index + 1 :])
    if isinstance(value, str | bytes | int | float) or not hasattr(value, "__setitem__"):
        return field
    replaced = value[:] if type(value) is list else value.__copy__()
    replaced[position] = field
    return replaced


class FieldAggregation(ReduceFunction):
    """Replaces a field of the reduced element by ``combine(its field, the new element's field)``."""

    def __init__(self, position: Position, combine: Callable[[Any, Any], Any]) -> None:
        self._position = check_position(position)
        self._combine = combine

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The element as reduced so far, with its field brought up to date."""
        position = self._position
        combined = self._combine(_read(value1, position), _read(value2, position))
        return _replace(value1, position, combined)


class ExtremeElement(ReduceFunction):
    """Keeps the element whose field is the least, or the greatest."""

    def __init__(self, position: Position, *, greatest: bool) -> None:
        self._position = check_position(position)
        self._greatest = greatest

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The new element only where its field is strictly beyond the old one's."""
        old = _read(value1, self._position)
        new = _read(value2, self._position)
        return value2 if (new > old if self._greatest else new < old) else value1


def add(left: Any, right: Any) -> Any:
    """Sum of two fields."""
    return left + right


def check_position(position: object) -> Position:
    """Returns the position if it is one."""
    if type(position) is int or type(position) is str:
        return position
    raise InvalidJob(
        f"an aggregation needs a field's index or name, not {position!r}: sum(1) for (word, count), say"
    )
