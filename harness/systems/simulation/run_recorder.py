"""Enters what happens in a simulated run into its history, and into the trace where there is one.

The rules this module lives by:

- What a checkpoint covers is noted as its snapshots are taken, from the sources and the sinks themselves:
  checkers compare it with what the engine makes of the files it wrote.
- An observer of checkpoints is called after the history has its entry. It changes nothing in the run.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.job.events import Deploy
from onceproof.engine.messages import CHECKPOINT, SYNC_SAVEPOINT
from onceproof.engine.operators.base import FunctionOperator
from onceproof.engine.operators.interval_join import IntervalJoinOperator
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.owned import ValueWatch
from onceproof.engine.state.occurrences import Occurrence
from onceproof.engine.state.timers import FiredTimers
from onceproof.engine.task.events import StoreSnapshot
from onceproof.engine.task.task import Task
from onceproof.harness.model.family import Rows
from onceproof.harness.model.fault_kinds import FaultKind, Point
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_ABORTED,
    EXPIRY,
    FAULT_FIRED,
    LOOK,
    READ,
    TIMER,
    Cut,
    History,
)
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.simulation.actions import Action
from onceproof.harness.systems.simulation.agenda import Clock
from onceproof.harness.systems.simulation.retention_watch import RetentionWatch
from onceproof.harness.systems.simulation.simulated_io import SimulatedLog
from onceproof.harness.systems.simulation.tracing import NO_TRACER, Tracer
from onceproof.harness.systems.sinks import names_with_rows

Note: TypeAlias = tuple[str, Mapping[str, int], Sequence[str]]
"""Of a snapshot: the attempt that took it, its positions by split, the transactions that it lists."""

NO_CUT: Final[Mapping[str, int]] = {}
UNKNOWN: Final[Note] = ("unknown", NO_CUT, ())

_CHANGES_INPUT: Final = frozenset(kind for kind, row in FAULTS.items() if row.strikes == "input")
_DROP_LATE: Final = (WindowOperator, IntervalJoinOperator)
"""The operators that count records which come too late."""


class CheckpointObserver(Protocol):
    """Watches the attempts, snapshots and checkpoints of a run."""

    def attempt_started(self, attempt: str, restored: int | None) -> None:
        """Called with the name of an attempt and the id of the checkpoint that it goes on from."""

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Called when a task has taken a snapshot, which is not stored yet."""

    def checkpoint_completed(self, metadata: CheckpointMetadata, cut: Cut) -> None:
        """Called with a checkpoint that is complete, and the input that it covers."""


