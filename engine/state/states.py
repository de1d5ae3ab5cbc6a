"""Keyed state without a time to live: each kind of state over its table.

Each method builds the entry inline instead of calling a shared one: these calls happen for every record, and
one more call would cost a third of their time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from onceproof.engine.state.file_envelope import StateError
from onceproof.engine.state.interfaces import AggregatingState, ListState, MapState, ReducingState, ValueState
from onceproof.engine.state.opaque import Check
from onceproof.engine.state.tables import NO_KEY, NO_NAMESPACE, ListTable, MapTable, ValueTable, no_scope


class KeyContext(Protocol):
    """Where the operator puts the key of the record that it processes (Flink: InternalKeyContext)."""

    current_key: Any
    """The current key, or NO_KEY."""


class KeyedState(msgspec.Struct, eq=False):
    """Base of the keyed states: the context with the current key, a name, and perhaps a namespace."""

    _keys: KeyContext
    _name: str
    _namespaced: bool
    _table: Any
    _function: Any = None
    """The ReduceFunction or AggregateFunction, for the kinds that have one."""
    _namespace: Any = NO_NAMESPACE

    def use_table(self, table: Any) -> None:
        """Read and write another table of the same state."""
        self._table = table

    def set_current_namespace(self, namespace: Any) -> None:
        """Scope the following calls to a namespace.

        Raises StateError if the state was registered without a type of namespaces.
        """
        if not self._namespaced:
            raise StateError(f"state {self._name!r} has no namespaces: ask for it with their type")
        self._namespace = namespace

    def clear(self) -> None:
        """Remove the state of the current key."""
        self._table.clear(self._entry())

    def _entry(self) -> Any:
        key = self._keys.current_key
        # An empty dict does not hash the key to remove, so NO_KEY would not raise by itself.
        if key is NO_KEY or (self._namespaced and self._namespace is NO_NAMESPACE):
            raise no_scope(NO_KEY if key is NO_KEY else NO_NAMESPACE)
        return (key, self._namespace) if self._namespaced else key

    def _entries_of(self, namespaces: Iterable[Any]) -> list[Any]:
        key = self._keys.current_key
        return [(key, namespace) for namespace in namespaces]


class KeyedValueState(KeyedState, ValueState, eq=False):
    """One value for each entry."""

    _table: ValueTable

    def value(self) -> Any:
        """Return the value of the current key, or None if there is none."""
        entry = self._keys.current_key
        if self._namespaced:
            entry = (entry, self._namespace)
        return self._table.get(entry)

    def update(self, value: Any) -> None:
        """Set the value of the current key; None clears it."""
        if value is None:
            self.clear()
            return
        entry = self._keys.current_key
        if self._namespaced:
            entry = (entry, self._namespace)
        self._table[entry] = value

    def clear(self) -> None:
        """Remove the value of the current key."""
        self._table.pop(self._entry(), None)


class KeyedIntegerState(KeyedValueState, eq=False, kw_only=True):
    """A value of LONG, INT, SHORT or BYTE, without namespaces; refused beyond the limits of its type."""

    _check: Check
    _bits: int
    """How many bits a number within the limits has beside its sign."""

    def value(self) -> Any:
        """Return the value of the current key, or None if there is none."""
        return self._table.get(self._keys.current_key)

    def update(self, value: Any) -> None:
        """Set the value of the current key; None clears it.

        Raises StateError if the value is outside the type's limits. A shift costs less than two comparisons.
        """
        if value.__class__ is not int or value >> self._bits not in (0, -1):
            if value is None:
                self.clear()
                return
            self._check(value)
        self._table[self._keys.current_key] = value


class KeyedListState(KeyedState, ListState, eq=False):
    """A list for each entry."""

    _table: ListTable

    def get(self) -> list[Any]:
        entry = self._keys.current_key
        if self._namespaced:
            entry = (entry, self._namespace)
        return self._table.get(entry)

    def add(self, value: Any) -> None:
        if value is None:
            raise no_element(self._name)
        entry = self._keys.current_key
        if self._namespaced:
            entry = (entry, self._namespace)
        self._table.append(entry, value)

    def add_all(self, values: Iterable[Any]) -> None:
        self._table.extend(self._entry(), elements_of(values, self._name))

    def update(self, values: Iterable[Any]) -> None:
        self._table.put(self._entry(), elements_of(values, self._name))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Move the elements of the namespaces ``sources`` behind those of ``target``."""
        table = self._table
        (entry,) = self._entries_of((target,))
        for source in self._entries_of(sources):
            table.extend(entry, table.get(source))
            table.clear(source)


