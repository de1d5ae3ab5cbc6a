"""The state interfaces of user functions, under PyFlink's names.

The rules that hold for every backend, with or without a time to live:

- Keyed state is that of the current key: the key of the record or timer being processed.
- An empty ValueState, ReducingState or AggregatingState reads as None, an empty ListState or MapState as an
  empty iterable; reading never fails.
- A state may be changed while the function iterates over it: the iteration continues over the old content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from onceproof.engine.type_parameters import TypeParameters


class State(TypeParameters):
    """Base of all states (PyFlink: State)."""

    __slots__ = ()

    def clear(self) -> None:
        """Remove the state of the current key."""
        raise NotImplementedError


class ValueState(State):
    """One value for each key (PyFlink: ValueState)."""

    __slots__ = ()

    def value(self) -> Any:
        """Return the value, or None if there is none."""
        raise NotImplementedError

    def update(self, value: Any) -> None:
        """Set the value; None clears it."""
        raise NotImplementedError


class AppendingState(State):
    """A state to which values are added (PyFlink: AppendingState)."""

    __slots__ = ()

    def get(self) -> Any:
        """Return the list, the reduced value or the result of the values that were added."""
        raise NotImplementedError

    def add(self, value: Any) -> None:
        """Add a value; a list refuses None, the other states are cleared by None."""
        raise NotImplementedError


class MergingState(AppendingState):
    """An appending state that merging windows can merge (PyFlink: MergingState)."""

    __slots__ = ()


class ListState(MergingState):
    """A list of elements for each key, none of which is None (PyFlink: ListState)."""

    __slots__ = ()

    def get(self) -> list[Any]:
        """Return a new list of the elements; [] if there are none."""
        raise NotImplementedError

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements in order."""
        raise NotImplementedError

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements; an empty iterable clears the state."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())


class ReducingState(MergingState):
    """The added values, reduced to one; ``get`` returns None if there is none (PyFlink: ReducingState)."""

    __slots__ = ()


class AggregatingState(MergingState):
    """The result of an accumulator; ``get`` returns None if there is none (PyFlink: AggregatingState)."""

    __slots__ = ()


class ReadableMap(State):
    """Base of all maps: the methods that read."""

    __slots__ = ()

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        raise NotImplementedError

    def contains(self, key: Any) -> bool:
        """Return whether the map has the key."""
        raise NotImplementedError

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Return the (key, value) pairs."""
        raise NotImplementedError

    def keys(self) -> Iterable[Any]:
        """Return the keys."""
        return [key for key, _ in self.items()]

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        """Return whether the map has no entry."""
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        return self.get(key)

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())


class WritableMap(ReadableMap):
    """Base of the maps that a function may change."""

    __slots__ = ()

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key, which may be None."""
        raise NotImplementedError

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Set the values of several keys: of a dict, or of (key, value) pairs."""
        for key, value in dict(dict_value).items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        """Remove a key; do nothing if it is not there."""
        raise NotImplementedError

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        self.remove(key)


class MapState(WritableMap):
    """A map for each key, stored entry by entry (PyFlink: MapState)."""

    __slots__ = ()


class ReadOnlyBroadcastState(ReadableMap):
    """A broadcast state on the side that may only read it (PyFlink: ReadOnlyBroadcastState)."""

    __slots__ = ()


class BroadcastState(ReadOnlyBroadcastState, WritableMap):
    """A map of which every subtask has an equal copy (PyFlink: BroadcastState)."""

    __slots__ = ()
