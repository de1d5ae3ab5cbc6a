"""The account of a run that goes into its history: attempts, failures, and what completed checkpoints cover.

What a checkpoint covers is noted as its snapshots are taken, from the sources and the sinks themselves:
checkers compare it with what the engine makes of the files it wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.job.events import Deploy
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.task.events import StoreSnapshot
from onceproof.engine.task.task import Task
from onceproof.harness.model.history import Cut, History
from onceproof.harness.systems.simulation.clock import Clock
from onceproof.harness.systems.simulation.external_system import SimulatedLog
from onceproof.harness.systems.simulation.tracing import NO_TRACER, Tracer

Note: TypeAlias = tuple[str, Mapping[str, int], Sequence[str]]
"""Of a snapshot: the attempt that took it, its positions by split, the transactions that it lists."""

NO_CUT: Final[Mapping[str, int]] = {}
UNKNOWN: Final[Note] = ("unknown", NO_CUT, ())


class KeepsCheckpoints(Protocol):
    """Keeps what it wants of attempts, snapshots and checkpoints."""

    def attempt_started(self, attempt: str, restored: int | None) -> None:
        """Hear of an attempt, and from which checkpoint it goes on."""

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Hear of a snapshot as it is taken."""

    def checkpoint_completed(self, metadata: CheckpointMetadata, cut: Cut) -> None:
        """Hear of a checkpoint as it completes, with the input that it covers."""


class Account:
    """Enters what happens into the history, and into the trace where there is one."""

    __slots__ = (
        "_clock",
        "_down_since",
        "_history",
        "_known_complete",
        "_log",
        "_notes",
        "_tracer",
        "_tracing",
        "keeper",
    )

    def __init__(self, history: History, clock: Clock, log: SimulatedLog, tracer: Tracer) -> None:
        self._history = history
        self._clock = clock
        self._log = log
        self._tracer = tracer
        self._tracing = tracer is not NO_TRACER
        self._notes: dict[str, Note] = {}
        self._known_complete: set[int] = set()
        self._down_since: int | None = None
        self.keeper: KeepsCheckpoints | None = None
        """Told of every attempt, snapshot and checkpoint; only a run that is looked into has one."""

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Remember whose the snapshot is and what it truly covers, whatever the engine writes into it."""
        path = effect.path
        if path in self._notes:
            # It was held until it was whole; what it covers has not changed since.
            return
        cut: Mapping[str, int] = NO_CUT
        transactions: Sequence[str] = ()
        operators = task.operators
        head, tail = operators[0], operators[-1]
        if isinstance(head, SourceOperator):
            cut = head.positions()
        if isinstance(tail, SinkOperator):
            function: Any = tail.function
            if _lists_transactions(function.__class__):
                transactions = function.pending_transactions()
        self._notes[path] = (task.attempt, cut, transactions)
        if self.keeper is not None:
            self.keeper.snapshot_taken(task, effect)

    def checkpoint_found(self, metadata: CheckpointMetadata) -> None:
        """A new process finds a checkpoint complete, which nobody may have heard of yet."""
        if metadata.checkpoint_id not in self._known_complete:
            self.checkpoint_completed(metadata)

    def checkpoint_completed(self, metadata: CheckpointMetadata) -> None:
        """A checkpoint is complete; its cut and its transactions follow from the snapshots it consists of."""
        self._known_complete.add(metadata.checkpoint_id)
        cut = self._records_read()
        transactions: list[str] = []
        writers: dict[str, None] = {}
        for writer, part, listed in self._notes_of(metadata):
            writers[writer] = None
            cut.update(part)
            transactions.extend(listed)
        step = self._clock.step
        self._history.checkpoint_completed(
            step,
            metadata.checkpoint_id,
            metadata.attempt,
            cut,
            transactions,
            tuple(writers),
            metadata.records_in_flight,
        )
        if self.keeper is not None:
            self.keeper.checkpoint_completed(metadata, cut)
        if self._tracing:
            self._tracer.completed(step, metadata.checkpoint_id)

    def savepoint_completed(self, metadata: CheckpointMetadata) -> None:
        """A savepoint is whole; whoever keeps checkpoints keeps it as one of them."""
        self._history.savepoint_completed(self._clock.step, metadata.checkpoint_id, metadata.attempt)
        if self.keeper is not None:
            cut = self._records_read()
            for _, part, _ in self._notes_of(metadata):
                cut.update(part)
            self.keeper.checkpoint_completed(metadata, cut)

    def _records_read(self) -> dict[str, int]:
        """What is not among the snapshots of any source belongs to sources that had finished."""
        return {split: len(records) for split, records in self._log.records.items()}

    def _notes_of(self, metadata: CheckpointMetadata) -> list[Note]:
        """What was noted of the files of a checkpoint; those of a chain once for each of its operators."""
        notes = self._notes
        found = []
        for operator in metadata.operators:
            for subtask in operator.subtasks:
                handle = subtask.handle
                if handle is not None:
                    found.append(notes.get(handle.path, UNKNOWN))
        return found

    def attempt_started(self, effect: Deploy, parallelism: int) -> None:
        """A new attempt begins; the records it will read again are counted."""
        restored = effect.restored
        if restored is None:
            cut = dict.fromkeys(self._log.records, 0)
        else:
            cut = self._records_read()
            for _, part, _ in self._notes_of(restored):
                cut.update(part)
        read_up_to = self._log.read_up_to
        statistics = self._history.statistics
        for split, position in cut.items():
            statistics.records_replayed += max(0, read_up_to[split] - position)
            read_up_to[split] = position
        statistics.attempts += 1
        restored_id = None if restored is None else restored.checkpoint_id
        step = self._clock.step
        self._history.attempt_started(step, effect.attempt, parallelism, restored_id)
        if self.keeper is not None:
            self.keeper.attempt_started(effect.attempt, restored_id)
        if self._tracing:
            self._tracer.attempt(step, effect.attempt, parallelism, restored_id)

    @property
    def is_down(self) -> bool:
        """Whether a task has died, and not all of them run again."""
        return self._down_since is not None

    def job_runs(self) -> None:
        """All tasks run again."""
        assert self._down_since is not None
        self._history.statistics.recovery_steps += self._clock.step - self._down_since
        self._down_since = None

    def task_failed(self, task: Task, cause: str, injected: bool) -> None:
        """A task died."""
        step = self._clock.step
        if self._down_since is None:
            self._down_since = step
        self._history.task_failed(step, task.name, task.attempt, cause, injected)
        if self._tracing:
            self._tracer.killed(step, task.name)


@lru_cache(maxsize=256)
def _lists_transactions(kind: Any) -> bool:
    """Whether a function is a transactional sink, or one around it."""
    return hasattr(kind, "pending_transactions")
