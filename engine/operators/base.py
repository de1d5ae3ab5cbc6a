"""The operator interface, and the base of operators around user functions (Flink: StreamOperator).

The rules this module lives by:

- An operator maps a list of records to a list of records, one Python call for each buffer, so that the cost
  of the call is spread over the buffer.
- State changes only inside these calls. The task calls ``snapshot`` between two of them.
- What a function returns is made the engine's own before the function is called again or resumes, because it
  may change its lists and dicts then (``engine/owned.py``). The loops of maps, flat maps and process
  functions ask for the hash of a tuple themselves: a call for each record would cost them a twentieth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct, field

from onceproof.engine.configuration.backend_options import HASHMAP, ROCKSDB
from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.configuration.options import FAIL
from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK, Record
from onceproof.engine.errors import Ending
from onceproof.engine.functions import (
    CheckpointedFunction,
    CheckpointListener,
    Function,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedStateStore,
    RuntimeContext,
)
from onceproof.engine.metrics import MetricRegistry
from onceproof.engine.operators.async_requests import MakeRequests, no_requests
from onceproof.engine.operators.declared_output import DeclaredOutput
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.owned import Own, ValueWatch, own_result
from onceproof.engine.state.backend_factory import backend_factory
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.occurrences import Occurrence
from onceproof.engine.state.operator import OperatorStateStore
from onceproof.engine.state.raw import RAW, StatePartition, partitions_of, without_raw
from onceproof.engine.state.rocksdb.databases import Databases
from onceproof.engine.state.snapshot import OperatorSnapshot
from onceproof.engine.state.timers import Timers
from onceproof.engine.state.ttl_states import Lifetime
from onceproof.engine.types import TypeInformation
from onceproof.engine.wall_clock import WallClock

Emit: TypeAlias = Callable[[list[Record]], None]
ProcessBatch: TypeAlias = Callable[[list[Record], int], list[Record]]

KeySelector: TypeAlias = Callable[[Any], Any]

NO_SIDE_OUTPUTS: Final[Mapping[str, Sequence[Emit]]] = {}


class Downstream(Protocol):
    """The rest of the chain, for operators that emit watermarks or need timers (Flink: Output).

    An operator emits the records that it has collected before it emits a watermark or a status, so that their
    order is kept.
    """

    def emit(self, records: list[Record]) -> None:
        """Emit records to the next operator."""

    def watermark(self, timestamp: int) -> None:
        """Emit a watermark to the next operator, behind all records emitted before."""

    def status(self, is_idle: bool) -> None:
        """Emit that this stream has become idle or active."""

    def wake_at(self, due_ms: int) -> None:
        """Request a call of ``process_time`` at a processing time or later.

        The driver keeps only the earliest request of a task: an operator that is called requests again. It
        may be called too early, because the wall clock was set back meanwhile.
        """

    def wake_at_steady(self, due_ms: int) -> None:
        """Request a call of ``process_time`` at a time of ``OperatorContext.steady_clock`` or later."""


class HoldsWatermark(Protocol):
    """What keeps the current watermark of an operator: its timers, or its timer service."""

    watermark: int


class InputOrder(Struct, frozen=True):
    """In which order an operator takes its inputs in BATCH mode (Flink: StreamConfig.InputRequirement).

    ``keys`` has an entry for each input. A selector: the records come key by key, in the order of their
    timestamps. IN_TURN: in the order of arrival, behind the inputs with None. None: as they come, first.
    """

    keys: tuple[KeySelector | None, ...]
    key_type: TypeInformation | None = None


def IN_TURN(value: Any) -> Any:  # noqa: N802
    """Stand for the key selector of an input without keys."""


def no_wake_up() -> None:
    """Do nothing: the driver polls by itself."""


class OperatorContext(Struct, kw_only=True):
    """The argument of ``Operator.open``: the identity of the subtask and its restored state.

    ``keyed`` and ``operator`` are the restored state from ``read_assignment``; None at a fresh start, and for
    an operator that the restored job did not have. ``restored_checkpoint_id`` is set whenever the job was
    restored, even if this operator has no state. ``settled``: see FunctionInitializationContext.
    ``downstream`` is set for operators that use time. ``side_outputs`` are the side outputs that the job
    reads, by tag id.
    """

    task_name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    key_groups: tuple[int, int]
    attempt: str
    clock: Callable[[], int]
    """Processing time, by the wall clock."""
    steady_clock: Callable[[], int]
    """The driver's clock, by which intervals are measured: it never jumps."""
    probe: Callable[[str, int], None]
    job_id: str = ""
    operator_id: str = ""
    scope: str = ""
    """See `engine/owner_ids.py`."""
    operator_name: str = ""
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    source_on_change: str = FAIL
    """What a source does when its input is not what it was."""
    metrics: MetricRegistry = field(default_factory=MetricRegistry)
    restored_checkpoint_id: int | None = None
    keyed: Any = None
    operator: Any = None
    native: Any = ()
    has_finished: bool = False
    """Whether all subtasks of the operator had ended their data when the restored checkpoint was taken."""
    state_backend: StateBackendSettings = StateBackendSettings()
    databases: Databases | None = None
    """Opens databases; None: RocksDB does."""
    allow_pickle: bool = False
    settled: bool = False
    downstream: Downstream | None = None
    auto_watermark_interval_ms: int = 0
    key_by_key: bool = False
    """Whether the records come key by key, so that only the current key has state and timers."""
    side_outputs: Mapping[str, Sequence[Emit]] = NO_SIDE_OUTPUTS
    wake_up: Callable[[], None] = no_wake_up
    """Has a source polled that had nothing to read, or the operators called; any thread may call it."""
    requests: MakeRequests = no_requests
    """Runs the coroutines of the operator."""
    own: Own = own_result
    """What makes emitted values the engine's own."""
    settled_kind: type | None = None
    """The class of what the operator emits, if its type is declared and has nothing but scalars."""
    value_watch: ValueWatch | None = None

    def runtime_context(self, backend: KeyedStateBackend | None = None) -> RuntimeContext:
        """Return the context for user functions."""
        return RuntimeContext(
            task_name=self.task_name,
            subtask=self.subtask,
            parallelism=self.parallelism,
            max_parallelism=self.max_parallelism,
            attempt=self.attempt,
            clock=self.clock,
            pass_point=self.probe,
            job_id=self.job_id,
            operator_id=self.operator_id,
            scope=self.scope,
            operator_name=self.operator_name,
            job_parameters=self.job_parameters,
            metrics=self.metrics,
            backend=backend,
        )

    def keyed_backend(self, key_type: TypeInformation | None) -> KeyedStateBackend:
        """Return a keyed backend over this subtask's key groups, with its restored state."""
        settings = self.state_backend
        backend: KeyedStateBackend
        if settings.kind == HASHMAP or self.key_by_key:
            # The state of a single key needs no other backend (Flink: BatchExecutionKeyedStateBackend).
            backend = HashMapStateBackend(self.max_parallelism, self.key_groups, key_type, self.clock)
            backend.key_by_key = self.key_by_key
        elif settings.kind != ROCKSDB:
            factory = backend_factory(settings.kind)
            backend = factory.create_keyed_state_backend(
                self.max_parallelism, self.key_groups, key_type, self.clock
            )
        else:
            # Imported late: only jobs with this backend need rocksdict.
            from onceproof.engine.state.rocksdb.backend import RocksDBStateBackend

            backend = RocksDBStateBackend(
                self.max_parallelism, self.key_groups, key_type, self.clock, settings
            )
        backend.allow_pickle, backend.operator_name = self.allow_pickle, self.operator_name
        backend.value_watch, backend.databases = self.value_watch, self.databases
        if self.keyed is not None:
            backend.restore(without_raw(self.keyed), self.native, allow_pickle=self.allow_pickle)
        return backend

    def operator_store(self) -> OperatorStateStore:
        """Return the operator state of this subtask, with its restored state."""
        store = OperatorStateStore(allow_pickle=self.allow_pickle, operator_name=self.operator_name)
        if self.operator is not None:
            store.restore(without_raw(self.operator), allow_pickle=self.allow_pickle)
        return store

    def initialization_context(
        self, store: OperatorStateStore, keyed_store: KeyedStateStore
    ) -> FunctionInitializationContext:
        """Return the argument of ``CheckpointedFunction.initialize_state``."""
        raw_keyed = self.keyed.get(RAW) if self.keyed else None
        raw_operator = self.operator.get(RAW) if self.operator else None
        return FunctionInitializationContext(
            self.restored_checkpoint_id,
            store,
            self.settled,
            keyed_store,
            () if raw_operator is None else list(map(StatePartition, raw_operator.elements)),
            () if raw_keyed is None else partitions_of(raw_keyed.within(*self.key_groups)),
        )


