"""Fields of values by index or name: of tuples, lists, rows, dicts and dataclasses.

An index of a dataclass counts its fields in their order, as an index of a Row does (Flink: field expressions
of POJOs). What replaces a field makes a copy without calling the class.
"""

from __future__ import annotations

import dataclasses
from copy import copy
from typing import Any, TypeAlias

from onceproof.engine.errors import UnrecoverableError

Position: TypeAlias = int | str


class NoSuchField(UnrecoverableError):
    """A value lacks the field that the job names."""


def dataclass_fields(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass; none for any other class."""
    declared: dict[str, Any] | None = getattr(kind, "__dataclass_fields__", None)
    return () if declared is None else tuple([field.name for field in dataclasses.fields(kind)])


def field_name(kind: type, names: tuple[str, ...], position: Position) -> str:
    """Return the name of a field of a dataclass. Raises NoSuchField."""
    if type(position) is str and position in names:
        return position
    if type(position) is int and 0 <= position < len(names):
        return names[position]
    raise NoSuchField(f"{kind.__name__} has no field {position!r}: its fields are {', '.join(names)}")


def field_of(value: Any, position: Any) -> Any:
    """Return a field of a value. Raises NoSuchField for a dataclass that lacks it."""
    kind = type(value)
    names = dataclass_fields(kind)
    return getattr(value, field_name(kind, names, position)) if names else value[position]


def with_field(value: Any, position: Any, field: Any) -> Any:
    """Return a copy of a value of any of these kinds but a tuple with another field. Raises NoSuchField."""
    changed = copy(value)
    kind = type(value)
    names = dataclass_fields(kind)
    if names:
        # Frozen ones as well: no other code has seen the copy.
        object.__setattr__(changed, field_name(kind, names, position), field)
    else:
        changed[position] = field
    return changed


class FieldSelector:
    """Selects a field of each value, as a key."""

    __slots__ = ("_position",)

    def __init__(self, position: Position) -> None:
        self._position = position

    def __call__(self, value: Any) -> Any:
        """Return the field of a value."""
        return field_of(value, self._position)
