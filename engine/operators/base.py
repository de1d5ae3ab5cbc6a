"""What every operator of a chain answers to.

An operator turns a list of records into a list of records: one Python call a buffer and operator, so that
the cost of a call is spread over the buffer. State changes happen inside these calls; the task calls
``snapshot`` between two of them, never within one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct

from onceproof.engine.configuration.backend_options import HASHMAP
from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.elements import Record
from onceproof.engine.functions import (
    CheckpointedFunction,
    CheckpointListener,
    Function,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedStateStore,
    RuntimeContext,
)
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.operator import OperatorStateStore
from onceproof.engine.state.raw import RAW, StatePartition, partitions_of, without_raw
from onceproof.engine.state.snapshot import OperatorSnapshot
from onceproof.engine.types import TypeInformation

Emit: TypeAlias = Callable[[list[Record]], None]
ProcessBatch: TypeAlias = Callable[[list[Record], int], list[Record]]

NO_SIDE_OUTPUTS: Final[Mapping[str, Sequence[Emit]]] = {}


class Downstream(Protocol):
    """What lies behind an operator, for the few that give more than records in answer to records.

    Whoever sends something this way sends first what he has collected: order is what watermarks live by.
    """

    def emit(self, records: list[Record]) -> None:
        """Send records on."""

    def watermark(self, timestamp: int) -> None:
        """Send a watermark on; it reaches each operator behind what that one gave before."""

    def status(self, is_idle: bool) -> None:
        """Send word of idleness, or of its end, on."""

    def wake_at(self, due_ms: int) -> None:
        """Have ``process_time`` called at that processing time or later.

        Only the earliest wish counts: whoever is called says again what comes next.
        """


class OperatorContext(Struct, kw_only=True):
    """What a task gives an operator when it opens: who it is and what it resumes from.

    ``keyed`` and ``operator`` are the restored state as ``read_assignment`` gave it; None at a fresh start
    and for an operator that the restored job did not have. ``restored_checkpoint_id`` is set whenever the
    job was restored, even where this operator has no state. ``settled``: see FunctionInitializationContext.
    ``downstream`` is given to operators that use time. ``side_outputs`` are those that somebody reads, by
    the id of their tag.
    """

    task_name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    key_groups: tuple[int, int]
    attempt: str
    clock: Callable[[], int]
    probe: Callable[[str, int], None]
    restored_checkpoint_id: int | None = None
    keyed: Any = None
    operator: Any = None
    native: Any = ()
    state_backend: StateBackendSettings = StateBackendSettings()
    allow_pickle: bool = False
    settled: bool = False
    downstream: Downstream | None = None
    auto_watermark_interval_ms: int = 0
    side_outputs: Mapping[str, Sequence[Emit]] = NO_SIDE_OUTPUTS

    def runtime_context(self, backend: KeyedStateBackend | None = None) -> RuntimeContext:
        """The part of it that user functions see."""
        return RuntimeContext(
            task_name=self.task_name,
            subtask=self.subtask,
            parallelism=self.parallelism,
            max_parallelism=self.max_parallelism,
            attempt=self.attempt,
            clock=self.clock,
            pass_point=self.probe,
            backend=backend,
        )

    def keyed_backend(self, key_type: TypeInformation | None) -> KeyedStateBackend:
        """A keyed backend over this subtask's key groups, restored where there is something to restore."""
        settings = self.state_backend
        backend: KeyedStateBackend
        if settings.kind == HASHMAP:
            backend = HashMapStateBackend(self.max_parallelism, self.key_groups, key_type, self.clock)
        else:
            # Its library is loaded where it is used, and by nobody else.
            from onceproof.engine.state.rocksdb.backend import RocksDBStateBackend

            backend = RocksDBStateBackend(
                self.max_parallelism, self.key_groups, key_type, self.clock, settings
            )
        if self.keyed is not None:
            backend.restore(without_raw(self.keyed), self.native, allow_pickle=self.allow_pickle)
        return backend

    def operator_store(self) -> OperatorStateStore:
        """The operator state of this subtask, restored where there is something to restore."""
        store = OperatorStateStore()
        if self.operator is not None:
            store.restore(without_raw(self.operator), allow_pickle=self.allow_pickle)
        return store

    def initialization_context(
        self, store: OperatorStateStore, keyed_store: KeyedStateStore
    ) -> FunctionInitializationContext:
        """What a function that keeps state of its own is initialised with."""
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
    """One operator of a chain, in one subtask.

    Subclasses override what they need; by default an operator has no state and passes nothing on.
    """

    is_source = False
    uses_time = False
    """Whether the operator needs ``downstream``: it has timers, or makes watermarks."""
    passes_watermarks = True
    """Whether a watermark that it has processed goes on to the next operator."""

    def open(self, context: OperatorContext) -> None:
        """Restore state and open the user's function."""

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """The records that follow from ``records``, in order."""
        raise NotImplementedError

    def process_watermark(self, timestamp: int) -> list[Record]:
        """Event time has reached ``timestamp``: what follows, ahead of the watermark."""
        return []

    def process_time(self, now: int) -> list[Record]:
        """A time asked for by ``wake_at`` has come, perhaps another operator's: what follows."""
        return []

    def finish(self) -> list[Record]:
        """The input has ended: the last records, if any (Flink: endInput, finish)."""
        return []

    def prepare_snapshot(self, checkpoint_id: int) -> list[Record]:
        """Records to emit before the barrier (Flink: prepareSnapshotPreBarrier)."""
        return []

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot | None:
        """The synchronous part of a snapshot, isolated from later changes; None where there is no state."""
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is durable."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will not complete."""

    def close(self) -> None:
        """Orderly end or cancellation."""


def close_all(operators: Iterable[Operator]) -> None:
    """Close every operator, though one of them cannot; the first error is raised afterwards."""
    first_error: Exception | None = None
    for operator in operators:
        try:
            operator.close()
        except Exception as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error


@lru_cache(maxsize=1024)
def _roles_of(kind: Any) -> tuple[bool, bool]:
    """Whether functions of a class keep state of their own, and whether they listen for checkpoints.

    Asking an abstract class itself costs more than opening the rest of an operator.
    """
    return issubclass(kind, CheckpointedFunction), issubclass(kind, CheckpointListener)


class FunctionOperator(Operator):
    """An operator around one user function: its contexts, operator state and notifications."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._store: OperatorStateStore | None = None
        self._backend: KeyedStateBackend | None = None
        self._checkpointed: CheckpointedFunction | None = None
        self._listener: CheckpointListener | None = None

    def open(self, context: OperatorContext) -> None:
        """Set the context, initialise state, open: Flink's order."""
        self._backend = self.create_backend(context)
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

    def create_backend(self, context: OperatorContext) -> KeyedStateBackend | None:
        """The keyed backend, for operators on keyed streams."""
        return None

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot | None:
        """The function brings its state up to date, then both kinds of state are copied."""
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
            if context._raw_operator is not None:
                snapshot.raw_operator = context._raw_operator.partitions()
            if context._raw_keyed is not None:
                snapshot.raw_keyed = context._raw_keyed.streams()
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the state, and the function if it listens."""
        if self._backend is not None:
            self._backend.notify_checkpoint_complete(checkpoint_id)
        if self._listener is not None:
            self._listener.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tell the state, and the function if it listens."""
        if self._backend is not None:
            self._backend.notify_checkpoint_aborted(checkpoint_id)
        if self._listener is not None:
            self._listener.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Close the function, and let go of the state."""
        try:
            self.function.close()
        finally:
            if self._backend is not None:
                self._backend.close()
