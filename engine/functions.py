"""The functions that a user of the engine implements, under PyFlink's names.

Interfaces that PyFlink lacks (sink functions in Python, operator state, checkpoint listeners) take the names
of Flink's Java API in snake_case. User functions are ordinary synchronous Python. Each subtask has its own
copy, one task calls it at a time, and it reaches the world only through its context.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from onceproof.engine.elements import MIN_WATERMARK, Record
from onceproof.engine.key_identity import value_of
from onceproof.engine.runtime_context import KeyedStateStore as KeyedStateStore
from onceproof.engine.runtime_context import RuntimeContext as RuntimeContext
from onceproof.engine.state.raw import KeyedStateOutput, OperatorStateOutput
from onceproof.engine.timer_service import TimeDomain, TimerService
from onceproof.engine.type_parameters import TypeParameters

if TYPE_CHECKING:
    from onceproof.engine.state.descriptors import ListStateDescriptor, MapStateDescriptor
    from onceproof.engine.state.interfaces import BroadcastState, ListState
    from onceproof.engine.state.keyed import KeyedStateBackend
    from onceproof.engine.state.operator import OperatorStateStore
    from onceproof.engine.state.raw import KeyGroupStatePartition, StatePartition


class Function(TypeParameters):
    """Base of all user functions (Flink: RichFunction)."""

    _runtime_context: RuntimeContext | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Set the function up; called once in each attempt, after the restore and before the first record.

        Args:
            runtime_context: the subtask's context, which gives keyed state.
        """

    def close(self) -> None:
        """Release resources; called when the task finishes or is cancelled, never after a crash."""

    def get_runtime_context(self) -> RuntimeContext:
        """Return the context of this subtask.

        Raises:
            RuntimeError: the task has not set the context yet.
        """
        if self._runtime_context is None:
            raise RuntimeError(f"{type(self).__name__} has no runtime context before its task is restored")
        return self._runtime_context

    def set_runtime_context(self, runtime_context: RuntimeContext) -> None:
        """Set the context; the operator calls this before any other method."""
        self._runtime_context = runtime_context


class MapFunction(Function, ABC):
    """Maps each value to one value (PyFlink: MapFunction)."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Return the value to emit for ``value``."""


class FilterFunction(Function, ABC):
    """Decides which values stay in the stream (PyFlink: FilterFunction)."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Return whether to keep ``value``."""


class FlatMapFunction(Function, ABC):
    """Maps each value to any number of values (PyFlink: FlatMapFunction)."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any]:
        """Return or yield the values to emit for ``value``."""


class ReduceFunction(Function, ABC):
    """Combines two values into one of the same type (PyFlink: ReduceFunction)."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the combination of two values.

        Args:
            value1: the result so far.
            value2: the new value.
        """


class AggregateFunction(Function, ABC):
    """Adds values to an accumulator and computes a result from it (PyFlink: AggregateFunction)."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Return a new, empty accumulator; never None."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Return the accumulator with ``value`` added: a new object, or the same one changed."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Return the result of an accumulator."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Return one accumulator for two; only merging windows and bundles call it."""


class KeySelector(Function, ABC):
    """Extracts the key of a value (PyFlink: KeySelector)."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Return the key of ``value``: hashable, and the same for equal values."""


class ProcessFunction(Function, ABC):
    """Maps each value to any number of values, with access to its timestamp (PyFlink: ProcessFunction).

    A value ``(tag, value)``, where ``tag`` is an OutputTag, goes to the side output of that tag.
    """

    class Context:
        """The context of the current record; one object serves all records."""

        __slots__ = ("element_timestamp", "time_service")

        def __init__(self, service: TimerService) -> None:
            self.element_timestamp: int | None = None
            self.time_service = service

        def timestamp(self) -> int:
            """Return the event time of the record in milliseconds; MIN_WATERMARK if it has none."""
            timestamp = self.element_timestamp
            return MIN_WATERMARK if timestamp is None else timestamp

        def timer_service(self) -> TimerService:
            """Return the service for times; only a keyed stream has timers."""
            return self.time_service

        def current_processing_time(self) -> int:
            """Return the wall clock in milliseconds since the epoch."""
            return self.time_service.current_processing_time()

    @abstractmethod
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit for ``value``."""

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit when a timer of the current key fires; none by default.

        Only a keyed stream has timers. PyFlink lacks this method (Flink: ProcessFunction.onTimer).

        Args:
            timestamp: the timer's timestamp in milliseconds.
            ctx: a KeyedProcessFunction.OnTimerContext.
        """


