"""What a backend keeps one state in: tables from entry to what is held for it.

An *entry* is what state is scoped to: the key, or the pair of key and namespace where the state has
namespaces (windows, timers). States (``states.py``, ``ttl_states.py``) say what an access means, tables how
it is stored; so every kind of state exists once, and every backend has three tables. A table of values is
enough of a mapping for an operator to work on it directly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from onceproof.engine.state.files import StateError


class NoScope:
    """Stands for a key or a namespace while there is none: using it as one raises StateError."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __repr__(self) -> str:
        return self._what

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        # Raised by whatever looks a table up, so that no access has to ask first.
        raise no_scope(self)


def no_scope(missing: NoScope) -> StateError:
    """Say that there is nothing to scope state to."""
    return StateError(f"keyed state was used where no record or timer is being processed: there is {missing}")


NO_KEY = NoScope("no current key")
"""The current key while no record is being processed."""

NO_NAMESPACE = NoScope("no current namespace")
"""The current namespace of a state that has namespaces, until one is set."""


class ValueTable(Protocol):
    """One value for each entry; a dict is one."""

    def get(self, entry: Any, /) -> Any:
        """Give the value, or None."""
        ...

    def pop(self, entry: Any, default: Any, /) -> Any:
        """Remove the value; give it, or the default."""
        ...

    def __getitem__(self, entry: Any, /) -> Any: ...

    def __setitem__(self, entry: Any, value: Any, /) -> None: ...

    def __contains__(self, entry: Any, /) -> bool: ...

    def __iter__(self) -> Iterator[Any]:
        """Go through the entries; the table must not be changed meanwhile."""
        ...

    def __len__(self) -> int: ...


class ListTable(Protocol):
    """A list for each entry; an empty one is none."""

    def get(self, entry: Any) -> list[Any]:
        """Give the elements as a list of the caller's own."""
        ...

    def append(self, entry: Any, element: Any) -> None:
        """Add an element."""
        ...

    def extend(self, entry: Any, elements: list[Any]) -> None:
        """Add elements."""
        ...

    def put(self, entry: Any, elements: list[Any]) -> None:
        """Replace all elements; the list is the table's from now on."""
        ...

    def clear(self, entry: Any) -> None:
        """Remove all elements."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Go through the entries; the table must not be changed meanwhile."""
        ...


class MapTable(Protocol):
    """A map for each entry; an empty one is none."""

    def get(self, entry: Any, key: Any) -> Any:
        """Give the value of a key, or None."""
        ...

    def contains(self, entry: Any, key: Any) -> bool:
        """Whether the map has the key."""
        ...

    def put(self, entry: Any, key: Any, value: Any) -> None:
        """Set the value of a key."""
        ...

    def put_all(self, entry: Any, values: Mapping[Any, Any]) -> None:
        """Set the values of several keys."""
        ...

    def remove(self, entry: Any, key: Any) -> None:
        """Remove a key; one that is not there is fine."""
        ...

    def items(self, entry: Any) -> list[tuple[Any, Any]]:
        """Give all (key, value) pairs."""
        ...

    def is_empty(self, entry: Any) -> bool:
        """Whether there is no pair."""
        ...

    def clear(self, entry: Any) -> None:
        """Remove all pairs."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Go through the entries; the table must not be changed meanwhile."""
        ...
