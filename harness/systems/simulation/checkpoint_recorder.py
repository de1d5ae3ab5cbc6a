"""Records checkpoints as they complete, with the world as it was then, for restores and comparisons.

The rules this module lives by:

- The recorder changes nothing: a run with it is the same step by step as a run without.
- It copies the files of the storage at that moment, and every transaction of the external system. A recorded
  checkpoint can be restored long after the job has deleted it.
- Event time begins anew in a restored job, its state does not: windows that had fired are gone. So the
  recorder knows of every checkpoint how far time ever came in what it goes back to, over all restores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from onceproof.engine.checkpoint.metadata import CheckpointMetadata, OperatorMetadata
from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK
from onceproof.engine.graph import JobGraph
from onceproof.engine.messages import SAVEPOINT
from onceproof.engine.operators.base import FunctionOperator
from onceproof.engine.task.events import StoreSnapshot
from onceproof.engine.task.input_time import InputTime
from onceproof.engine.task.task import Task
from onceproof.harness.model.history import (
    CHECKPOINT_COMPLETED,
    JOB_UPGRADED,
    ROWS_WRITTEN,
    SAVEPOINT_COMPLETED,
    TRANSACTION_VISIBLE,
    Cut,
    Event,
    History,
)
from onceproof.harness.systems.simulation.agenda import Clock
from onceproof.harness.systems.simulation.external_system import Outside, Transaction, TransactionalSystem
from onceproof.harness.systems.simulation.job_processes import JobProcesses
from onceproof.harness.systems.simulation.simulated_storage import SimulatedStorage

Progress: TypeAlias = tuple[Any, ...] | None
"""The watermark of each input of a task; None where none has arrived."""
Upstream: TypeAlias = Mapping[str, frozenset[str]]
"""By operator, those with keyed state that are before it."""

SEEN_BY_READERS: Final = frozenset((TRANSACTION_VISIBLE, ROWS_WRITTEN))
COMPLETIONS: Final = frozenset((CHECKPOINT_COMPLETED, SAVEPOINT_COMPLETED))


class RecordedCheckpoint(msgspec.Struct, frozen=True, eq=False):
    """A completed checkpoint and the world around it."""

    metadata: CheckpointMetadata
    cut: Cut
    files: Mapping[str, bytes]
    transactions: tuple[Transaction, ...]
    visible: tuple[Event, ...]
    """What readers had seen by then, and the completion of the checkpoint."""
    progress: Mapping[str, Progress]
    """By path of a snapshot, how far event time had come in the task that took it."""
    behind: frozenset[str]
    """Paths of the snapshots whose state has seen event time come further than it is now."""
    upstream: Upstream
    """By their ids."""
    is_overtaken: bool
    """Whether a later checkpoint was complete and committed before this savepoint was complete: more is
    visible than it covers, and a job that goes on from it commits that again."""
    now_ms: int
    """The steady clock, which does not go back when the checkpoint is restored."""
    ahead_ms: int
    """How far the wall clock was ahead of it."""
    is_first_since_restore: bool = False
    """Whether no other one was complete since the job went back to a checkpoint."""
    lifetimes: Mapping[tuple[str, str], int] = {}
    """By operator's id and keyed state, after how many milliseconds a value expires, where values do."""
    taken_ms: Mapping[str, int] = {}
    """By path of a snapshot, what the wall clock showed when it was taken."""
    events_before: int = 0
    """How many events the history had when the checkpoint was complete."""
    outside: Outside | None = None
    """What sinks of the user's had written."""
    has_models: bool = False
    """Whether its databases are models of RocksDB's."""

    @property
    def is_upgraded(self) -> bool:
        """Whether the new version of the job has taken it."""
        return any(kind == JOB_UPGRADED for _, kind, _, _ in self.visible)

    def is_delicate(self) -> bool:
        """Whether it has records in flight, or state that was restored and perhaps not touched since."""
        return self.is_first_since_restore or self.metadata.records_in_flight > 0


