"""The states as a user's function sees them, under PyFlink's names.

What a function gets from its runtime context is one of these, whatever the backend and with or without a
time to live. State is that of the current key (of the record or the timer in hand). What is empty reads as
None where it is one thing, and as nothing to iterate over where it is many: never as an error. What is
iterated over may be changed meanwhile: the iteration goes on over what was there when it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


class State:
    """Base of all states (PyFlink: State)."""

    __slots__ = ()

    def clear(self) -> None:
        """Remove what is kept for the current key."""
        raise NotImplementedError


class ValueState(State):
    """One value (PyFlink: ValueState)."""

    __slots__ = ()

    def value(self) -> Any:
        """Give the value, or None where there is none."""
        raise NotImplementedError

    def update(self, value: Any) -> None:
        """Set the value; None clears it."""
        raise NotImplementedError


class AppendingState(State):
    """What values are added to (PyFlink: AppendingState)."""

    __slots__ = ()

    def get(self) -> Any:
        """Give what came of the values that were added."""
        raise NotImplementedError

    def add(self, value: Any) -> None:
        """Add a value."""
        raise NotImplementedError


class MergingState(AppendingState):
    """An appending state of which two can become one, as merging windows need (PyFlink: MergingState)."""

    __slots__ = ()


class ListState(MergingState):
    """A list of elements, none of which is None (PyFlink: ListState)."""

    __slots__ = ()

    def get(self) -> list[Any]:
        """Give the elements as a list of the caller's own; [] where there are none."""
        raise NotImplementedError

    def add_all(self, values: Iterable[Any]) -> None:
        """Add elements, in order."""
        raise NotImplementedError

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements; by none, that clears the state."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())


class ReducingState(MergingState):
    """The values that were added, reduced to one; ``get`` of none is None (PyFlink: ReducingState)."""

    __slots__ = ()


class AggregatingState(MergingState):
    """The result of an accumulator; ``get`` of no accumulator is None (PyFlink: AggregatingState)."""

    __slots__ = ()


class ReadableMap(State):
    """What maps have in common that can be read."""

    __slots__ = ()

    def get(self, key: Any) -> Any:
        """Give the value of a key, or None."""
        raise NotImplementedError

    def contains(self, key: Any) -> bool:
        """Whether the map has the key."""
        raise NotImplementedError

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Give (key, value) pairs."""
        raise NotImplementedError

    def keys(self) -> Iterable[Any]:
        """Give the keys."""
        return [key for key, _ in self.items()]

    def values(self) -> Iterable[Any]:
        """Give the values."""
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        """Whether the map has no entry."""
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        return self.get(key)

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())


class WritableMap(ReadableMap):
    """What maps have in common that can be written."""

    __slots__ = ()

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key, which may be None."""
        raise NotImplementedError

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Set the values of several keys."""
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        """Remove a key; one that is not there is fine."""
        raise NotImplementedError

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        self.remove(key)


class MapState(WritableMap):
    """A map, kept entry by entry (PyFlink: MapState)."""

    __slots__ = ()


class ReadOnlyBroadcastState(ReadableMap):
    """A map that can be read (PyFlink: ReadOnlyBroadcastState)."""

    __slots__ = ()


class BroadcastState(ReadOnlyBroadcastState, WritableMap):
    """A map of which every subtask has the same copy (PyFlink: BroadcastState)."""

    __slots__ = ()
