"""Keyed state with a time to live: each kind of state over its table.

The rules this module lives by:

- The unit of expiry is a value, an element of a list, an entry of a map or an accumulator. A table holds it
  as ``(value, timestamp)`` with the time of its last access in milliseconds.
- The order of checking, clearing, returning and refreshing is that of Flink's Ttl*State classes.
- As there, a list is cleared only when all its elements have expired, and a map with only expired entries is
  not empty until an access checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from onceproof.engine.state.interfaces import AggregatingState, ListState, MapState, ReducingState, ValueState
from onceproof.engine.state.occurrences import Occurrence
from onceproof.engine.state.opaque import Check
from onceproof.engine.state.states import (
    KeyedState,
    elements_of,
    entries_of,
    merge_values,
    no_element,
    no_map_key,
)
from onceproof.engine.state.ttl import StateTtlConfig

Held: TypeAlias = tuple[Any, int]
"""A value and the time of its last access in milliseconds."""


class Lifetime(msgspec.Struct, eq=False):
    """A StateTtlConfig in the form that every access needs, with its clock."""

    ttl_ms: int
    refreshes_on_read: bool
    returns_expired: bool
    now: Callable[[], int]
    accessed: Callable[[], None] | None = None
    """Called by every access, if the cleanup strategy needs it."""
    expiry: Occurrence = msgspec.field(default_factory=Occurrence)
    """Whether any value was found expired."""

    def has_expired(self, held: Held) -> bool:
        """Whether the time to live is over."""
        if held[1] + self.ttl_ms > self.now():
            return False
        self.expiry.happened = True
        return True

    def unexpired(self, held: Held | None) -> Any:
        """Return the value, or None if there is none or the configuration hides it as expired."""
        if held is None or (not self.returns_expired and self.has_expired(held)):
            return None
        return held[0]


def lifetime_of(config: StateTtlConfig, clock: Callable[[], int]) -> Lifetime:
    """Return the lifetime for a configuration."""
    return Lifetime(
        config.ttl_ms,
        config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite,
        config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp,
        clock,
    )


class TtlState(KeyedState, eq=False, kw_only=True):
    """Base of the keyed states with a time to live."""

    _life: Lifetime

    def _accessed_entry(self) -> Any:
        if self._life.accessed is not None:
            self._life.accessed()
        return self._entry()

    def drop_expired(self, entry: Any) -> None:
        """Remove the expired parts of an entry; the background cleanup calls this."""
        raise NotImplementedError


class TtlSingleValueState(TtlState, eq=False):
    """Base of the kinds that hold one value for each entry."""

    def clear(self) -> None:
        """Remove the value of the current key."""
        self._table.pop(self._entry(), None)

    def drop_expired(self, entry: Any) -> None:
        """Clear the value of an entry if it has expired."""
        held = self._table.get(entry)
        if held is not None and self._life.has_expired(held):
            self._table.pop(entry, None)

    def _read(self) -> Any:
        entry = self._accessed_entry()
        table, life = self._table, self._life
        held = table.get(entry)
        if held is None:
            return None
        if life.has_expired(held):
            table.pop(entry, None)
            return held[0] if life.returns_expired else None
        if life.refreshes_on_read:
            table[entry] = (held[0], life.now())
        return held[0]

    def _write(self, value: Any) -> None:
        self._table[self._accessed_entry()] = (value, self._life.now())

    def _merge(self, merge: Callable[[Any, Any], Any], target: Any, sources: Iterable[Any]) -> None:
        life = self._life

        def merge_unexpired(one: Held, other: Held) -> Held:
            first, second = life.unexpired(one), life.unexpired(other)
            if first is not None and second is not None:
                return merge(first, second), life.now()
            return (second if first is None else first), life.now()

        entries = self._entries_of(sources)
        merge_values(self._table, self._entries_of((target,))[0], entries, merge_unexpired)


class TtlValueState(TtlSingleValueState, ValueState, eq=False):
    """A value that expires (Flink: TtlValueState)."""

    def value(self) -> Any:
        """Return the value, or None if there is none or it has expired."""
        return self._read()

    def update(self, value: Any) -> None:
        """Set the value and restart its time to live; None clears."""
        if value is None:
            self.clear()
        else:
            self._write(value)


class TtlIntegerState(TtlValueState, eq=False, kw_only=True):
    """A value of LONG, INT, SHORT or BYTE that expires; one beyond the limits is refused when written."""

    _check: Check

    def update(self, value: Any) -> None:
        """Set the value and restart its time to live; None clears. Raises StateError outside the limits."""
        if value is not None:
            self._check(value)
        super().update(value)


class TtlReducingState(TtlSingleValueState, ReducingState, eq=False):
    """A reduced value that expires as a whole; each addition restarts its time to live."""

    def get(self) -> Any:
        """Return the reduced value, or None if there is none or it has expired."""
        return self._read()

    def add(self, value: Any) -> None:
        """Reduce a value into the current one, unless that has expired; None clears."""
        if value is None:
            self.clear()
            return
        before = self._life.unexpired(self._table.get(self._entry()))
        self._write(value if before is None else self._function(before, value))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Reduce the values of the namespaces ``sources`` into that of ``target``."""
        self._merge(self._function, target, sources)


