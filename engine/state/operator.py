"""Operator state: lists that belong to a subtask rather than to a key.

Its elements are the unit of redistribution: a plain list state is dealt out over the new subtasks, a union
list state is given to all of them in full. A name has one mode and one type for the life of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from engine.state.descriptors import ListStateDescriptor
from engine.state.files import StateError
from engine.state.snapshot import (
    SPLIT_DISTRIBUTE,
    UNION,
    EncodedList,
    ListSnapshot,
    OperatorStateSnapshot,
    check_restored_type,
    wrong_element,
)
from engine.types import TypeInformation


class ListState(msgspec.Struct, eq=False):
    """A list of elements (Flink: ListState). None is no element."""

    name: str
    mode: str
    element_type: TypeInformation
    _elements: list[Any]

    def get(self) -> list[Any]:
        """Give the elements; never None."""
        return list(self._elements)

    def add(self, value: Any) -> None:
        """Append an element."""
        self._elements.append(self._admitted(value))

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements."""
        self._elements.extend([self._admitted(value) for value in values])

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements."""
        self._elements = list(map(self._admitted, values))

    def clear(self) -> None:
        """Remove all elements."""
        self._elements = []

    def _admitted(self, value: Any) -> Any:
        if value is None:
            raise StateError(f"operator state {self.name!r}: None cannot be an element")
        return value

    def snapshot(self) -> ListSnapshot:
        """Copy the elements, isolated from later changes."""
        element_type = self.element_type
        if element_type.immutable:
            elements = self._elements.copy()
        else:
            try:
                elements = list(map(element_type.copy, self._elements))
            except Exception as error:
                live = ListSnapshot(self.name, self.mode, element_type, self._elements)
                raise wrong_element(live, error) from error
        return ListSnapshot(self.name, self.mode, element_type, elements)


class OperatorStateStore(msgspec.Struct, eq=False):
    """The operator state of one operator in one subtask (Flink: OperatorStateStore)."""

    _states: dict[str, ListState] = {}
    _restored: dict[str, EncodedList] = {}
    _allow_pickle: bool = False

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState:
        """Give a list whose elements are dealt out over the subtasks on a rescale."""
        return self._state(descriptor, SPLIT_DISTRIBUTE)

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> ListState:
        """Give a list that every subtask receives in full on a restore."""
        return self._state(descriptor, UNION)

    def snapshot(self) -> OperatorStateSnapshot:
        """Copy all states, isolated from later changes."""
        return OperatorStateSnapshot(list(map(ListState.snapshot, self._states.values())), self._restored)

    def restore(self, elements: Mapping[str, EncodedList], *, allow_pickle: bool = False) -> None:
        """Take over stored state, decoded when it is registered."""
        self._restored = dict(elements)
        self._allow_pickle = allow_pickle

    def _state(self, descriptor: ListStateDescriptor, mode: str) -> ListState:
        name, element_type = descriptor.name, descriptor.type_info
        state = self._states.get(name)
        if state is not None:
            if state.mode != mode or state.element_type is not element_type:
                raise StateError(
                    f"operator state {name!r} is declared as {state.mode} of {state.element_type.name} and "
                    f"again as {mode} of {element_type.name}: a name has one mode and one type"
                )
            return state
        stored = self._restored.get(name)
        elements: list[Any] = []
        if stored is not None:
            what = f"operator state {name!r}"
            if stored.mode != mode:
                raise StateError(
                    f"{what} was stored as {stored.mode} but the job declares {mode}: "
                    "keep the mode, or choose another name"
                )
            check_restored_type(what, stored.type, element_type, self._allow_pickle)
            try:
                elements = list(map(element_type.decode, stored.elements))
            except (msgspec.DecodeError, ValueError) as error:
                raise StateError(f"{what}: the stored bytes cannot be read ({error})") from error
            # The mapping may be shared with a snapshot that is still being encoded: replace, never change.
            self._restored = dict(self._restored)
            del self._restored[name]
        state = self._states[name] = ListState(name, mode, element_type, elements)
        return state
