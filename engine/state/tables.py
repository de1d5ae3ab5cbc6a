"""The tables in which a backend stores its states.

An *entry* is the scope of state: the key, or (key, namespace) if the state has namespaces (windows, timers).
States (``states.py``, ``ttl_states.py``) define what an access means, tables how it is stored. So every kind
of state is implemented once, and every backend implements three tables. Operators may use a table of values
directly, like a dict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from onceproof.engine.state.file_envelope import StateError


class NoScope:
    """A placeholder for a key or namespace that is not set; looking it up in a table raises StateError."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __repr__(self) -> str:
        return self._what

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        # A lookup in a dict hashes its key, so no access needs a check of its own.
        raise no_scope(self)


def no_scope(missing: NoScope) -> StateError:
    """Return the error that the key or the namespace is missing."""
    return StateError(f"keyed state was used where no record or timer is being processed: there is {missing}")


NO_KEY = NoScope("no current key")
"""The current key while no record is being processed."""

NO_NAMESPACE = NoScope("no current namespace")
"""The current namespace of a state that has namespaces, until one is set."""


class ValueTable(Protocol):
    """One value for each entry; a dict is a ValueTable."""

    def get(self, entry: Any, /) -> Any:
        """Return the value, or None."""
        ...

    def pop(self, entry: Any, default: Any, /) -> Any:
        """Remove the value and return it, or return the default."""
        ...

    def __getitem__(self, entry: Any, /) -> Any: ...

    def __setitem__(self, entry: Any, value: Any, /) -> None: ...

    def __contains__(self, entry: Any, /) -> bool: ...

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the entries; the table must not change meanwhile."""
        ...

    def __len__(self) -> int: ...


class ListTable(Protocol):
    """A list for each entry; an entry with an empty list does not exist."""

    def get(self, entry: Any) -> list[Any]:
        """Return a new list of the elements."""
        ...

    def append(self, entry: Any, element: Any) -> None:
        """Add an element."""
        ...

    def extend(self, entry: Any, elements: list[Any]) -> None:
        """Add elements."""
        ...

    def put(self, entry: Any, elements: list[Any]) -> None:
        """Replace all elements; the table owns the list from now on."""
        ...

    def clear(self, entry: Any) -> None:
        """Remove all elements."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the entries; the table must not change meanwhile."""
        ...


class MapTable(Protocol):
    """A map for each entry; an entry with an empty map does not exist."""

    def get(self, entry: Any, key: Any) -> Any:
        """Return the value of a key, or None."""
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
        """Remove a key; do nothing if it is not there."""
        ...

    def items(self, entry: Any) -> list[tuple[Any, Any]]:
        """Return all (key, value) pairs."""
        ...

    def is_empty(self, entry: Any) -> bool:
        """Return whether the entry has no pair."""
        ...

    def clear(self, entry: Any) -> None:
        """Remove all pairs."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the entries; the table must not change meanwhile."""
        ...