class CheckpointRecorder:
    """Records every checkpoint of a run as it completes."""

    def __init__(
        self,
        storage: SimulatedStorage,
        external: TransactionalSystem,
        history: History,
        clock: Clock,
        processes: JobProcesses,
    ) -> None:
        self.recorded: list[RecordedCheckpoint] = []
        self.has_models = False
        """Whether the run's databases are models of RocksDB's."""
        self._storage = storage
        self._external = external
        self._history = history
        self._clock = clock
        self._processes = processes
        self._progress: dict[str, Progress] = {}
        self._behind: set[str] = set()
        self._furthest: dict[str, int] = {}
        """By path of a snapshot, how far event time ever came in what it goes back to."""
        self._completed: dict[int, Mapping[str, int]] = {}
        """By id of a checkpoint and operator, how far event time ever came in any of its subtasks."""
        self._graph: JobGraph | None = None
        """The job as it last ran; which operator is before which is the same at any parallelism."""
        self._keyed: set[str] = set()
        """The ids of the operators that have keyed state."""
        self._steps: dict[int, int] = {}
        """By id of a checkpoint, the step at which it was complete."""
        self._lifetimes: dict[tuple[str, str], int] = {}
        self._taken_ms: dict[str, int] = {}
        self._restored: dict[str, Mapping[str, int]] = {}
        """By attempt, how far event time ever came in the checkpoint that it was restored from."""
        self._has_restored = False
        """Whether the job went back to a checkpoint and has completed none since."""

    def attempt_started(self, attempt: str, restored: int | None) -> None:
        """Note what the attempt goes back to; nothing is known of a checkpoint that never completed."""
        self._restored[attempt] = {} if restored is None else self._completed.get(restored, {})
        self._has_restored = restored is not None

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Note how far event time has come, and how far it ever came."""
        path, time = effect.path, task.input_time
        self._progress[path] = _progress_of(time)
        reached = MIN_WATERMARK if time is None else time.watermark
        before = self._restored[task.attempt]
        furthest = max(before.get(node.operator_id, MIN_WATERMARK) for node in task.vertex.operators)
        self._furthest[path] = max(furthest, reached)
        if furthest > reached:
            self._behind.add(path)
        if self._processes.current is not None:
            self._graph = self._processes.current.graph
        self._taken_ms[path] = self._clock.now + self._clock.ahead_ms
        for operator, node in zip(task.operators, task.vertex.operators, strict=True):
            if isinstance(operator, FunctionOperator) and operator.has_keyed_state:
                self._keyed.add(node.operator_id)
                for state, lifetime in operator.state_lifetimes.items():
                    self._lifetimes[node.operator_id, state] = lifetime.ttl_ms

    def checkpoint_completed(self, metadata: CheckpointMetadata, cut: Cut) -> None:
        """Record a checkpoint or savepoint with the world around it."""
        self._completed[metadata.checkpoint_id] = {
            operator.operator_id: max(self._furthest_of(operator), default=MIN_WATERMARK)
            for operator in metadata.operators
        }
        transactions = self._external.transactions.values()
        number = metadata.checkpoint_id
        visible = tuple(
            [
                event
                for event in self._history.events
                if event[1] in SEEN_BY_READERS
                or event[1] == JOB_UPGRADED
                or (event[1] in COMPLETIONS and event[2] == number)
            ]
        )
        self.recorded.append(
            RecordedCheckpoint(
                metadata,
                dict(cut),
                dict(self._storage.files),
                tuple([copy_of(transaction) for transaction in transactions]),
                visible,
                dict(self._progress),
                frozenset(self._behind),
                _upstream_of(self._graph, self._keyed),
                metadata.kind == SAVEPOINT and self._is_overtaken(metadata.checkpoint_id, visible),
                self._clock.now,
                self._clock.ahead_ms,
                self._has_restored,
                dict(self._lifetimes),
                dict(self._taken_ms),
                len(self._history.events),
                self._external.outside and self._external.outside.copy(),
                self.has_models,
            )
        )
        self._has_restored = False
        self._steps[metadata.checkpoint_id] = self._clock.step

    def _is_overtaken(self, savepoint_id: int, visible: Iterable[Event]) -> bool:
        """Whether a transaction became visible when a later checkpoint was complete already."""
        steps = [step for checkpoint_id, step in self._steps.items() if checkpoint_id > savepoint_id]
        return any(steps and kind == TRANSACTION_VISIBLE and step >= min(steps) for step, kind, *_ in visible)

    def _furthest_of(self, operator: OperatorMetadata) -> Iterable[int]:
        for subtask in operator.subtasks:
            if subtask.finished:
                # It had read all its data, and perhaps no state of it is stored any more.
                yield MAX_WATERMARK
            elif subtask.handle is not None:
                yield self._furthest.get(subtask.handle.path, MIN_WATERMARK)


def _upstream_of(graph: JobGraph | None, chosen: Collection[str]) -> Upstream:
    """Return by operator id which of the chosen operators are before it."""
    found: dict[str, frozenset[str]] = {}
    by_vertex: list[frozenset[str]] = []
    for vertex in () if graph is None else graph.vertices:
        before = frozenset[str]().union(*(by_vertex[edge.source] for edge in vertex.inputs))
        for node in vertex.operators:
            found[node.operator_id] = before
            before |= {node.operator_id}.intersection(chosen)
        by_vertex.append(before)
    return found


def _progress_of(time: InputTime | None) -> Progress:
    if time is None:
        return None
    watermarks = time.input_watermarks
    # An element of idleness, or of its end, says nothing of how far event time has come.
    return None if set(watermarks) == {MIN_WATERMARK} else watermarks


def copy_of(transaction: Transaction) -> Transaction:
    """Return a transaction that changes by itself from here on."""
    return msgspec.structs.replace(
        transaction,
        rows=list(transaction.rows),
        counts=list(transaction.counts),
        lengths=list(transaction.lengths),
    )
