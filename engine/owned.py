"""Values of one's own: what a function has handed over does not change when the function goes on.

A function may emit its own list and then clear it, or put a dict into its state and change it afterwards. In
Flink a value passes through the whole chain, or is copied or serialized, before the function resumes.

Rules:

- ``own`` returns the value itself if nothing in it can change, otherwise a copy.
- How values of a class are copied is decided once for the class.
- An operator asks for each value where the function hands it over: behind the buffer it would be too late.
- Of a tuple that a function emits, the hash is asked for first: it fails for a tuple that holds a list, a
  dict, a set, a bytearray or an ordinary dataclass, at a fraction of the cost of looking at each item. A row
  leaves a note when it is hashed (``ROW_HASHED``). Another object with a hash counts as unchangeable within a
  tuple, as it does as the key of a dict. Where the declared type has nothing but scalars in its tuples, they
  are not looked at.
- An object that cannot be copied (it holds a lock, for instance) passes as it is.
- A trial watches what a function does with its own object afterwards (``ValueWatch``). The rows are right in
  any case, so what it finds is a note.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from copy import copy, deepcopy
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from operator import is_
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

from onceproof.engine.elements import Record
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.types.row import ROW_HASHED, Row, row_like

Own: TypeAlias = Callable[[Any], Any]

PLAIN: Final[frozenset[type]] = frozenset(
    (
        *(int, float, complex, bool, str, bytes, type(None), range, frozenset),
        *(date, datetime, time, timedelta, Decimal, Fraction, UUID, OutputTag),
    )
)
"""Classes whose values never change; a frozenset holds only what has a hash."""

HASHED: Final[frozenset[Any]] = frozenset()
"""Holds nothing: ``value in HASHED`` is False, and raises TypeError for a tuple with an item that can change.

It asks for the hash without the cost of a call. The hash itself is never used: it differs from process to
process.
"""

_NEVER_CHANGE: Final = (Enum, type, tzinfo, FunctionType, BuiltinFunctionType, ModuleType)
_HAS_ONLY_PLAIN: Final = PLAIN.issuperset


def own(value: Any) -> Any:
    """Return the value if nothing in it can change, otherwise a copy that shares what cannot change."""
    try:
        return _part(value)
    except RecursionError:
        # It holds itself, or is nested too deep: the general way remembers what it has met.
        return _deep(value)


def own_result(value: Any) -> Any:
    """Return a value that a function emits, or a copy if it can change."""
    if type(value) is tuple:
        ROW_HASHED.clear()
        try:
            if value not in HASHED and not ROW_HASHED:
                return value
        except TypeError:
            pass
    return own(value)


def own_records(records: list[Record]) -> list[Record]:
    """Return records with values of their own; the same list if none of them can change."""
    for value, _ in records:
        if type(value) not in PLAIN:
            try:
                if type(value) is not tuple or value in HASHED or ROW_HASHED:
                    break
            except TypeError:
                break
    else:
        return records
    return [(own_result(value), timestamp) for value, timestamp in records]


class Watched(Protocol):
    """What looks whether an object that it remembers has been modified."""

    def look(self) -> None:
        """Tell the watch of an object that was modified since the last look."""


class ValueWatch:
    """Finds values that functions modify after they have handed them over; trials have one for each run."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}
        self._watched: list[Watched] = []

    def own_for(self, operator: str) -> Own:
        """Return ``own_result`` for the values that an operator emits."""
        emitted = _Emitted(self, operator)
        self.add(emitted)
        return emitted.own

    def forget(self) -> None:
        """Forget what is watched: it belongs to an attempt that has ended, perhaps within a function."""
        self._watched.clear()

    def add(self, watched: Watched) -> None:
        """Look there at the end, too."""
        self._watched.append(watched)

    def note(self, sentence: str) -> None:
        """Note that a value was modified; each sentence counts once."""
        self._found[sentence] = None

    def findings(self) -> list[str]:
        """Return a sentence for each operator that has modified what it had handed over, and forget them."""
        for watched in self._watched:
            watched.look()
        # They know the watch, and would stay for the garbage collector.
        self.forget()
        return sorted(self._found)


class _Emitted:
    """The object that an operator emitted last, and a copy of what it was then."""

    def __init__(self, watch: ValueWatch, operator: str) -> None:
        self._watch = watch
        self._operator = operator
        self._object: Any = None
        self._was: Any = None

    def own(self, value: Any) -> Any:
        """Return the value, or a copy if it can change."""
        self.look()
        taken = own_result(value)
        # What does not even equal its copy now tells nothing later.
        if taken is not value and taken == value:
            self._object, self._was = value, own(value)
        return taken

    def look(self) -> None:
        """Note it if the object was modified."""
        if self._object != self._was:
            kind = type(self._object).__name__
            self._watch.note(f"operator {self._operator!r} modified a {kind} after emitting it")
            self._object = self._was = None


def _copier_of(kind: type) -> Own:
    if kind in PLAIN or issubclass(kind, _NEVER_CHANGE):
        return _same
    if issubclass(kind, tuple):
        made: Any = getattr(kind, "_make", None)
        if kind is tuple or made is not None:
            return partial(_tuple, tuple if made is None else made)
    if dataclasses.is_dataclass(kind):
        parameters: Any = getattr(kind, "__dataclass_params__", None)
        names = tuple([field.name for field in dataclasses.fields(kind)])
        return partial(_frozen if parameters.frozen else _changeable, names)
    return _deep


def _part(value: Any) -> Any:
    kind = type(value)
    copier = _COPIERS.get(kind)
    if copier is None:
        copier = _COPIERS[kind] = _copier_of(kind)
    return copier(value)


def _same(value: Any) -> Any:
    return value


def _list(value: list[Any]) -> list[Any]:
    return value.copy() if _HAS_ONLY_PLAIN(map(type, value)) else [_part(item) for item in value]


def _dict(value: dict[Any, Any]) -> dict[Any, Any]:
    if _HAS_ONLY_PLAIN(map(type, value.values())):
        return value.copy()
    return {key: _part(item) for key, item in value.items()}


def _tuple(make: Callable[[list[Any]], Any], value: tuple[Any, ...]) -> Any:
    items = [_part(item) for item in value]
    return value if _are_same(items, value) else make(items)


def _row(value: Row) -> Row:
    return row_like(value, [_part(item) for item in value])


def _frozen(names: tuple[str, ...], value: Any) -> Any:
    items = [getattr(value, name) for name in names]
    owned = [_part(item) for item in items]
    return value if _are_same(owned, items) else _with_fields(names, value, owned)


def _changeable(names: tuple[str, ...], value: Any) -> Any:
    return _with_fields(names, value, [_part(getattr(value, name)) for name in names])


def _with_fields(names: tuple[str, ...], value: Any, items: list[Any]) -> Any:
    made = copy(value)
    for name, item in zip(names, items, strict=True):
        object.__setattr__(made, name, item)
    return made


def _are_same(items: list[Any], others: Any) -> bool:
    return all(map(is_, items, others))


def _deep(value: Any) -> Any:
    try:
        return deepcopy(value)
    except Exception:
        # No other process could get the value, either: pickle asks the same methods.
        return value


_COPIERS: Final[dict[type, Own]] = {
    list: _list,
    dict: _dict,
    set: set.copy,
    bytearray: bytearray.copy,
    Row: _row,
}
"""The function that copies values of a class, once one has been met."""
