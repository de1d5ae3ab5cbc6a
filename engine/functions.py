"""The interfaces that a user of the engine implements, under PyFlink's names.

What PyFlink lacks (sink functions written in Python, operator state, checkpoint listeners) takes the names
of Flink's Java API in snake_case. User functions are ordinary synchronous Python: each subtask has its own
copy, it is called by one machine at a time, and it reaches the world only through what its context offers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from onceproof.engine.state.raw import KeyedStateOutput, OperatorStateOutput
from onceproof.engine.timer_service import TimeDomain, TimerService

if TYPE_CHECKING:
    from onceproof.engine.state.descriptors import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        StateDescriptor,
        ValueStateDescriptor,
    )
    from onceproof.engine.state.interfaces import (
        AggregatingState,
        BroadcastState,
        ListState,
        MapState,
        ReducingState,
        ValueState,
    )
    from onceproof.engine.state.keyed import KeyedStateBackend
    from onceproof.engine.state.operator import OperatorStateStore
    from onceproof.engine.state.raw import KeyGroupStatePartition, StatePartition


class KeyedStateStore(Struct, eq=False, kw_only=True):
    """Where a function finds the state of the current key (Flink: KeyedStateStore).

    Its methods raise TypeError where the stream is not keyed.
    """

    task_name: str
    backend: KeyedStateBackend | None = None

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState:
        """The value kept for the current key."""
        return self._keyed_backend(state_descriptor).value_state(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState:
        """The list kept for the current key."""
        return self._keyed_backend(state_descriptor).list_state(state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState:
        """The map kept for the current key."""
        return self._keyed_backend(state_descriptor).map_state(state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState:
        """The reduced value kept for the current key."""
        return self._keyed_backend(state_descriptor).reducing_state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState:
        """The accumulator kept for the current key."""
        return self._keyed_backend(state_descriptor).aggregating_state(state_descriptor)

    def _keyed_backend(self, descriptor: StateDescriptor) -> KeyedStateBackend:
        if self.backend is None:
            raise TypeError(
                f"state {descriptor.name!r} of {self.task_name!r} needs a keyed stream: call key_by first"
            )
        return self.backend


class RuntimeContext(KeyedStateStore, eq=False, kw_only=True):
    """What a function may know of the subtask it runs in (Flink: RuntimeContext).

    The fields are what the engine makes it from; functions ask by the methods, which are Flink's.
    """

    subtask: int
    parallelism: int
    max_parallelism: int
    attempt: str
    clock: Callable[[], int]
    pass_point: Callable[[str, int], None]

    def get_task_name(self) -> str:
        """Name of the vertex, without the subtask's index."""
        return self.task_name

    def get_index_of_this_subtask(self) -> int:
        """Index of this subtask, counted from 0."""
        return self.subtask

    def get_number_of_parallel_subtasks(self) -> int:
        """Parallelism of the vertex."""
        return self.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Max parallelism of the vertex: the number of its key groups."""
        return self.max_parallelism

    def get_attempt_id(self) -> str:
        """``incarnation.number`` of the attempt, unique over all restarts of the job."""
        return self.attempt

    def get_current_processing_time(self) -> int:
        """Milliseconds since the epoch, as of the event in hand."""
        return self.clock()

    def probe(self, point: str, checkpoint_id: int) -> None:
        """Tell whoever watches that the function passes a protocol point; it may raise."""
        self.pass_point(point, checkpoint_id)


class Function:
    """Base of all user functions (Flink: RichFunction)."""

    _runtime_context: RuntimeContext | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once in each attempt, after state is restored and before the first record."""

    def close(self) -> None:
        """Called at the orderly end and at cancellation, never after a crash."""

    def get_runtime_context(self) -> RuntimeContext:
        """The context of this subtask, once the task has set it."""
        if self._runtime_context is None:
            raise RuntimeError(f"{type(self).__name__} has no runtime context before its task is restored")
        return self._runtime_context

    def set_runtime_context(self, runtime_context: RuntimeContext) -> None:
        """Called by the operator before any other method."""
        self._runtime_context = runtime_context