class TtlAggregatingState(TtlSingleValueState, AggregatingState, eq=False):
    """An accumulator that expires as a whole; each addition restarts its time to live."""

    def get(self) -> Any:
        """Return the result, or None if there is no accumulator or it has expired."""
        accumulator = self._read()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add a value to the accumulator, or to a new one if that has expired; None clears."""
        if value is None:
            self.clear()
            return
        accumulator = self._life.unexpired(self._table.get(self._entry()))
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._write(self._function.add(value, accumulator))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the accumulators of the namespaces ``sources`` into that of ``target``."""
        self._merge(self._function.merge, target, sources)


class TtlListState(TtlState, ListState, eq=False):
    """A list of elements that expire one by one."""

    def get(self) -> list[Any]:
        """Return the elements that have not expired (or are still visible)."""
        entry = self._accessed_entry()
        table, life = self._table, self._life
        held = table.get(entry)
        living = [element for element in held if not life.has_expired(element)]
        if not living:
            table.clear(entry)
        elif life.refreshes_on_read:
            now = life.now()
            table.put(entry, [(element, now) for element, _ in living])
        return [element for element, _ in (held if life.returns_expired else living)]

    def add(self, value: Any) -> None:
        if value is None:
            raise no_element(self._name)
        self._table.append(self._accessed_entry(), (value, self._life.now()))

    def add_all(self, values: Iterable[Any]) -> None:
        self._table.extend(self._accessed_entry(), self._held(values))

    def update(self, values: Iterable[Any]) -> None:
        self._table.put(self._accessed_entry(), self._held(values))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Move the elements of the namespaces ``sources`` behind those of ``target``, with their times."""
        table = self._table
        (entry,) = self._entries_of((target,))
        for source in self._entries_of(sources):
            table.extend(entry, table.get(source))
            table.clear(source)

    def drop_expired(self, entry: Any) -> None:
        """Drop the elements of an entry that have expired."""
        held = self._table.get(entry)
        living = [element for element in held if not self._life.has_expired(element)]
        if len(living) < len(held):
            self._table.put(entry, living)

    def _held(self, values: Iterable[Any]) -> list[Held]:
        now = self._life.now()
        return [(element, now) for element in elements_of(values, self._name)]


class TtlMapState(TtlState, MapState, eq=False):
    """A map of entries that expire one by one."""

    _admits_none: bool = False
    """Whether None may be a key."""

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None if there is none or it has expired."""
        held = self._look_up(self._accessed_entry(), key)
        return None if held is None else held[0]

    def contains(self, key: Any) -> bool:
        """Return whether the map has the key and its value is visible."""
        return self._look_up(self._accessed_entry(), key) is not None

    def put(self, key: Any, value: Any) -> None:
        if key is None and not self._admits_none:
            raise no_map_key(self._name)
        self._table.put(self._accessed_entry(), key, (value, self._life.now()))

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        entries = entries_of(dict_value, self._name, self._admits_none)
        now = self._life.now()
        held = {key: (value, now) for key, value in entries.items()}
        self._table.put_all(self._accessed_entry(), held)

    def remove(self, key: Any) -> None:
        self._table.remove(self._accessed_entry(), key)

    def items(self) -> list[tuple[Any, Any]]:
        """Return the visible (key, value) pairs."""
        entry = self._accessed_entry()
        found = [(key, self._check(entry, key, held)) for key, held in self._table.items(entry)]
        return [(key, held[0]) for key, held in found if held is not None]

    def is_empty(self) -> bool:
        """Return whether the map holds no entry, not even an expired one that no access has cleared yet."""
        return bool(self._table.is_empty(self._accessed_entry()))

    def drop_expired(self, entry: Any) -> None:
        """Drop the keys of an entry that have expired."""
        for key, held in self._table.items(entry):
            if self._life.has_expired(held):
                self._table.remove(entry, key)

    def _look_up(self, entry: Any, key: Any) -> Held | None:
        return self._check(entry, key, self._table.get(entry, key))

    def _check(self, entry: Any, key: Any, held: Held | None) -> Held | None:
        life = self._life
        if held is None:
            return None
        if life.has_expired(held):
            self._table.remove(entry, key)
            return held if life.returns_expired else None
        if life.refreshes_on_read:
            self._table.put(entry, key, (held[0], life.now()))
        return held


class Cleanup:
    """Incremental cleanup of a state: every ``every`` accesses it checks the next ``count`` entries.

    ``next_entries(count)`` returns the next entries in turn; ``drop(entry)`` removes what has expired.
    """

    __slots__ = ("_accesses", "_count", "_drop", "_every", "_next_entries")

    def __init__(
        self,
        next_entries: Callable[[int], Iterable[Any]],
        drop: Callable[[Any], None],
        count: int,
        every: int = 1,
    ) -> None:
        self._next_entries = next_entries
        self._drop = drop
        self._count = count
        self._every = every
        self._accesses = 0

    def access(self) -> None:
        """Count an access or a record, and check entries when it is time."""
        self._accesses += 1
        if self._accesses >= self._every:
            self._accesses = 0
            for entry in self._next_entries(self._count):
                self._drop(entry)
