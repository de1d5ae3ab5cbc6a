"""Rolling aggregations of one field: what ``sum``, ``min``, ``max``, ``min_by`` and ``max_by`` reduce with.

A position is the index of a field of a tuple, list, Row or dataclass, the name of a field of a Row or
dataclass, or 0 for a value that is itself the number. As in Flink, ``min`` and ``max`` keep the first element
and replace its field, ``min_by`` and ``max_by`` keep the whole element that holds the extreme, the first of
equals. Reduced values sit in state: an aggregation makes new ones and changes none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceproof.engine.functions import MapFunction, ReduceFunction
from onceproof.engine.graph import InvalidJob
from onceproof.engine.types import Row, TypeInformation, Types
from onceproof.engine.types.composite import TupleType
from onceproof.engine.types.dataclass import DataclassType
from onceproof.engine.types.field_access import Position, dataclass_fields, field_of, with_field
from onceproof.engine.types.row import RowType


class FieldAggregation(ReduceFunction):
    """Replaces a field of the reduced element by ``combine(its field, the new element's field)``."""

    def __init__(self, position: Position, combine: Callable[[Any, Any], Any]) -> None:
        self._position: Any = check_position(position)
        self._combine = combine

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The element as reduced so far, with its field brought up to date."""
        kind = type(value1)
        position = self._position
        if kind is tuple:
            fields = list(value1)
            fields[position] = self._combine(value1[position], value2[position])
            return tuple(fields)
        if kind is Row or kind is list or dataclass_fields(kind):
            combined = self._combine(field_of(value1, position), field_of(value2, position))
            return with_field(value1, position, combined)
        return self._combine(value1, value2)


class ExtremeElement(ReduceFunction):
    """Keeps the element whose field is the least, or the greatest."""

    def __init__(self, position: Position, *, greatest: bool) -> None:
        self._position: Any = check_position(position)
        self._greatest = greatest

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The new element only where its field is strictly beyond the old one's."""
        has_fields = isinstance(value1, tuple | list | Row) or bool(dataclass_fields(type(value1)))
        old = field_of(value1, self._position) if has_fields else value1
        new = field_of(value2, self._position) if has_fields else value2
        return value2 if (new > old if self._greatest else new < old) else value1


class Projection(MapFunction):
    """Keeps some fields of a tuple, in the order of their indexes here."""

    def __init__(self, field_indexes: tuple[int, ...]) -> None:
        self._indexes = field_indexes

    def map(self, value: Any) -> Any:
        """Return the fields."""
        return tuple([value[index] for index in self._indexes])


def projection(value_type: TypeInformation | None, field_indexes: tuple[int, ...]) -> TypeInformation:
    """Return the type of a tuple of these fields; raises InvalidJob, also for values that are no tuples."""
    if not isinstance(value_type, TupleType):
        known = "no declared type" if value_type is None else f"the type {value_type.name}"
        raise InvalidJob(
            f"project takes a stream of tuples, and this one has {known}: declare Types.TUPLE([...])"
        )
    size = len(value_type.fields)
    for index in field_indexes:
        if type(index) is not int or not 0 <= index < size:
            raise InvalidJob(f"project has no field {index!r}: the tuples have fields 0 to {size - 1}")
    if not field_indexes:
        raise InvalidJob("project keeps no field: give the index of at least one")
    return Types.TUPLE([value_type.fields[index] for index in field_indexes])


def add(left: Any, right: Any) -> Any:
    """Sum of two fields."""
    return left + right


def check_field(position: object, value_type: TypeInformation | None) -> None:
    """Raise InvalidJob where values of a declared type have no field at a position."""
    check_position(position)
    if not isinstance(value_type, DataclassType | RowType):
        return
    names = value_type.names or ()
    size = len(value_type.fields)
    if (type(position) is int and 0 <= position < size) or position in names:
        return
    known = f"its fields are {', '.join(names)}" if names else f"it has fields 0 to {size - 1}"
    raise InvalidJob(f"the type {value_type.name} has no field {position!r}: {known}")


def check_position(position: object) -> Position:
    """Returns the position if it is one."""
    if type(position) is int or type(position) is str:
        return position
    raise InvalidJob(
        f"an aggregation needs the index or the name of a field, not {position!r}: sum(1) for (word, count)"
    )