class KeyedProcessFunction(Function, ABC):
    """A ProcessFunction over a keyed stream, with keyed state and timers (PyFlink: KeyedProcessFunction)."""

    class Context(ProcessFunction.Context):
        """The context of the current record, with its key."""

        __slots__ = ("_backend",)

        def __init__(self, service: TimerService, backend: KeyedStateBackend) -> None:
            self.element_timestamp = None
            self.time_service = service
            self._backend = backend

        def get_current_key(self) -> Any:
            """Return the key of the current record or timer."""
            return value_of(self._backend.current_key)

    class OnTimerContext(Context):
        """The context of ``on_timer``; ``timestamp()`` returns that of the timer."""

        __slots__ = ("firing_domain",)

        firing_domain: TimeDomain

        def time_domain(self) -> TimeDomain:
            """Return the domain in which the timer was registered."""
            return self.firing_domain

    @abstractmethod
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit for ``value``."""

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """Return or yield the values to emit when a timer of the current key fires; none by default.

        Args:
            timestamp: the timer's timestamp in milliseconds.
            ctx: an OnTimerContext.
        """


class SinkFunction(Function):
    """Writes values to the world outside the job (Flink: SinkFunction)."""

    class Context:
        """The context of the current record."""

        __slots__ = ("_clock", "element_timestamp")

        def __init__(self, clock: Callable[[], int]) -> None:
            self.element_timestamp: int | None = None
            self._clock = clock

        def timestamp(self) -> int | None:
            """Return the event time of the record in milliseconds, or None."""
            return self.element_timestamp

        def current_processing_time(self) -> int:
            """Return the wall clock in milliseconds since the epoch."""
            return self._clock()

    def invoke(self, value: Any, context: Any) -> None:
        """Write one value.

        Args:
            value: the value of the record.
            context: a SinkFunction.Context with the record's timestamp.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement invoke(value, context)")

    def invoke_batch(self, values: list[Any]) -> bool:
        """Write several values at once.

        Returns:
            False if the function did nothing and the operator must call ``invoke`` for each value.
        """
        return False

    def invoke_records(self, records: list[Record]) -> bool:
        """Write several values at once with their timestamps; by default without, by ``invoke_batch``.

        Returns:
            False if the function did nothing and the operator must call ``invoke`` for each value.
        """
        return self.invoke_batch([record[0] for record in records])

    def finish(self) -> None:
        """Flush; the operator calls this at the end of the input, before the final checkpoint."""


class FunctionInitializationContext(Struct, eq=False):
    """The argument of CheckpointedFunction.initialize_state (Flink: FunctionInitializationContext)."""

    _restored_checkpoint_id: int | None
    _store: OperatorStateStore
    _settled: bool = False
    _keyed_store: KeyedStateStore | None = None
    _raw_operator: Sequence[StatePartition] = ()
    _raw_keyed: Sequence[KeyGroupStatePartition] = ()

    def is_settled(self) -> bool:
        """Return whether the driver commits in place of the function (on Spark).

        If so, the driver has committed what the restored checkpoint lists, and this copy of the function ends
        with its next snapshot. See CommittingFunction.
        """
        return self._settled

    def is_restored(self) -> bool:
        """Return whether the job was restored from a checkpoint, even one without state of this operator."""
        return self._restored_checkpoint_id is not None

    def get_restored_checkpoint_id(self) -> int | None:
        """Return the id of the restored checkpoint, or None at a fresh start."""
        return self._restored_checkpoint_id

    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store of operator state."""
        return self._store

    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return the store of keyed state; its methods raise TypeError if the stream is not keyed."""
        return self._keyed_store or KeyedStateStore(task_name="the operator")

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState:
        """Return a list of operator state that a rescaling splits among the subtasks."""
        return self._store.get_list_state(descriptor)

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> ListState:
        """Return a list of operator state of which every subtask restores all entries."""
        return self._store.get_union_list_state(descriptor)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState:
        """Return a map of operator state that is equal in all subtasks."""
        return self._store.get_broadcast_state(state_descriptor)

    def get_raw_operator_state_inputs(self) -> Sequence[StatePartition]:
        """Return the partitions of raw operator state that this subtask restores."""
        return self._raw_operator

    def get_raw_keyed_state_inputs(self) -> Sequence[KeyGroupStatePartition]:
        """Return the raw state of this subtask's key groups, in ascending order of key group."""
        return self._raw_keyed


