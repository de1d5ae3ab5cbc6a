"""The backend ``hashmap``: state as Python objects on the heap, one flat dict for each state.

The rules this module lives by:

- A table has no key groups in memory: a snapshot is grouped when it is encoded, and a restore decodes the
  groups of its range when the job registers the state.
- A snapshot is isolated from later changes with few copies. Of a dict of values, only values of a mutable
  type are copied. Lists and maps change through their tables only, so the snapshot shares each of them until
  its first change (copy on write).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from onceproof.engine.state.descriptors import LIST, MAP
from onceproof.engine.state.file_envelope import StateError
from onceproof.engine.state.key_blocks import KeyGroupCache
from onceproof.engine.state.keyed import KeyedStateBackend, Registered
from onceproof.engine.state.restoring import check_stored, decode_blocks, identities_of
from onceproof.engine.state.snapshot import KeyedSnapshot, TableSnapshot, wrong_entry
from onceproof.engine.state.stored import EncodedTable, NativePart
from onceproof.engine.state.ttl import DEFAULT_COMPACTION_ENTRIES
from onceproof.engine.state.ttl_states import Cleanup, TtlState
from onceproof.engine.types import TypeInformation


class HeapLists:
    """A list for each entry, shared with a snapshot until it changes."""

    __slots__ = ("_own", "entries")

    def __init__(self, entries: dict[Any, list[Any]]) -> None:
        self.entries = entries
        self._own: set[Any] | None = None
        """The entries whose list no snapshot shares; None: no snapshot shares any list."""

    def get(self, entry: Any) -> list[Any]:
        elements = self.entries.get(entry)
        return [] if elements is None else elements.copy()

    def append(self, entry: Any, element: Any) -> None:
        elements = self.entries.get(entry)
        if elements is None:
            self._put(entry, [element])
        elif self._own is None or entry in self._own:
            elements.append(element)
        else:
            self._put(entry, [*elements, element])

    def extend(self, entry: Any, elements: list[Any]) -> None:
        if elements:
            self._put(entry, [*self.entries.get(entry, ()), *elements])

    def put(self, entry: Any, elements: list[Any]) -> None:
        if elements:
            self._put(entry, elements)
        else:
            self.clear(entry)

    def clear(self, entry: Any) -> None:
        self.entries.pop(entry, None)

    def _put(self, entry: Any, elements: list[Any]) -> None:
        self.entries[entry] = elements
        if self._own is not None:
            self._own.add(entry)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries)

    def share(self) -> dict[Any, list[Any]]:
        """Return the table for a snapshot; from now on each container is copied before it changes."""
        self._own = set()
        return self.entries.copy()


class HeapMaps:
    """A map for each entry, shared with a snapshot until it changes."""

    __slots__ = ("_own", "entries")

    def __init__(self, entries: dict[Any, dict[Any, Any]]) -> None:
        self.entries = entries
        self._own: set[Any] | None = None
        """The entries whose map no snapshot shares; None: no snapshot shares any map."""

    def get(self, entry: Any, key: Any) -> Any:
        found = self.entries.get(entry)
        return None if found is None else found.get(key)

    def contains(self, entry: Any, key: Any) -> bool:
        found = self.entries.get(entry)
        return found is not None and key in found

    def put(self, entry: Any, key: Any, value: Any) -> None:
        self._changeable(entry)[key] = value

    def put_all(self, entry: Any, values: Mapping[Any, Any]) -> None:
        if values:
            self._changeable(entry).update(values)

    def remove(self, entry: Any, key: Any) -> None:
        """Remove a key; the entry goes with its last key."""
        found = self.entries.get(entry)
        if found is not None and key in found:
            if len(found) == 1:
                del self.entries[entry]
            else:
                del self._changeable(entry)[key]

    def items(self, entry: Any) -> list[tuple[Any, Any]]:
        found = self.entries.get(entry)
        return [] if found is None else list(found.items())

    def is_empty(self, entry: Any) -> bool:
        return entry not in self.entries

    def clear(self, entry: Any) -> None:
        self.entries.pop(entry, None)

    def _changeable(self, entry: Any) -> dict[Any, Any]:
        found = self.entries.get(entry)
        if found is None:
            found = self.entries[entry] = {}
        elif self._own is None or entry in self._own:
            return found
        else:
            found = self.entries[entry] = found.copy()
        if self._own is not None:
            self._own.add(entry)
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries)

    def share(self) -> dict[Any, dict[Any, Any]]:
        """Return the table for a snapshot; from now on each container is copied before it changes."""
        self._own = set()
        return self.entries.copy()


class EntryCycle:
    """Returns the entries of a table in portions, again and again, for the incremental TTL cleanup.

    An entry that is added during one cycle is returned in the next.
    """

    __slots__ = ("_entries", "_left")

    def __init__(self, entries: Mapping[Any, Any]) -> None:
        self._entries = entries
        self._left: list[Any] = []

    def next_entries(self, count: int) -> list[Any]:
        """Return the next ``count`` entries, or fewer at the end of a cycle."""
        if not self._left:
            self._left = list(self._entries)
        taken = self._left[-count:]
        del self._left[-count:]
        return taken


class HashMapStateBackend(KeyedStateBackend):
    """Keyed state on the heap (Flink: HashMapStateBackend)."""

    __slots__ = ("_key_groups", "_restored")

    keeps_objects = True

    def __init__(
        self,
        max_parallelism: int,
        key_group_range: tuple[int, int],
        key_type: TypeInformation | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(max_parallelism, key_group_range, key_type, clock)
        self._restored: dict[str, EncodedTable] = {}
        self._key_groups = KeyGroupCache()

    def snapshot(self, checkpoint_id: int | None = None) -> KeyedSnapshot:
        """Copy mutable values, share the rest."""
        tables = [self.table_snapshot(registered) for registered in self._registered.values()]
        return KeyedSnapshot(
            self.max_parallelism,
            self.key_type,
            tables,
            self._restored,
            self._key_groups,
            self.allow_pickle,
        )

    def forget_all(self) -> None:
        for registered in self._registered.values():
            _held_by(registered).clear()

    def restore(
        self,
        encoded: Mapping[str, EncodedTable],
        native: Sequence[NativePart] = (),
        *,
        allow_pickle: bool = False,
    ) -> None:
        """Keep the key groups of this backend's range; a state is decoded when the job registers it."""
        low, high = self.key_group_range
        self._restored = {name: table.within(low, high) for name, table in encoded.items()}
        self.allow_pickle = allow_pickle
        for part in native:
            # A checkpoint of the other backend. Imported late: only this case needs rocksdict.
            from onceproof.engine.state.rocksdb.transfer import export_part

            for name, table in export_part(part, self.max_parallelism, self.databases).items():
                found = self._restored.get(name)
                self._restored[name] = table if found is None else found.joined(name, table)

    def _open_table(self, registered: Registered) -> Any:
        entries: dict[Any, Any] = {}
        stored = self._restored.get(registered.name)
        if stored is not None:
            self._decode(stored, registered, entries)
            # A snapshot that is still being encoded may share the mapping: replace it, never change it.
            self._restored = dict(self._restored)
            del self._restored[registered.name]
        if registered.kind == LIST:
            return HeapLists(entries)
        if registered.kind == MAP:
            return HeapMaps(entries)
        return entries

    def _decode(self, stored: EncodedTable, registered: Registered, entries: dict[Any, Any]) -> None:
        reader = check_stored(stored, registered, self.key_type, self.allow_pickle, self._clock)
        known: list[Any] = []
        groups: list[int] = []
        for group, keys, namespaces, values in decode_blocks(stored, registered, self.key_type, reader):
            identities = identities_of(keys, self.key_type)
            entries.update(
                zip(
                    identities if namespaces is None else zip(identities, namespaces, strict=True),
                    values,
                    strict=True,
                )
            )
            known += identities
            groups += [group] * len(identities)
        self._key_groups.learn(registered.name, known, groups, self.max_parallelism)
        twice = len(known) - len(entries)
        if twice:
            raise StateError(
                f"state {registered.name!r} was stored with {twice} keys that occur twice: "
                "restore another checkpoint"
            )

    def _begin_cleanup(self, registered: Registered, state: TtlState) -> None:
        assert registered.ttl is not None
        assert registered.lifetime is not None
        strategies = registered.ttl.get_cleanup_strategies()
        strategy = strategies.get_incremental_cleanup_strategy()
        if strategy is None:
            return
        following = EntryCycle(_held_by(registered)).next_entries
        count, every = strategy.get_cleanup_size(), 1
        if strategies.incremental is None and registered.ttl.returns_expired:
            # What the job has not asked for must not take away what a read is to return once more. So the
            # same work is done seldom, as for a database.
            count = every = DEFAULT_COMPACTION_ENTRIES
        registered.cleanup = Cleanup(following, state.drop_expired, count, every)
        registered.lifetime.accessed = registered.cleanup.access
        if strategy.run_cleanup_for_every_record():
            self.cleanups.append(registered.cleanup)

    def table_snapshot(self, registered: Registered) -> TableSnapshot:
        """Return a copy of a table that later changes do not reach."""
        table, stored_type = registered.table, registered.stored_type
        try:
            if registered.kind == LIST or registered.kind == MAP:
                entries = stored_type.copy_elements(table.share())
            else:
                entries = stored_type.copy_table(table)
        except Exception as error:
            live = self._taken(registered, _held_by(registered))
            raise wrong_entry(live, self.key_type, error, self.allow_pickle) from error
        if registered.ttl is not None and registered.ttl.get_cleanup_strategies().in_full_snapshot():
            assert self._clock is not None
            entries = _unexpired(entries, registered.kind, self._clock() - registered.ttl.ttl_ms)
        return self._taken(registered, entries)

    def _taken(self, registered: Registered, entries: dict[Any, Any]) -> TableSnapshot:
        return TableSnapshot(
            registered.name, registered.kind, registered.stored_type, entries, registered.namespace_type
        )


def _unexpired(entries: dict[Any, Any], kind: str, last_expired: int) -> dict[Any, Any]:
    """Leave out values whose last access was at ``last_expired`` (in milliseconds) or before."""
    kept: dict[Any, Any] = {}
    for entry, held in entries.items():
        living = held
        if kind == LIST:
            living = [element for element in held if element[1] > last_expired]
        elif kind == MAP:
            living = {key: value for key, value in held.items() if value[1] > last_expired}
        elif held[1] <= last_expired:
            continue
        if living:
            kept[entry] = living
    return kept


def _held_by(registered: Registered) -> dict[Any, Any]:
    table = registered.table
    entries: dict[Any, Any] = table if type(table) is dict else table.entries
    return entries