class MapFunction(Function, ABC):
    """One value in, one value out."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """The value that replaces ``value``."""


class FilterFunction(Function, ABC):
    """Keeps some values."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether to keep ``value``."""


class FlatMapFunction(Function, ABC):
    """One value in, any number out."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """The values that replace ``value``; a generator is the usual form."""


class ReduceFunction(Function, ABC):
    """Combines two values of a type into one of the same type."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """``value1`` is what was reduced so far, ``value2`` the new one."""


class AggregateFunction(Function, ABC):
    """Adds values to an accumulator, from which a result follows (PyFlink: AggregateFunction)."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """A new accumulator, which is not None."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with a value added: a new one, or the same one changed."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """The result of what was added."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """One accumulator of two; only merging windows and bundles need it."""


class KeySelector(Function, ABC):
    """Extracts the key of a value."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """The key: hashable, and the same for equal values."""


class ProcessFunction(Function, ABC):
    """Any number of values out, with access to the record's timestamp.

    A value ``(tag, value)``, where tag is an OutputTag, goes to the side output of that tag.
    """

    class Context:
        """What is known of the record in hand; one object serves all records."""

        __slots__ = ("_service", "_timestamp")

        def __init__(self, service: TimerService) -> None:
            self._timestamp: int | None = None
            self._service = service

        def timestamp(self) -> int | None:
            """Event time of the record in milliseconds, or None."""
            return self._timestamp

        def timer_service(self) -> TimerService:
            """The times; only a keyed stream has timers."""
            return self._service

        def current_processing_time(self) -> int:
            """Milliseconds since the epoch."""
            return self._service.current_processing_time()

    @abstractmethod
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """The values to emit for ``value``; a generator is the usual form."""


class KeyedProcessFunction(Function, ABC):
    """A ProcessFunction over a keyed stream: its state is that of the record's key, and it has timers."""

    class Context(ProcessFunction.Context):
        """As ProcessFunction.Context, and the key."""

        __slots__ = ("_backend",)

        def __init__(self, service: TimerService, backend: KeyedStateBackend) -> None:
            self._timestamp = None
            self._service = service
            self._backend = backend

        def get_current_key(self) -> Any:
            """Key of the record or timer in hand."""
            return self._backend.current_key

    class OnTimerContext(Context):
        """As Context; ``timestamp`` is that of the timer."""

        __slots__ = ("_domain",)

        _domain: TimeDomain

        def time_domain(self) -> TimeDomain:
            """The kind of time in which the timer was registered."""
            return self._domain

    @abstractmethod
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """The values to emit for ``value``; a generator is the usual form."""

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """The values to emit as a timer of the current key fires; none by default."""


class SinkFunction(Function):
    """Takes values out of the job (Flink: SinkFunction)."""

    class Context:
        """What is known of the record in hand."""

        __slots__ = ("_clock", "_timestamp")

        def __init__(self, clock: Callable[[], int]) -> None:
            self._timestamp: int | None = None
            self._clock = clock

        def timestamp(self) -> int | None:
            """Event time of the record in milliseconds, or None."""
            return self._timestamp

        def current_processing_time(self) -> int:
            """Milliseconds since the epoch."""
            return self._clock()

    def invoke(self, value: Any, context: Any) -> None:
        """Take one value."""
        raise NotImplementedError(f"{type(self).__name__} must implement invoke(value, context)")

    def invoke_batch(self, values: list[Any]) -> bool:
        """Take several values at once; False where the function wants them one by one through invoke."""
        return False

    def finish(self) -> None:
        """Called at the end of the input, before the final checkpoint."""


