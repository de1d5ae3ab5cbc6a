"""Keyed state on the heap: one flat dict for each state name.

Operators that know what they do take the live dict of a state (``table``) and work on it directly; user
functions go through ``ValueState``, which reads the backend's ``current_key``. Key groups appear only where
state meets storage: a snapshot is grouped when it is encoded, and a restore decodes the groups of its range
when the job registers the state's name. What the job does not register stays encoded and is written again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from engine.state.descriptors import VALUE, StateDescriptor, ValueStateDescriptor
from engine.state.files import StateError
from engine.state.snapshot import (
    EncodedTable,
    KeyedSnapshot,
    TableSnapshot,
    check_restored_type,
    wrong_entry,
)
from engine.types import TypeInformation, Types


class _NoKey:
    def __repr__(self) -> str:
        return "no key"


NO_KEY = _NoKey()
"""The current key while no record is being processed."""


class ValueState(msgspec.Struct, eq=False):
    """One value for each key (PyFlink: ValueState)."""

    _backend: KeyedStateBackend
    _table: dict[Any, Any]

    def value(self) -> Any:
        """Give the value of the current key, or None where there is none."""
        key = self._backend.current_key
        if key is NO_KEY:
            raise _no_key()
        return self._table.get(key)

    def update(self, value: Any) -> None:
        """Set the value of the current key; None clears it."""
        key = self._backend.current_key
        if key is NO_KEY:
            raise _no_key()
        if value is None:
            self._table.pop(key, None)
        else:
            self._table[key] = value

    def clear(self) -> None:
        """Remove the value of the current key."""
        self.update(None)


def _no_key() -> StateError:
    return StateError("keyed state was used where no record is being processed: there is no current key")


class _Registered(msgspec.Struct, eq=False):
    """A state that the job has asked for."""

    name: str
    kind: str
    value_type: TypeInformation
    table: dict[Any, Any]

    def snapshot(self, key_type: TypeInformation) -> TableSnapshot:
        """Copy the table so that later changes do not reach the copy."""
        try:
            table = self.value_type.copy_table(self.table)
        except Exception as error:
            live = TableSnapshot(self.name, self.kind, self.value_type, self.table)
            raise wrong_entry(live, key_type, error) from error
        return TableSnapshot(self.name, self.kind, self.value_type, table)


class KeyedStateBackend:
    """The keyed state of one operator in one subtask."""

    __slots__ = (
        "_allow_pickle",
        "_key_groups",
        "_registered",
        "_restored",
        "current_key",
        "key_group_range",
        "key_type",
        "max_parallelism",
    )

    def __init__(
        self,
        max_parallelism: int,
        key_group_range: tuple[int, int],
        key_type: TypeInformation | None = None,
    ) -> None:
        self.max_parallelism = max_parallelism
        self.key_group_range = key_group_range
        self.key_type = Types.DYNAMIC() if key_type is None else key_type
        self.current_key: Any = NO_KEY
        self._registered: dict[str, _Registered] = {}
        self._restored: dict[str, EncodedTable] = {}
        self._allow_pickle = False
        self._key_groups: dict[Any, int] = {}

    def table(self, descriptor: StateDescriptor) -> dict[Any, Any]:
        """Give the live dict of a state: key -> value. It stays the same object for the backend's life."""
        return self._register(descriptor).table

    def value_state(self, descriptor: ValueStateDescriptor) -> ValueState:
        """Give the state of the current key."""
        return ValueState(self, self._register(descriptor).table)

    def snapshot(self) -> KeyedSnapshot:
        """Copy all tables, isolated from later changes: the synchronous part of a snapshot."""
        tables = []
        for item in self._registered.values():
            tables.append(item.snapshot(self.key_type))
        self._forget_old_keys()
        return KeyedSnapshot(self.max_parallelism, self.key_type, tables, self._restored, self._key_groups)

    def restore(self, encoded: Mapping[str, EncodedTable], *, allow_pickle: bool = False) -> None:
        """Take over stored state: what falls in this backend's range, decoded when it is registered."""
        low, high = self.key_group_range
        self._restored = {name: table.within(low, high) for name, table in encoded.items()}
        self._allow_pickle = allow_pickle

    def _register(self, descriptor: StateDescriptor) -> _Registered:
        found = self._registered.get(descriptor.name)
        if found is not None:
            if found.value_type is not descriptor.type_info or found.kind != descriptor.kind:
                raise StateError(
                    f"state {descriptor.name!r} is declared as {found.kind} of {found.value_type.name} and "
                    f"again as {descriptor.kind} of {descriptor.type_info.name}: a name has one type"
                )
            return found
        if descriptor.kind != VALUE:
            raise StateError(f"keyed {descriptor.kind} state ({descriptor.name!r}) is not supported yet")
        item = _Registered(descriptor.name, descriptor.kind, descriptor.type_info, {})
        if descriptor.name in self._restored:
            self._decode(self._restored[descriptor.name], item)
            # The mapping may be shared with a snapshot that is still being encoded: replace, never change.
            self._restored = dict(self._restored)
            del self._restored[descriptor.name]
        self._registered[descriptor.name] = item
        return item

    def _decode(self, stored: EncodedTable, item: _Registered) -> None:
        what = f"state {item.name!r}"
        if stored.kind != item.kind:
            raise StateError(f"{what} was stored as {stored.kind} state but the job declares {item.kind}")
        check_restored_type(f"the key of {what}", stored.key_type, self.key_type, self._allow_pickle)
        check_restored_type(what, stored.value_type, item.value_type, self._allow_pickle)
        decoder = item.value_type.entry_decoder(self.key_type)
        unpack_key, unpack_value = self.key_type.unpacker(), item.value_type.unpacker()
        key_groups = self._key_groups
        table = item.table
        expected = 0
        for group, data in stored.groups.items():
            try:
                pairs = decoder.decode(data)
                if unpack_key is not None:
                    pairs = [(unpack_key(key), value) for key, value in pairs]
                if unpack_value is not None:
                    pairs = [(key, unpack_value(value)) for key, value in pairs]
            except (msgspec.DecodeError, ValueError) as error:
                raise StateError(
                    f"{what}, key group {group}: the stored bytes cannot be read ({error})"
                ) from error
            table.update(pairs)
            key_groups.update([(key, group) for key, _ in pairs])
            expected += len(pairs)
        if len(table) != expected:
            raise StateError(
                f"{what} was stored with {expected - len(table)} keys that occur twice: "
                "restore another checkpoint"
            )

    def _forget_old_keys(self) -> None:
        """Keep the cache of key groups in proportion to the keys that have state."""
        key_groups = self._key_groups
        if len(key_groups) > 1024:
            tables = [item.table for item in self._registered.values()]
            if len(key_groups) > 2 * sum(map(len, tables)):
                self._key_groups = {
                    key: group for key, group in key_groups.items() if any(key in table for table in tables)
                }