class RunRecorder:
    """The record of one run."""

    __slots__ = (
        "_clock",
        "_down_since",
        "_ended",
        "_fired_timers",
        "_has_ended",
        "_history",
        "_is_restored",
        "_known_complete",
        "_latest_cut",
        "_log",
        "_notes",
        "_occurrences",
        "_processing_timers",
        "_restored_operators",
        "_tracer",
        "is_tracing",
        "observer",
        "retention",
        "value_watch",
    )

    def __init__(
        self, history: History, clock: Clock, log: SimulatedLog, tracer: Tracer, retention: RetentionWatch
    ) -> None:
        self._history = history
        self._clock = clock
        self._log = log
        self._tracer = tracer
        self.is_tracing = tracer is not NO_TRACER
        """Whether the run has a trace beside its history."""
        self._notes: dict[str, Note] = {}
        self._known_complete: set[int] = set()
        self._latest_cut: Cut = NO_CUT
        self._has_ended = False
        """Whether the sources of the attempt have nothing to read: those of its checkpoint had finished."""
        self._ended: set[int] = set()
        """The checkpoints and savepoints of such attempts."""
        self._down_since: int | None = None
        self.retention = retention
        self._fired_timers: list[FiredTimers] = []
        self._is_restored = False
        """Whether the attempt that runs was restored from a checkpoint."""
        self._restored_operators: list[WindowOperator | IntervalJoinOperator] = []
        """Those of restored attempts that drop records which come too late."""
        self._occurrences: list[tuple[str, Occurrence]] = []
        """By key of ``Statistics.watched``, those of the states of all attempts."""
        self._processing_timers: list[tuple[str, FiredTimers]] = []
        self.value_watch = ValueWatch()
        self.observer: CheckpointObserver | None = None
        """Only a run whose checkpoints are looked into has one."""

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Note whose the snapshot is and what it truly covers, whatever the engine writes into it."""
        path = effect.path
        if path in self._notes:
            # It was held until it was whole; what it covers has not changed since.
            return
        cut: Mapping[str, int] = NO_CUT
        transactions: Sequence[str] = ()
        operators = task.operators
        head, tail = operators[0], operators[-1]
        if isinstance(head, SourceOperator):
            cut = self._log.offsets(head.positions())
        if isinstance(tail, SinkOperator):
            function: Any = tail.function
            if _lists_transactions(function.__class__):
                transactions = [
                    name for each in function.pending_transactions() for name in names_with_rows(each)
                ]
        self._notes[path] = (task.attempt, cut, transactions)
        if self.observer is not None:
            self.observer.snapshot_taken(task, effect)

    def checkpoint_found(self, metadata: CheckpointMetadata) -> None:
        """Record a checkpoint that a new process has found complete, unless it is recorded already."""
        if metadata.checkpoint_id not in self._known_complete:
            self.checkpoint_completed(metadata)

    @property
    def has_complete_checkpoint(self) -> bool:
        """Whether any checkpoint is complete, so that each attempt from now on is restored from one."""
        return bool(self._known_complete)

    @property
    def latest_cut(self) -> Cut:
        """What the latest complete checkpoint covers of the input; nothing, if there is none."""
        return self._latest_cut

    def already_recorded(self, checkpoint: int) -> None:
        """Note that the history of this run begins with the record of a complete checkpoint."""
        self._known_complete.add(checkpoint)

    def checkpoint_completed(self, metadata: CheckpointMetadata) -> None:
        """Record a complete checkpoint; its cut and its transactions follow from its snapshots."""
        self._known_complete.add(metadata.checkpoint_id)
        self._note_whether_ended(metadata)
        self.retention.completed(metadata)
        cut = self._records_read(metadata)
        transactions: list[str] = []
        writers: dict[str, None] = {}
        for writer, part, listed in self._notes_of(metadata):
            writers[writer] = None
            cut.update(part)
            transactions.extend(listed)
        self._latest_cut = cut
        step = self._clock.step
        self._history.checkpoint_completed(
            step,
            metadata.checkpoint_id,
            metadata.attempt,
            cut,
            transactions,
            tuple(writers),
            metadata.records_in_flight,
            _finished_in(metadata),
            metadata.kind == SYNC_SAVEPOINT,
            metadata.kind != CHECKPOINT,
        )
        if self.observer is not None:
            self.observer.checkpoint_completed(metadata, cut)
        if self.is_tracing:
            self._tracer.completed(step, metadata.checkpoint_id)

    def savepoint_completed(self, metadata: CheckpointMetadata) -> None:
        """Record a complete savepoint; the observer gets it as it gets checkpoints."""
        self._note_whether_ended(metadata)
        self._history.savepoint_completed(self._clock.step, metadata.checkpoint_id, metadata.attempt)
        if self.observer is not None:
            cut = self._records_read(metadata)
            for _, part, _ in self._notes_of(metadata):
                cut.update(part)
            self.observer.checkpoint_completed(metadata, cut)

    def look_for_deleted_files(self) -> None:
        """Record the files that the job has deleted although it must keep their checkpoints."""
        for path in self.retention.look():
            self.leak("deleted file of a retained checkpoint", path)

    def input_read(self) -> None:
        """Record how far each split of a finished job was read, as the log of the input has seen it."""
        if not self._history.has_finished:
            return
        self._history.input_read(self._clock.step, self._log.read_up_to, self._records_read())

    def _records_read(self, metadata: CheckpointMetadata | None = None) -> dict[str, int]:
        """By split, what is read of one that no snapshot of a checkpoint has: all, by a finished source.

        Where splits are discovered, and no source has finished, it was not discovered yet.
        """
        if metadata is not None and self._log.can_discover and not self._have_sources_ended(metadata):
            return dict.fromkeys(self._log.records, 0)
        return {split: len(records) for split, records in self._log.records.items()}

    def _note_whether_ended(self, metadata: CheckpointMetadata) -> None:
        # A process that finds no checkpoint begins with the first id again.
        (self._ended.add if self._has_ended else self._ended.discard)(metadata.checkpoint_id)

    def _have_sources_ended(self, metadata: CheckpointMetadata) -> bool:
        """Return whether a source of a checkpoint had finished, or began with nothing to read."""
        return metadata.checkpoint_id in self._ended or _finished_in(metadata) > 0

    def _notes_of(self, metadata: CheckpointMetadata) -> list[Note]:
        """Return what was noted of each file of a checkpoint; the operators of a chain share one file."""
        notes = self._notes
        found: dict[str, Note] = {}
        for operator in metadata.operators:
            for subtask in operator.subtasks:
                handle = subtask.handle
                if handle is not None and handle.path not in found:
                    found[handle.path] = notes.get(handle.path, UNKNOWN)
        return list(found.values())

    def attempt_started(self, effect: Deploy, parallelism: int) -> None:
        """Record a new attempt, and count the records that it will read again."""
        restored = effect.restored
        self._has_ended = restored is not None and self._have_sources_ended(restored)
        if restored is None:
            cut = dict.fromkeys(self._log.records, 0)
        else:
            cut = self._records_read(restored)
            for _, part, _ in self._notes_of(restored):
                cut.update(part)
        read_up_to = self._log.read_up_to
        statistics = self._history.statistics
        for split, position in cut.items():
            statistics.records_replayed += max(0, read_up_to[split] - position)
            read_up_to[split] = position
        statistics.attempts += 1
        restored_id = None if restored is None else restored.checkpoint_id
        self._is_restored = restored is not None
        step = self._clock.step
        self._history.attempt_started(step, effect.attempt, parallelism, restored_id)
        if self.observer is not None:
            self.observer.attempt_started(effect.attempt, restored_id)
        if self.is_tracing:
            self._tracer.attempt(step, effect.attempt, parallelism, restored_id)

    @property
    def is_down(self) -> bool:
        """Whether a task has died, and not all of them run again."""
        return self._down_since is not None

    def job_runs(self) -> None:
        """Record that all tasks run again."""
        assert self._down_since is not None
        self._history.statistics.recovery_steps += self._clock.step - self._down_since
        self._down_since = None

    def task_restored(self, task: Task) -> None:
        """Take the counts of a task's timers and late records, which go on while it lives."""
        self._fired_timers += [each.timers.event.fired for each in task.operators if each.timers is not None]
        for each in task.operators:
            if each.timers is not None:
                self._processing_timers.append((f"{TIMER}/{task.vertex.name}", each.timers.processing.fired))
            if isinstance(each, FunctionOperator):
                self._occurrences += [
                    (f"{EXPIRY}/{state}/{lifetime.ttl_ms}", lifetime.expiry)
                    for state, lifetime in each.state_lifetimes.items()
                ]
                self._occurrences += [
                    (f"{READ}/{state}", read) for state, read in each.restored_reads.items()
                ]
        if self._is_restored:
            self._restored_operators += [each for each in task.operators if isinstance(each, _DROP_LATE)]

    def sum_up(self) -> None:
        """Add up what was counted while the run went on."""
        statistics = self._history.statistics
        statistics.notes = tuple(self.value_watch.findings())
        statistics.timers_before_end = sum(fired.before_end for fired in self._fired_timers)
        statistics.timers_at_end = sum(fired.at_end for fired in self._fired_timers)
        statistics.watched = self._watched()
        statistics.late_after_restore = sum(each.late_records for each in self._restored_operators)

    def _watched(self) -> dict[str, bool]:
        """Return which times to live, timers and restored states the job had, and whether they were used."""
        watched: dict[str, bool] = {}
        for key, occurrence in self._occurrences:
            watched[key] = watched.get(key, False) or occurrence.happened
        for key, timers in self._processing_timers:
            if timers.registered:
                watched[key] = watched.get(key, False) or timers.before_end > 0
        return watched

    def task_failed(self, task: Task, cause: str, injected: bool) -> None:
        """Record the death of a task; ``injected`` says whether a fault of the scenario caused it."""
        step = self._clock.step
        if self._down_since is None:
            self._down_since = step
        self._history.task_failed(step, task.name, task.attempt, self._log.shown(cause), injected)
        if self.is_tracing:
            self._tracer.killed(step, task.name)

    def error(self, where: str, error: BaseException) -> None:
        """Record an error of the engine's own, with the function that raised it."""
        frames = traceback.extract_tb(error.__traceback__)
        function = frames[-1].name if frames else "?"
        text = self._log.shown(" ".join(str(error).split()))
        self._history.error(self._clock.step, where, type(error).__name__, function, text)

    def leak(self, what: str, name: str) -> None:
        """Record something that was left behind, or is gone and should not be."""
        self._history.leak(self._clock.step, what, name)

    def rows_found(self, rows: Rows) -> None:
        """Record what sinks of the user's have written outside, as the job has finished."""
        if not rows:
            return
        attempts = [subject for _, kind, subject, _ in self._history.events if kind == ATTEMPT_STARTED]
        self._history.rows_found(self._clock.step, f"{LOOK}at the end", attempts[-1], rows)

    def stop_failed(self, reason: str, *, is_excused: bool) -> None:
        """Count a stop that came to nothing; record it where no fault explains the next attempt."""
        self._history.statistics.stops_failed += 1
        if is_excused:
            self._history.stop_failed(self._clock.step, reason)

    def job_rescaled(self, parallelism: int, open_transactions: int) -> None:
        """Record that the user rescales the job while it runs, and how many open transactions have rows."""
        self._history.job_rescaled(self._clock.step, parallelism, open_transactions)

    def job_upgraded(self, found: Sequence[CheckpointMetadata], *, is_killed: bool) -> None:
        """Record that the new version of the job begins, from the latest checkpoint that was found."""
        cut = dict.fromkeys(self._log.records, 0)
        if found:
            latest = max(found, key=lambda each: each.checkpoint_id)
            cut = self._records_read()
            for _, part, _ in self._notes_of(latest):
                cut.update(part)
        self._history.job_upgraded(self._clock.step, cut, killed=is_killed)

    def checkpoint_triggered(self, checkpoint_id: int) -> None:
        """Record that the coordinator has triggered a checkpoint; those before it must be there."""
        self.look_for_deleted_files()
        self._history.checkpoint_triggered(self._clock.step, checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int, reason: str) -> None:
        """Record that the coordinator has aborted a checkpoint."""
        self._history.checkpoint_aborted(self._clock.step, checkpoint_id, reason)

    def job_failed(self, cause: str) -> None:
        """Record that the job has failed for good."""
        self._history.job_failed(self._clock.step, self._log.shown(cause))

    def wait_begun(self, what: str, ms: int) -> None:
        """Record for how long the job master begins to wait, and for what."""
        self._history.wait_begun(self._clock.step, what, ms, self._clock.now)

    def logged(self, message: str) -> None:
        """Record what the job has logged."""
        self._history.logged(self._clock.step, self._log.shown(message))

    def write_refused(self, task: str, checkpoint_id: int) -> None:
        """Record that a task, or the coordinator, learns that its write has failed."""
        self._history.write_refused(self._clock.step, task, checkpoint_id)

    def checkpoint_declined(self, task: str, checkpoint_id: int) -> None:
        """Record that a task has declined a checkpoint."""
        self._history.checkpoint_declined(self._clock.step, task, checkpoint_id)

    def aborted_checkpoints(self) -> list[int]:
        """Return the ids of the checkpoints that were aborted so far."""
        return [subject for _, kind, subject, _ in self._history.events if kind == CHECKPOINT_ABORTED]

    # Faults.

    def fault_fired(self, fault: Fault, task: str) -> None:
        """Record that a fault has struck, and count it."""
        step = self._clock.step
        self._history.fault_fired(step, fault.kind, fault.point, task, fault.means)
        self._history.statistics.count_strike(fault.kind, fault.point, fault.means)
        if self.is_tracing:
            self._tracer.fault(step, fault, task)

    def has_fired(self, faults: Iterable[tuple[FaultKind, Point]]) -> bool:
        """Return whether a fault of one of these kinds has struck at its point."""
        return not set(faults).isdisjoint(self._history.statistics.coverage)

    @property
    def has_changed_input(self) -> bool:
        """Whether a fault has changed the input."""
        return self._history.has_fired(_CHANGES_INPUT)

    def names_changed_input(self, cause: str) -> bool:
        """Return whether a cause names an input that a fault has changed."""
        return any(
            kind == FAULT_FIRED and subject in _CHANGES_INPUT and payload["task"] in cause
            for _, kind, subject, payload in self._history.events
        )

    def message_lost(self, action: Action) -> None:
        """Record that a message will never arrive."""
        if self.is_tracing:
            self._tracer.lost(self._clock.step, action)

    def point_passed(self, point: str, task: str, checkpoint_id: int) -> None:
        """Enter a protocol point into the trace."""
        self._tracer.point(self._clock.step, point, task, checkpoint_id)


@lru_cache(maxsize=256)
def _lists_transactions(kind: Any) -> bool:
    """Whether a function is a transactional sink, or one around it."""
    return hasattr(kind, "pending_transactions")


def _finished_in(metadata: CheckpointMetadata) -> int:
    """Return how many subtasks had finished."""
    return sum([subtask.finished for operator in metadata.operators for subtask in operator.subtasks])
