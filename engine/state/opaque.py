"""Refuses values where they are written to state, instead of at the next checkpoint.

Opaque objects are refused in jobs without ``pipeline.allow-pickled-state``, and integers beyond their type.

State of type PICKLED_BYTE_ARRAY takes any object. Plain values are stored in a form of their own, and opaque
objects as pickles, which a restore may read only with permission. A job without it would complete its
checkpoints, and its first failure would end it. So each value is looked at when it is written. Values of
other types are not: their type admits no opaque object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from onceproof.engine.state.file_envelope import StateError
from onceproof.engine.types import NotDescribable, TypeInformation, WrongValue

Check: TypeAlias = Callable[[Any], None]


def limit_check(what: str, operator: str, unit: TypeInformation) -> Check:
    """Return a function that raises StateError for a value that is not of a type of integers."""
    subject = f"operator {operator!r}, {what}" if operator else what

    def check(value: Any) -> None:
        try:
            unit.prepare((value,))
        except WrongValue as error:
            raise StateError(f"{subject}: {error}") from error

    return check


def opaque_check(what: str, operator: str, unit: TypeInformation) -> Check:
    """Return a function that raises StateError for an opaque value.

    Args:
        what: names the state.
        operator: the name of the operator, "" where it is not known.
        unit: the type of a value.
    """
    subject = f"operator {operator!r}, {what}" if operator else what

    def check(value: Any) -> None:
        try:
            pack = unit.prepare((value,))
            if pack is not None:
                pack(value)
        except NotDescribable as error:
            raise StateError(f"{subject}: {error}") from error

    return check


class CheckedTable:
    """A table whose values, or values and keys of maps, are checked when they are written."""

    __slots__ = ("_check", "_check_key", "_table")

    def __init__(self, table: Any, check: Check, check_key: Check | None) -> None:
        self._table = table
        self._check = check
        self._check_key = check_key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def __getitem__(self, entry: Any) -> Any:
        return self._table[entry]

    def __setitem__(self, entry: Any, value: Any) -> None:
        self._check(value)
        self._table[entry] = value

    def __contains__(self, entry: Any) -> bool:
        return entry in self._table

    def __iter__(self) -> Iterator[Any]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def append(self, entry: Any, element: Any) -> None:
        """Add an element to a list."""
        self._check(element)
        self._table.append(entry, element)

    def extend(self, entry: Any, elements: list[Any]) -> None:
        """Add elements to a list."""
        for element in elements:
            self._check(element)
        self._table.extend(entry, elements)

    def put(self, entry: Any, *held: Any) -> None:
        """Replace the elements of a list, or set the value of a map's key."""
        if self._check_key is None:
            for element in held[0]:
                self._check(element)
        else:
            self._check_key(held[0])
            self._check(held[1])
        self._table.put(entry, *held)

    def put_all(self, entry: Any, values: Mapping[Any, Any]) -> None:
        """Set the values of several keys of a map."""
        for key, value in values.items():
            if self._check_key is not None:
                self._check_key(key)
            self._check(value)
        self._table.put_all(entry, values)