class FunctionSnapshotContext(Struct, eq=False):
    """The argument of CheckpointedFunction.snapshot_state (Flink: FunctionSnapshotContext)."""

    _checkpoint_id: int
    _timestamp_ms: int
    _key_group_range: tuple[int, int] | None = None
    _raw_operator: OperatorStateOutput | None = None
    _raw_keyed: KeyedStateOutput | None = None

    def get_raw_operator_state_output(self) -> OperatorStateOutput:
        """Return the output for bytes that belong to the subtask, in partitions."""
        if self._raw_operator is None:
            self._raw_operator = OperatorStateOutput()
        return self._raw_operator

    def get_raw_keyed_operator_state_output(self) -> KeyedStateOutput:
        """Return the output for bytes that belong to key groups.

        Raises:
            TypeError: the stream is not keyed.
        """
        if self._key_group_range is None:
            raise TypeError("raw keyed state needs a keyed stream: call key_by directly before the operator")
        if self._raw_keyed is None:
            self._raw_keyed = KeyedStateOutput(self._key_group_range)
        return self._raw_keyed

    def written_raw_state(self) -> tuple[list[bytes], dict[int, bytes]]:
        """Return the raw state that the function wrote: operator state by partition, keyed by key group.

        The operator calls this after ``snapshot_state``.
        """
        operator, keyed = self._raw_operator, self._raw_keyed
        return [] if operator is None else operator.partitions(), {} if keyed is None else keyed.streams()

    def get_checkpoint_id(self) -> int:
        """Return the id of the checkpoint being taken."""
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        """Return when the job master triggered the checkpoint, in milliseconds since the epoch."""
        return self._timestamp_ms


class CheckpointedFunction(ABC):
    """Mix-in for a function with operator state (Flink: CheckpointedFunction)."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register and restore state; called once in each attempt, before ``open``."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the registered state up to date; the engine copies it right after the call."""


class CheckpointListener:
    """Mix-in for a function that is notified of checkpoints (Flink: CheckpointListener)."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """React to a durable checkpoint. A notification can be lost; it never comes twice for one id."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """React to a checkpoint that will not complete. A notification can be lost."""


class CommittingFunction(Function, CheckpointedFunction, CheckpointListener):
    """A function that commits to an external system what completed checkpoints list.

    Usually the function commits when it is notified or restored. Where a task does not outlive a checkpoint
    (on Spark), the driver commits: it makes one function for each subtask and calls ``settle`` on all of
    them, then one as if it were the only subtask, for ``abort_unlisted``. They never see a record.

    A job without checkpoints has no other commit than one at its end: the engine then takes one snapshot and
    notifies the function of it. No other function is notified in such a job.
    """

    @abstractmethod
    def settle(self, context: FunctionInitializationContext) -> None:
        """Commit what the restored checkpoint lists, and abort what it lists as open."""

    @abstractmethod
    def abort_unlisted(self) -> None:
        """Abort what is not committed; called when all subtasks have settled and no task of the job runs."""

    def stop_with(self, checkpoint_id: int) -> None:
        """Note that no checkpoint follows the savepoint whose snapshot is taken next; the job stops with it.

        What it lists is committed when the function is notified of it, or the function raises.
        """

    def transaction_counts(self) -> tuple[int, int]:
        """Return how many transactions are open, and how many wait for their checkpoint; for observers."""
        return 0, 0
