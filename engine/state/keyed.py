"""The keyed state backend: the interface that every backend offers to operators (Flink: KeyedStateBackend).

The rules this module lives by:

- A backend holds the keyed state of one operator in one subtask.
- The operator sets ``current_key`` to the identity of the record's key (``key_identity``) before it calls the
  function; a state object reads and writes the state of the current key. A key whose class is one of
  ``plain_keys`` is its own identity, ``identify`` returns that of any other one.
- A state is registered with a descriptor, and with the type of its namespaces if the operator scopes it
  further (a window, for instance): ``state.set_current_namespace(namespace)``. Namespaces are hashable values
  of that type.
- Operators may use the live ``table`` of a state directly, without the current key. Its entries are keys, or
  pairs of key and namespace. Timers are such a table.
- Every table is in every snapshot. After a restore, the subtask that owns a key group gets its entries, on
  any backend.
- Restored state that the job does not register is carried along into the next snapshots.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import msgspec

from onceproof.engine.owned import ValueWatch
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
from onceproof.engine.state.file_envelope import StateError
from onceproof.engine.state.interfaces import AggregatingState, ListState, MapState, ReducingState, ValueState
from onceproof.engine.state.isolated import isolated
from onceproof.engine.state.occurrences import Occurrence, WatchedReads
from onceproof.engine.state.opaque import CheckedTable, limit_check, opaque_check
from onceproof.engine.state.rocksdb.databases import Databases
from onceproof.engine.state.snapshot import KeyedSnapshot, NativeSnapshot
from onceproof.engine.state.states import (
    KeyedAggregatingState,
    KeyedIntegerState,
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
    TtlIntegerState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlState,
    TtlValueState,
    lifetime_of,
)
from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.types.composite import ListType, MapType
from onceproof.engine.types.scalars import IntegerType

__all__ = ["NO_KEY", "KeyedStateBackend", "Registered"]

TABLE_OF_VALUES = frozenset((VALUE, REDUCING, AGGREGATING))
"""The kinds that hold one value for each entry."""


class Registered(msgspec.Struct, eq=False, kw_only=True):
    """A state that the job has registered; ``table`` holds a value of ``stored_type`` for each entry."""

    name: str
    kind: str
    stored_type: TypeInformation
    namespace_type: TypeInformation | None
    ttl: StateTtlConfig | None
    table: Any = None
    lifetime: Lifetime | None = None
    restored: set[Any] = msgspec.field(default_factory=set)
    read: Occurrence | None = None
    """In a trial, of a state with restored entries that functions use: whether any of them was read."""
    cleanup: Cleanup | None = None

    @property
    def can_change(self) -> bool:
        """Whether what a function holds of the state might be changed in place."""
        stored: Any = self.stored_type
        if self.kind == LIST:
            return not stored.element.immutable
        return not (stored.value.immutable if self.kind == MAP else stored.immutable)

    def matches(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None) -> bool:
        """Return whether another descriptor declares the same state."""
        return (
            self.kind == descriptor.kind
            and self.stored_type is descriptor.stored_type
            and self.namespace_type is namespace_type
            and self.ttl == descriptor.ttl_config
        )


class KeyedStateBackend(ABC):
    """The keyed state of one operator in one subtask (Flink: KeyedStateBackend)."""

    __slots__ = (
        "_clock",
        "_registered",
        "allow_pickle",
        "cleanups",
        "current_key",
        "databases",
        "identify",
        "key_by_key",
        "key_group_range",
        "key_type",
        "max_parallelism",
        "operator_name",
        "plain_keys",
        "value_watch",
    )

    keeps_objects: ClassVar[bool] = False
    """Whether the tables return the objects that were put in; the users of state get copies of them."""

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
        self.plain_keys, self.identify = self.key_type.key_rule()
        self.current_key: Any = NO_KEY
        """The identity of the key."""
        self.value_watch: ValueWatch | None = None
        """Finds, in a trial, values that functions modify in place."""
        self.databases: Databases | None = None
        """Opens databases, those of a restored checkpoint as well; None: RocksDB does."""
        self.allow_pickle = False
        """Whether the job allows pickled state; set before any state is registered."""
        self.operator_name = ""
        """For messages."""
        self.cleanups: list[Cleanup] = []
        """The cleanups that run for every record; operators call ``sweep`` once for each buffer."""
        self.key_by_key = False
        """Whether only the current key has state: that of the others is forgotten, or yet to come."""
        self._clock = clock
        self._registered: dict[str, Registered] = {}

    # For operators.

    def common_kind(self) -> type | None:
        """Return a class whose keys stand for themselves: that of the last key, if several do.

        An operator asks once for each buffer. None: it has every key identified.
        """
        plain, kind = self.plain_keys, self.current_key.__class__
        return kind if kind in plain else plain[0] if plain else None

    def table(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None) -> ValueTable:
        """Return the live table of a state that holds one value for each entry; always the same object.

        Raises StateError for list and map state.
        """
        if descriptor.kind not in TABLE_OF_VALUES:
            raise StateError(
                f"state {descriptor.name!r} is {descriptor.kind} state, which is not a table of values"
            )
        registered = self._register(descriptor, namespace_type)
        registered.read = None
        table: ValueTable = registered.table
        return table

    def keys(self, descriptor: StateDescriptor, namespace: Any = None) -> list[Any]:
        """Return the keys that have state of a descriptor (in ``namespace``, if the state has namespaces)."""
        registered = self._registered.get(descriptor.name)
        if registered is None:
            return []
        if registered.namespace_type is None:
            return list(registered.table)
        return [key for key, own in registered.table if own == namespace]

    def lifetimes(self) -> dict[str, Lifetime]:
        """Return the lifetime of each state that the job uses and that has a time to live."""
        return {
            name: registered.lifetime
            for name, registered in self._registered.items()
            if registered.lifetime is not None
        }

    def restored_reads(self) -> dict[str, Occurrence]:
        """Return of each state with restored entries, in a trial, whether any of them was read."""
        return {name: each.read for name, each in self._registered.items() if each.read is not None}

    # For functions, and for operators that scope state to namespaces.

    def live_state(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None) -> Any:
        """Return the state of a descriptor of any kind for an operator, which gets the stored objects."""
        state = self.state(descriptor, namespace_type)
        registered = self._registered[descriptor.name]
        state.use_table(self._table_of(registered))
        registered.read = None
        return state

    def state(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None) -> Any:
        """Return the state of a descriptor of any kind."""
        return _MAKERS[descriptor.kind](self, descriptor, namespace_type)

    def value_state(
        self, descriptor: ValueStateDescriptor, namespace_type: TypeInformation | None = None
    ) -> ValueState:
        """Return the value state of a descriptor, registering it at the first call."""
        plain: Callable[..., ValueState] = KeyedValueState
        timed: Callable[..., ValueState] = TtlValueState
        kind = descriptor.type_info
        if isinstance(kind, IntegerType) and namespace_type is None:
            check = limit_check(f"state {descriptor.name!r}", self.operator_name, kind)
            bits = kind.limits[1].bit_length()
            plain = partial(KeyedIntegerState, _check=check, _bits=bits)
            timed = partial(TtlIntegerState, _check=check)
        state: ValueState = self._state_over(plain, timed, descriptor, namespace_type)
        return state

    def list_state(
        self, descriptor: ListStateDescriptor, namespace_type: TypeInformation | None = None
    ) -> ListState:
        """Return the list state of a descriptor, registering it at the first call."""
        state: ListState = self._state_over(KeyedListState, TtlListState, descriptor, namespace_type)
        return state

    def map_state(
        self, descriptor: MapStateDescriptor, namespace_type: TypeInformation | None = None
    ) -> MapState:
        """Return the map state of a descriptor, registering it at the first call."""
        admits_none = descriptor.key_type_info.admits_none
        state: MapState = self._state_over(
            partial(KeyedMapState, _admits_none=admits_none),
            partial(TtlMapState, _admits_none=admits_none),
            descriptor,
            namespace_type,
        )
        return state

    def reducing_state(
        self, descriptor: ReducingStateDescriptor, namespace_type: TypeInformation | None = None
    ) -> ReducingState:
        """Return the reducing state of a descriptor, registering it at the first call."""
        state: ReducingState = self._state_over(
            KeyedReducingState, TtlReducingState, descriptor, namespace_type, descriptor.reduce
        )
        return state

    def aggregating_state(
        self, descriptor: AggregatingStateDescriptor, namespace_type: TypeInformation | None = None
    ) -> AggregatingState:
        """Return the aggregating state of a descriptor, registering it at the first call."""
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
        table = self._table_of(registered)
        if registered.read is not None:
            table = WatchedReads(table, registered.restored, registered.read)
        if self.keeps_objects and registered.can_change:
            where = f"operator {self.operator_name!r} modified a value of state {registered.name!r}"
            table = isolated(registered.kind, table, self.value_watch, where)
        if registered.ttl is None:
            return plain(self, descriptor.name, namespaced, table, function)
        if self._clock is None:
            raise StateError(f"state {descriptor.name!r} has a time to live, but its backend has no clock")
        if registered.lifetime is None:
            registered.lifetime = lifetime_of(registered.ttl, self._clock)
        if registered.cleanup is None:
            # Over the table itself: what a cleanup looks at, no function has read.
            own = self._table_of(registered)
            swept = timed(self, descriptor.name, namespaced, own, function, _life=registered.lifetime)
            self._begin_cleanup(registered, swept)
        return timed(self, descriptor.name, namespaced, table, function, _life=registered.lifetime)

    def _table_of(self, registered: Registered) -> Any:
        """Return the table of a state; one that may hold opaque objects refuses them without permission."""
        if self.allow_pickle or not registered.stored_type.contains_pickle:
            return registered.table
        stored_type, name, what = registered.stored_type, self.operator_name, f"state {registered.name!r}"
        check = opaque_check(what, name, unit_of(registered.kind, stored_type))
        check_key = None
        if registered.kind == MAP:
            assert isinstance(stored_type, MapType)
            check_key = opaque_check(what, name, stored_type.key)
        return CheckedTable(registered.table, check, check_key)

    def sweep(self, records: int) -> None:
        """Run the TTL cleanups that run for every record, for this number of processed records."""
        for cleanup in self.cleanups:
            for _ in range(records):
                cleanup.access()

    def _register(
        self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None
    ) -> Registered:
        found = self._registered.get(descriptor.name)
        if found is not None:
            if not found.matches(descriptor, namespace_type):
                raise StateError(
                    f"state {descriptor.name!r} is declared as {describe_state(found)} and again as "
                    f"{describe_state(_registration(descriptor, namespace_type))}: a name has one type"
                )
            return found
        registered = _registration(descriptor, namespace_type)
        registered.table = self._open_table(registered)
        if self.keeps_objects and self.value_watch is not None:
            registered.restored = set(registered.table)
            registered.read = Occurrence() if registered.restored else None
        self._registered[descriptor.name] = registered
        return registered

    # Each backend implements these.

    @abstractmethod
    def _open_table(self, registered: Registered) -> Any:
        """Return the table of a newly registered state, with its restored content."""

    @abstractmethod
    def snapshot(self, checkpoint_id: int | None = None) -> KeyedSnapshot | NativeSnapshot:
        """Return a copy of all tables that later changes do not reach: the synchronous part of a snapshot."""

    @abstractmethod
    def restore(
        self,
        encoded: Mapping[str, EncodedTable],
        native: Sequence[NativePart] = (),
        *,
        allow_pickle: bool = False,
    ) -> None:
        """Take over the stored state of this backend's key groups; called before any state is registered.

        ``encoded`` are tables that a hashmap backend stored, ``native`` databases: every backend reads both.
        """

    def forget_all(self) -> None:
        """Remove all state at once, where it is that of a single key; another backend keeps it."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is durable: later snapshots may refer to its files while it is retained."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will not complete."""

    @abstractmethod
    def _begin_cleanup(self, registered: Registered, state: TtlState) -> None:
        """Set up the cleanup of a state with a time to live, if it has one for this backend."""

    def close(self) -> None:
        """Release the backend's files."""


def unit_of(kind: str, stored_type: TypeInformation) -> TypeInformation:
    """Return the type of what is written at once: a value, an element of a list, the value of a map's key."""
    if kind == LIST:
        assert isinstance(stored_type, ListType)
        return stored_type.element
    if kind == MAP:
        assert isinstance(stored_type, MapType)
        return stored_type.value
    return stored_type


def _registration(descriptor: StateDescriptor, namespace_type: TypeInformation | None) -> Registered:
    return Registered(
        name=descriptor.name,
        kind=descriptor.kind,
        stored_type=descriptor.stored_type,
        namespace_type=namespace_type,
        ttl=descriptor.ttl_config,
    )


def describe_state(registered: Registered) -> str:
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