class Operator:
    """One operator of a chain, in one subtask (Flink: StreamOperator).

    By default an operator has no state and emits nothing; subclasses override what they need.
    """

    is_source = False
    uses_time = False
    """Whether the operator needs ``downstream``: it waits for times, or generates watermarks."""
    passes_watermarks = True
    """Whether the task forwards a watermark to the next operator after this one has processed it."""
    passes_status = True
    """Whether the task forwards that the stream is idle or active to the next operator."""
    timers: Timers | None = None
    """The timers of its keys, once an operator with timers is open."""

    may_hold_input = False
    """Whether ``holds_input`` and ``is_busy`` may be true; only the head of a chain may have it so."""

    @property
    def holds_input(self) -> bool:
        """Return whether the task must take no records now."""
        return False

    @property
    def is_busy(self) -> bool:
        """Return whether the end of the input must wait."""
        return False

    def open(self, context: OperatorContext) -> None:
        """Restore state and open the user's function."""

    def in_batch(self) -> Operator:
        """Return the operator that takes the place of this one, not yet opened, in BATCH mode."""
        return self

    def input_order(self) -> InputOrder | None:
        """Return in which order the operator takes its inputs in BATCH mode; None: as they come."""
        return None

    def end_key(self) -> list[Record]:
        """Handle the end of the current key's records in BATCH mode, and return the records to emit."""
        return []

    def applies(self, declared: DeclaredOutput) -> bool:
        """Return whether the operator itself makes its results values of their declared type.

        The task asks before ``open``, and applies the type behind the operator if the answer is no.
        """
        return False

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Return the records to emit for ``records``, in order."""
        raise NotImplementedError

    def process_watermark(self, timestamp: int) -> list[Record]:
        """Process a watermark, and return the records to emit before it."""
        return []

    def process_time(self, now: int) -> list[Record]:
        """Handle a wake-up at processing time ``now``, and return the records to emit.

        Another operator of the task may have requested the wake-up.
        """
        return []

    def next_due_ms(self, wall_clock: WallClock) -> int | None:
        """Return by when ``process_time`` must be called, by the steady clock; None: it waits for no time.

        Whatever an operator waits for, it says so here: its task is checked to be woken by then.
        Timers are in processing time, which is that of ``wall_clock``.
        """
        timers = self.timers
        if timers is None:
            return None
        timestamp = timers.processing.next_timestamp()
        return None if timestamp is None else timestamp - wall_clock.ahead_ms

    def validate(self) -> None:
        """Check what must hold between any two events; called for operators with ``uses_time``."""

    def stop_with(self, checkpoint_id: int) -> None:
        """Note that the job stops with the savepoint whose snapshot is taken next."""

    def transaction_counts(self) -> tuple[int, int] | None:
        """Return how many transactions are open, and how many await their checkpoint; None: it has none."""
        return None

    def event_time(self) -> Any:
        """Return what the operator knows of event time, which can be pickled; None: nothing."""
        return None

    def resume_event_time(self, known: Any) -> None:
        """Go on with the event time of the operator that this one replaces within the attempt.

        Called after ``open`` and before anything else, with what ``event_time`` of that operator returned.
        Nothing fires: what was due has fired there.
        """

    def finish(self) -> list[Record]:
        """Handle the end of the input, and return the last records to emit (Flink: endInput, finish)."""
        return []

    def commit_without_checkpoints(self, now: int) -> None:
        """Commit all output, at the end of the input of a job that takes no checkpoints."""

    def prepare_snapshot(self, checkpoint_id: int) -> list[Record]:
        """Return the records to emit before the barrier (Flink: prepareSnapshotPreBarrier)."""
        return []

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot | None:
        """Return the synchronous part of a snapshot, which later changes do not reach; None without state."""
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """React to a durable checkpoint."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """React to a checkpoint that will not complete."""

    def close(self) -> None:
        """Release resources; called when the task finishes or is cancelled, never after a crash."""


def close_all(operators: Iterable[Operator]) -> None:
    """Close all operators even if some fail, then raise the first error."""
    first_error: BaseException | None = None
    for operator in operators:
        try:
            operator.close()
        except Ending:
            raise
        except BaseException as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error


@lru_cache(maxsize=1024)
def _roles_of(kind: Any) -> tuple[bool, bool]:
    """Return whether a class is a CheckpointedFunction, and whether it is a CheckpointListener.

    Cached, because ``issubclass`` of an abstract class costs more than opening the rest of an operator.
    """
    return issubclass(kind, CheckpointedFunction), issubclass(kind, CheckpointListener)


class FunctionOperator(Operator):
    """An operator around one user function (Flink: AbstractUdfStreamOperator)."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._store: OperatorStateStore | None = None
        self._backend: KeyedStateBackend | None = None
        self._checkpointed: CheckpointedFunction | None = None
        self._listener: CheckpointListener | None = None
        self._own: Own = own_result
        self._settled_kind: type | None = None
        self.event_clock: HoldsWatermark | None = None
        """What keeps the operator's watermark; operators that know event time set it in ``open``."""

    def open(self, context: OperatorContext) -> None:
        """Set the context, initialise state, open the function: Flink's order."""
        self._backend = self.create_backend(context)
        self._own = context.own
        self._settled_kind = context.settled_kind
        function: Any = self.function
        runtime_context = context.runtime_context(self._backend)
        function.set_runtime_context(runtime_context)
        is_checkpointed, listens = _roles_of(function.__class__)
        self._listener = function if listens else None
        if is_checkpointed:
            self._checkpointed = function
            if self._store is None:
                self._store = context.operator_store()
            function.initialize_state(context.initialization_context(self._store, runtime_context))
        function.open(runtime_context)

    def settled_kind(self) -> type | None:
        """Return the class whose results need no look, because their declared type has nothing but scalars.

        None: there is none. A side output emits what it likes, in a tuple with its tag.
        """
        return None if OutputTag.exist else self._settled_kind

    def end_key(self) -> list[Record]:
        """Fire all timers of the key, and forget its state (Flink: BatchExecutionInternalTimeService)."""
        timers = self.timers
        if timers is not None:
            timers.close(is_closed=True)
        results = [*self.process_watermark(MAX_WATERMARK), *self.process_time(MAX_WATERMARK)]
        if timers is not None:
            timers.close(is_closed=False)
        if self.event_clock is not None:
            self.event_clock.watermark = MIN_WATERMARK
        if self._backend is not None:
            self._backend.forget_all()
        return results

    def event_time(self) -> int | None:
        clock = self.event_clock
        return None if clock is None or clock.watermark == MIN_WATERMARK else clock.watermark

    def resume_event_time(self, known: Any) -> None:
        if self.event_clock is not None:
            self.event_clock.watermark = known

    @property
    def has_keyed_state(self) -> bool:
        """Return whether the operator has been opened with a backend for keyed state."""
        return self._backend is not None

    @property
    def state_lifetimes(self) -> Mapping[str, Lifetime]:
        """Return the lifetime of each keyed state that has a time to live."""
        return {} if self._backend is None else self._backend.lifetimes()

    @property
    def restored_reads(self) -> Mapping[str, Occurrence]:
        """Return of each keyed state with restored entries, in a trial, whether any of them was read."""
        return {} if self._backend is None else self._backend.restored_reads()

    def create_backend(self, context: OperatorContext) -> KeyedStateBackend | None:
        """Return the keyed backend; operators on keyed streams override this."""
        return None

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot | None:
        """Let the function update its state, then copy operator state and keyed state."""
        operator_state = None
        context = None
        backend = self._backend
        if self._checkpointed is not None:
            key_groups = None if backend is None else backend.key_group_range
            context = FunctionSnapshotContext(checkpoint_id, timestamp_ms, key_groups)
            self._checkpointed.snapshot_state(context)
        if self._store is not None:
            operator_state = self._store.snapshot()
        keyed_state = None if backend is None else backend.snapshot(checkpoint_id)
        if keyed_state is None and operator_state is None:
            return None
        snapshot = OperatorSnapshot(keyed_state, operator_state)
        if context is not None:
            snapshot.raw_operator, snapshot.raw_keyed = context.written_raw_state()
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._backend is not None:
            self._backend.notify_checkpoint_complete(checkpoint_id)
        if self._listener is not None:
            self._listener.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        if self._backend is not None:
            self._backend.notify_checkpoint_aborted(checkpoint_id)
        if self._listener is not None:
            self._listener.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        try:
            self.function.close()
        finally:
            if self._backend is not None:
                self._backend.close()