class FunctionInitializationContext(Struct, eq=False):
    """Handed to CheckpointedFunction.initialize_state (Flink: FunctionInitializationContext)."""

    _restored_checkpoint_id: int | None
    _store: OperatorStateStore
    _settled: bool = False
    _keyed_store: KeyedStateStore | None = None
    _raw_operator: Sequence[StatePartition] = ()
    _raw_keyed: Sequence[KeyGroupStatePartition] = ()

    def is_settled(self) -> bool:
        """Whether somebody else commits what checkpoints list, and has done so for the restored one.

        Then the function's life ends with its next snapshot. See CommittingFunction.
        """
        return self._settled

    def is_restored(self) -> bool:
        """Whether the job was restored from a checkpoint, even if this operator has no state in it."""
        return self._restored_checkpoint_id is not None

    def get_restored_checkpoint_id(self) -> int | None:
        """Id of that checkpoint, or None at a fresh start."""
        return self._restored_checkpoint_id

    def get_operator_state_store(self) -> OperatorStateStore:
        """Where operator state lives."""
        return self._store

    def get_keyed_state_store(self) -> KeyedStateStore:
        """Where keyed state lives; on a stream that is not keyed, asking it for state raises TypeError."""
        return self._keyed_store or KeyedStateStore(task_name="the operator")

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState:
        """Short for ``get_operator_state_store().get_list_state``."""
        return self._store.get_list_state(descriptor)

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> ListState:
        """Short for ``get_operator_state_store().get_union_list_state``."""
        return self._store.get_union_list_state(descriptor)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState:
        """Short for ``get_operator_state_store().get_broadcast_state``."""
        return self._store.get_broadcast_state(state_descriptor)

    def get_raw_operator_state_inputs(self) -> Sequence[StatePartition]:
        """The partitions of raw operator state that fell to this subtask."""
        return self._raw_operator

    def get_raw_keyed_state_inputs(self) -> Sequence[KeyGroupStatePartition]:
        """The raw state of this subtask's key groups, in their order."""
        return self._raw_keyed


class FunctionSnapshotContext(Struct, eq=False):
    """Handed to CheckpointedFunction.snapshot_state (Flink: FunctionSnapshotContext)."""

    _checkpoint_id: int
    _timestamp_ms: int
    _key_group_range: tuple[int, int] | None = None
    _raw_operator: OperatorStateOutput | None = None
    _raw_keyed: KeyedStateOutput | None = None

    def get_raw_operator_state_output(self) -> OperatorStateOutput:
        """Where to write bytes that belong to the subtask, in partitions."""
        if self._raw_operator is None:
            self._raw_operator = OperatorStateOutput()
        return self._raw_operator

    def get_raw_keyed_operator_state_output(self) -> KeyedStateOutput:
        """Where to write bytes that belong to key groups.

        Raises TypeError where the stream is not keyed.
        """
        if self._key_group_range is None:
            raise TypeError("raw keyed state needs a keyed stream: call key_by first")
        if self._raw_keyed is None:
            self._raw_keyed = KeyedStateOutput(self._key_group_range)
        return self._raw_keyed

    def get_checkpoint_id(self) -> int:
        """Id of the checkpoint being taken."""
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        """When the job master triggered it, in milliseconds since the epoch."""
        return self._timestamp_ms


class CheckpointedFunction(ABC):
    """Mixed into a function that keeps operator state (Flink: CheckpointedFunction)."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Called in each attempt before ``open``."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the registered state up to date; the engine copies it right afterwards."""


class CheckpointListener:
    """Mixed into a function that wants to hear of checkpoints (Flink: CheckpointListener)."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is durable. May be missed, never comes twice for one id."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will not complete. May be missed."""


class CommittingFunction(Function, CheckpointedFunction, CheckpointListener):
    """Commits what complete checkpoints list, to a world outside.

    Usually the function does so itself, when it is notified or restored. Where a task does not outlive a
    checkpoint (on Spark), the driver does it: a function made for the purpose is asked to ``settle``, and
    when those of all subtasks have, to ``abort_unlisted``; it never sees a record.
    """

    @abstractmethod
    def settle(self, context: FunctionInitializationContext) -> None:
        """Commit what the restored checkpoint lists, and abort what it lists as open."""

    @abstractmethod
    def abort_unlisted(self) -> None:
        """Abort whatever is not committed: every checkpoint is settled, and nothing of the job runs."""
