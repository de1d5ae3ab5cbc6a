"""Operator state: state of a subtask rather than of a key (Flink: OperatorStateStore).

The rules this module lives by:

- Elements are the unit of redistribution. A plain list is split among the new subtasks, a union list goes to
  all of them in full, and of a broadcast state each new subtask gets one of the old copies, which are equal.
- A name has one mode and one type for the life of the job.
- Operator state is always on the heap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from onceproof.engine.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from onceproof.engine.state.file_envelope import StateError, pickle_refused
from onceproof.engine.state.interfaces import BroadcastState, ListState, ReadOnlyBroadcastState
from onceproof.engine.state.opaque import Check, opaque_check
from onceproof.engine.state.restoring import reader_of
from onceproof.engine.state.snapshot import ListSnapshot, OperatorStateSnapshot, wrong_element
from onceproof.engine.state.states import no_map_key
from onceproof.engine.state.stored import BROADCAST, SPLIT_DISTRIBUTE, UNION, EncodedList
from onceproof.engine.types import PickleForbidden, TypeInformation
from onceproof.engine.types.composite import tuple_type
from onceproof.engine.types.wrapped import nullable


class OperatorListState(msgspec.Struct, ListState, eq=False):
    """A list of elements, none of which is None (Flink: PartitionableListState)."""

    name: str
    mode: str
    element_type: TypeInformation
    _elements: list[Any]
    _check: Check | None = None
    """Refuses opaque objects; None: the type admits none, or the job allows them."""

    def get(self) -> list[Any]:
        return list(self._elements)

    def add(self, value: Any) -> None:
        self._elements.append(self._admitted(value))

    def add_all(self, values: Iterable[Any]) -> None:
        self._elements.extend([self._admitted(value) for value in values])

    def update(self, values: Iterable[Any]) -> None:
        self._elements = [self._admitted(value) for value in values]

    def clear(self) -> None:
        self._elements = []

    def _admitted(self, value: Any) -> Any:
        if value is None:
            raise StateError(f"operator state {self.name!r}: None cannot be an element")
        if self._check is not None:
            self._check(value)
        return value

    def snapshot(self) -> ListSnapshot:
        """Copy the elements, isolated from later changes."""
        return isolated(self.name, self.mode, self.element_type, self._elements, self._check is None)


class OperatorBroadcastState(msgspec.Struct, BroadcastState, eq=False):
    """A map of which every subtask has an equal copy; its elements are the (key, value) pairs."""

    name: str
    element_type: TypeInformation
    _entries: dict[Any, Any]
    _admits_none: bool = False
    """Whether None may be a key."""
    _check: Check | None = None
    """Refuses opaque objects; None: the types admit none, or the job allows them."""

    mode = BROADCAST

    def get(self, key: Any) -> Any:
        return self._entries.get(key)

    def contains(self, key: Any) -> bool:
        return key in self._entries

    def put(self, key: Any, value: Any) -> None:
        if key is None and not self._admits_none:
            raise no_map_key(self.name)
        if self._check is not None:
            self._check((key, value))
        self._entries[key] = value

    def remove(self, key: Any) -> None:
        self._entries.pop(key, None)

    def items(self) -> list[tuple[Any, Any]]:
        return list(self._entries.items())

    def is_empty(self) -> bool:
        return not self._entries

    def clear(self) -> None:
        self._entries.clear()

    def snapshot(self) -> ListSnapshot:
        """Copy the entries, isolated from later changes."""
        pairs = list(self._entries.items())
        return isolated(self.name, BROADCAST, self.element_type, pairs, self._check is None)


class ReadOnlyView(msgspec.Struct, ReadOnlyBroadcastState, eq=False):
    """A read-only view of a broadcast state, for the side whose changes would not reach other subtasks."""

    _state: OperatorBroadcastState

    def get(self, key: Any) -> Any:
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        return self._state.contains(key)

    def items(self) -> list[tuple[Any, Any]]:
        return self._state.items()

    def is_empty(self) -> bool:
        return self._state.is_empty()

    def clear(self) -> None:
        """Raise StateError: the view is read-only."""
        raise StateError(f"broadcast state {self._state.name!r} can only be read on this side")


def isolated(
    name: str, mode: str, element_type: TypeInformation, elements: list[Any], allow_pickle: bool
) -> ListSnapshot:
    """Copy elements so that later changes do not reach the copy."""
    if element_type.immutable:
        return ListSnapshot(name, mode, element_type, elements.copy())
    try:
        return ListSnapshot(name, mode, element_type, [element_type.copy(element) for element in elements])
    except Exception as error:
        raise wrong_element(ListSnapshot(name, mode, element_type, elements), error, allow_pickle) from error


class OperatorStateStore(msgspec.Struct, eq=False, kw_only=True):
    """The operator state of one operator in one subtask (Flink: OperatorStateStore)."""

    _states: dict[str, Any] = {}
    _restored: dict[str, EncodedList] = {}
    allow_pickle: bool = False
    """Whether the job allows pickled state."""
    operator_name: str = ""
    """For messages."""

    def get_list_state(self, descriptor: ListStateDescriptor) -> OperatorListState:
        """Return a list whose elements are split among the subtasks when the job is rescaled."""
        return self._list_state(descriptor, SPLIT_DISTRIBUTE)

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> OperatorListState:
        """Return a list that every subtask restores in full."""
        return self._list_state(descriptor, UNION)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> OperatorBroadcastState:
        """Return a map that every subtask must change in the same way."""
        key_type, value_type = state_descriptor.key_type_info, state_descriptor.type_info
        element_type = tuple_type((key_type, nullable(value_type)))
        state = self._known(state_descriptor, BROADCAST, element_type)
        if state is None:
            pairs = self._decode_restored(state_descriptor.name, BROADCAST, element_type)
            state = OperatorBroadcastState(
                state_descriptor.name,
                element_type,
                dict(pairs),
                key_type.admits_none,
                self._check_of(state_descriptor.name, element_type),
            )
            self._states[state_descriptor.name] = state
        found: OperatorBroadcastState = state
        return found

    def snapshot(self) -> OperatorStateSnapshot:
        """Return a copy of all states that later changes do not reach."""
        return OperatorStateSnapshot(
            [state.snapshot() for state in self._states.values()], self._restored, self.allow_pickle
        )

    def restore(self, elements: Mapping[str, EncodedList], *, allow_pickle: bool = False) -> None:
        """Keep stored state; each state is decoded when the job registers it."""
        self._restored = dict(elements)
        self.allow_pickle = allow_pickle

    def _list_state(self, descriptor: ListStateDescriptor, mode: str) -> OperatorListState:
        name, element_type = descriptor.name, descriptor.type_info
        state = self._known(descriptor, mode, element_type)
        if state is None:
            elements = self._decode_restored(name, mode, element_type)
            check = self._check_of(name, element_type)
            state = self._states[name] = OperatorListState(name, mode, element_type, elements, check)
        found: OperatorListState = state
        return found

    def _known(self, descriptor: StateDescriptor, mode: str, element_type: TypeInformation) -> Any:
        """Return the state if it is registered; raise StateError if its mode or type differs."""
        name = descriptor.name
        state = self._states.get(name)
        if state is None:
            if descriptor.ttl_config is not None:
                raise StateError(f"operator state {name!r} has a time to live: only keyed state can have one")
        elif state.mode != mode or state.element_type is not element_type:
            raise StateError(
                f"operator state {name!r} is declared as {state.mode} of {state.element_type.name} and "
                f"again as {mode} of {element_type.name}: a name has one mode and one type"
            )
        return state

    def _check_of(self, name: str, element_type: TypeInformation) -> Check | None:
        if self.allow_pickle or not element_type.contains_pickle:
            return None
        return opaque_check(f"operator state {name!r}", self.operator_name, element_type)

    def _decode_restored(self, name: str, mode: str, element_type: TypeInformation) -> list[Any]:
        """Decode the stored elements of a name and remove them from the restored ones."""
        stored = self._restored.get(name)
        if stored is None:
            return []
        what = f"operator state {name!r}"
        if stored.mode != mode:
            raise StateError(
                f"{what} was stored as {stored.mode} but the job declares {mode}: "
                "keep the mode, or choose another name"
            )
        reader = reader_of(what, stored.type, element_type, self.allow_pickle, None)
        try:
            elements = [reader.kind.decode(element, self.allow_pickle) for element in stored.elements]
        except PickleForbidden:
            raise pickle_refused(what) from None
        except (ValueError, RecursionError) as error:
            raise StateError(f"{what}: the stored bytes cannot be read ({error})") from error
        if reader.migrate is not None:
            elements = [reader.migrate(element) for element in elements]
        # A snapshot that is still being encoded may share the mapping: replace it, never change it.
        self._restored = dict(self._restored)
        del self._restored[name]
        return elements
