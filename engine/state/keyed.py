"""Keyed state: what every backend offers to operators and functions.

A backend keeps the state of one operator in one subtask. Operators set ``current_key``; a state that a
function holds is always that of the current key. A state is asked for by a descriptor, and by a type of
namespaces where its operator scopes it further (a window, for instance):
``state.set_current_namespace(namespace)``. Namespaces are values of that type: hashable, and equal only if
they are the same namespace.

Operators that know what they do take the live ``table`` of a state and work on it without going through the
current key; its entries are keys, or pairs of key and namespace. Whatever a table holds is in every
snapshot, goes to whoever owns its key group after a restore, and may be kept by any backend: so timers are
a table, too.

What the job does not ask for after a restore is carried along and written again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from onceproof.engine.state.descriptors import (
    AGGREGATING,
    LIST,
    MAP,
    REDUCING,
    VALUE,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from onceproof.engine.state.files import StateError
from onceproof.engine.state.interfaces import AggregatingState, ListState, MapState, ReducingState, ValueState
from onceproof.engine.state.snapshot import KeyedSnapshot, NativeSnapshot
from onceproof.engine.state.states import (
    KeyedAggregatingState,
    KeyedListState,
    KeyedMapState,
    KeyedReducingState,
    KeyedValueState,
)
from onceproof.engine.state.stored import EncodedTable, NativePart
from onceproof.engine.state.tables import NO_KEY, ValueTable
from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.state.ttl_states import (
    Cleanup,
    Lifetime,
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlState,
    TtlValueState,
    lifetime_of,
)
from onceproof.engine.types import TypeInformation, Types

__all__ = ["NO_KEY", "KeyedStateBackend", "Registered"]

TABLE_OF_VALUES = frozenset((VALUE, REDUCING, AGGREGATING))
"""The kinds that hold one value for each entry."""


class Registered(msgspec.Struct, eq=False, kw_only=True):
    """A state that the job has asked for. ``stored_type`` is that of what ``table`` holds for one entry."""

    name: str
    kind: str
    stored_type: TypeInformation
    namespace_type: TypeInformation | None
    ttl: StateTtlConfig | None
    table: Any = None
    lifetime: Lifetime | None = None
    cleanup: Cleanup | None = None

    def is_asked_for_by(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None) -> bool:
        """Whether another descriptor means the same state."""
        return (
            self.kind == descriptor.kind
            and self.stored_type is descriptor.stored_type
            and self.namespace_type is namespace_type
            and self.ttl == descriptor.ttl_config
        )


class KeyedStateBackend(ABC):
    """The keyed state of one operator in one subtask."""

    __slots__ = (
        "_clock",
        "_registered",
        "cleanups",
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
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.max_parallelism = max_parallelism
        self.key_group_range = key_group_range
        self.key_type = Types.DYNAMIC() if key_type is None else key_type
        self.current_key: Any = NO_KEY
        self.cleanups: list[Cleanup] = []
        """Those that run for every record; operators look here once a buffer."""
        self._clock = clock
        self._registered: dict[str, Registered] = {}

    # For operators.

    def table(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None) -> ValueTable:
        """Give the live table of a state that holds one value for each entry; always the same object."""
        if descriptor.kind not in TABLE_OF_VALUES:
            raise StateError(
                f"state {descriptor.name!r} is {descriptor.kind} state, which is no table of values"
            )
        table: ValueTable = self._register(descriptor, namespace_type).table
        return table

    def keys(self, descriptor: StateDescriptor, namespace: Any = None) -> list[Any]:
        """Give the keys that have state under a descriptor (and in a namespace, where it has namespaces)."""
        registered = self._registered.get(descriptor.name)
        if registered is None:
            return []
        if registered.namespace_type is None:
            return list(registered.table)
        return [key for key, own in registered.table if own == namespace]

    # For functions, and for operators that scope state to namespaces.

    def state(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None) -> Any:
        """Give the state that a descriptor of any kind means."""
        return _MAKERS[descriptor.kind](self, descriptor, namespace_type)

    def value_state(
        self, descriptor: ValueStateDescriptor, namespace_type: TypeInformation | None = None
    ) -> ValueState:
        """Give a value of the current key."""
        state: ValueState = self._state_over(KeyedValueState, TtlValueState, descriptor, namespace_type)
        return state

    def list_state(
        self, descriptor: ListStateDescriptor, namespace_type: TypeInformation | None = None
    ) -> ListState:
        """Give a list of the current key."""
        state: ListState = self._state_over(KeyedListState, TtlListState, descriptor, namespace_type)
        return state

    def map_state(
        self, descriptor: MapStateDescriptor, namespace_type: TypeInformation | None = None
    ) -> MapState:
        """Give a map of the current key."""
        state: MapState = self._state_over(KeyedMapState, TtlMapState, descriptor, namespace_type)
        return state

    def reducing_state(
        self, descriptor: ReducingStateDescriptor, namespace_type: TypeInformation | None = None
    ) -> ReducingState:
        """Give a reduced value of the current key."""
        state: ReducingState = self._state_over(
            KeyedReducingState, TtlReducingState, descriptor, namespace_type, descriptor.reduce
        )
        return state

    def aggregating_state(
        self, descriptor: AggregatingStateDescriptor, namespace_type: TypeInformation | None = None
    ) -> AggregatingState:
        """Give an accumulator of the current key."""
        state: AggregatingState = self._state_over(
            KeyedAggregatingState, TtlAggregatingState, descriptor, namespace_type, descriptor.agg_function
        )
        return state

    def _state_over(
        self,
        plain: Any,
        timed: Any,
        descriptor: StateDescriptor,
        namespace_type: TypeInformation | None,
        function: Any = None,
    ) -> Any:
        registered = self._register(descriptor, namespace_type)
        namespaced = namespace_type is not None
        if registered.ttl is None:
            return plain(self, descriptor.name, namespaced, registered.table, function)
        if self._clock is None:
            raise StateError(f"state {descriptor.name!r} has a time to live, but its backend has no clock")
        if registered.lifetime is None:
            registered.lifetime = lifetime_of(registered.ttl, self._clock)
        state = timed(
            self, descriptor.name, namespaced, registered.table, function, _life=registered.lifetime
        )
        if registered.cleanup is None:
            self._begin_cleanup(registered, state)
        return state

    def sweep(self, records: int) -> None:
        """So many records were processed: for states whose cleanup runs for every record."""
        for cleanup in self.cleanups:
            for _ in range(records):
                cleanup.access()

    def _register(
        self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None
    ) -> Registered:
        found = self._registered.get(descriptor.name)
        if found is not None:
            if not found.is_asked_for_by(descriptor, namespace_type):
                raise StateError(
                    f"state {descriptor.name!r} is declared as {told(found)} and again as "
                    f"{told(_asked(descriptor, namespace_type))}: a name has one type"
                )
            return found
        registered = _asked(descriptor, namespace_type)
        registered.table = self._open_table(registered)
        self._registered[descriptor.name] = registered
        return registered

    # What a backend provides.

    @abstractmethod
    def _open_table(self, registered: Registered) -> Any:
        """Make the table of a state that is asked for the first time, with what was restored of it."""

    @abstractmethod
    def snapshot(self, checkpoint_id: int | None = None) -> KeyedSnapshot | NativeSnapshot:
        """Take what all tables hold, isolated from later changes: the synchronous part of a snapshot."""

    @abstractmethod
    def restore(
        self,
        encoded: Mapping[str, EncodedTable],
        native: Sequence[NativePart] = (),
        *,
        allow_pickle: bool = False,
    ) -> None:
        """Take over stored state, before the first state is asked for: what falls in this backend's range.

        ``encoded`` are tables as a hashmap backend stores them, ``native`` databases: any backend takes both.
        """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is durable, and what the backend gave for it is kept for a while."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will not complete."""

    @abstractmethod
    def _begin_cleanup(self, registered: Registered, state: TtlState) -> None:
        """Set the cleanup of a state with a time to live up, where its configuration has one for here."""

    def close(self) -> None:
        """Let go of what the backend holds outside of memory."""


def _asked(descriptor: StateDescriptor, namespace_type: TypeInformation | None) -> Registered:
    return Registered(
        name=descriptor.name,
        kind=descriptor.kind,
        stored_type=descriptor.stored_type,
        namespace_type=namespace_type,
        ttl=descriptor.ttl_config,
    )


def told(registered: Registered) -> str:
    """Describe a state for a message."""
    text = f"{registered.kind} of {registered.stored_type.name}"
    if registered.namespace_type is not None:
        text += f" by {registered.namespace_type.name}"
    return text if registered.ttl is None else f"{text} with {registered.ttl!r}"


_MAKERS: dict[str, Callable[[KeyedStateBackend, Any, TypeInformation | None], Any]] = {
    VALUE: KeyedStateBackend.value_state,
    LIST: KeyedStateBackend.list_state,
    MAP: KeyedStateBackend.map_state,
    REDUCING: KeyedStateBackend.reducing_state,
    AGGREGATING: KeyedStateBackend.aggregating_state,
}