class KeyedMapState(KeyedState, MapState, eq=False):
    """A map for each entry."""

    _table: MapTable
    _admits_none: bool = False
    """Whether None may be a key."""

    def get(self, key: Any) -> Any:
        return self._table.get(self._entry(), key)

    def put(self, key: Any, value: Any) -> None:
        if key is None and not self._admits_none:
            raise no_map_key(self._name)
        self._table.put(self._entry(), key, value)

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        self._table.put_all(self._entry(), entries_of(dict_value, self._name, self._admits_none))

    def remove(self, key: Any) -> None:
        self._table.remove(self._entry(), key)

    def contains(self, key: Any) -> bool:
        return self._table.contains(self._entry(), key)

    def items(self) -> list[tuple[Any, Any]]:
        return self._table.items(self._entry())

    def is_empty(self) -> bool:
        return self._table.is_empty(self._entry())


class KeyedReducingState(KeyedState, ReducingState, eq=False):
    """The values of each entry reduced to one."""

    _table: ValueTable

    def get(self) -> Any:
        """Return the reduced value, or None."""
        entry = self._keys.current_key
        if self._namespaced:
            entry = (entry, self._namespace)
        return self._table.get(entry)

    def add(self, value: Any) -> None:
        """Reduce a value into the current one; None clears, as in Flink."""
        if value is None:
            self.clear()
            return
        entry = self._keys.current_key
        if self._namespaced:
            entry = (entry, self._namespace)
        table = self._table
        before = table.get(entry)
        table[entry] = value if before is None else self._function(before, value)

    def clear(self) -> None:
        """Remove the reduced value."""
        self._table.pop(self._entry(), None)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Reduce the values of the namespaces ``sources`` into that of ``target``."""
        merge_values(self._table, self._entries_of((target,))[0], self._entries_of(sources), self._function)


class KeyedAggregatingState(KeyedState, AggregatingState, eq=False):
    """An accumulator for each entry."""

    _table: ValueTable

    def get(self) -> Any:
        """Return the result of the accumulator, or None if there is none."""
        entry = self._keys.current_key
        if self._namespaced:
            entry = (entry, self._namespace)
        accumulator = self._table.get(entry)
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add a value to the accumulator; None clears, as in Flink."""
        if value is None:
            self.clear()
            return
        entry = self._keys.current_key
        if self._namespaced:
            entry = (entry, self._namespace)
        table, function = self._table, self._function
        accumulator = table.get(entry)
        if accumulator is None:
            accumulator = function.create_accumulator()
        table[entry] = function.add(value, accumulator)

    def clear(self) -> None:
        """Remove the accumulator."""
        self._table.pop(self._entry(), None)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the accumulators of the namespaces ``sources`` into that of ``target``."""
        merge = self._function.merge
        merge_values(self._table, self._entries_of((target,))[0], self._entries_of(sources), merge)


def merge_values(
    table: ValueTable, target: Any, sources: Iterable[Any], merge: Callable[[Any, Any], Any]
) -> None:
    """Merge the values of the entries ``sources`` into that of ``target``, in Flink's order."""
    merged = None
    for source in sources:
        value = table.pop(source, None)
        if value is not None:
            merged = value if merged is None else merge(merged, value)
    if merged is not None:
        before = table.get(target)
        table[target] = merged if before is None else merge(before, merged)


def elements_of(values: Iterable[Any], name: str) -> list[Any]:
    """Return the values as a list; raise StateError if one of them is None."""
    elements = list(values)
    for element in elements:
        if element is None:
            raise no_element(name)
    return elements


def entries_of(
    dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]], name: str, admits_none: bool
) -> Mapping[Any, Any]:
    """Return what a map state puts at once: a mapping, or (key, value) pairs as PyFlink's process mode takes.

    Raises StateError for anything else, and for None as a key unless ``admits_none``.
    """
    if isinstance(dict_value, Mapping):
        entries = dict_value
    else:
        try:
            entries = dict(dict_value)
        except (TypeError, ValueError) as error:
            raise StateError(
                f"map state {name!r}: put_all takes a dict or (key, value) pairs, not {dict_value!r}"
            ) from error
    if not admits_none and None in entries:
        raise no_map_key(name)
    return entries


def no_element(name: str) -> StateError:
    return StateError(f"list state {name!r}: None cannot be an element")


def no_map_key(name: str) -> StateError:
    return StateError(f"map state {name!r}: None cannot be a key of the type that the state declares")
