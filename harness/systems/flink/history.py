"""Builds the history of a job on Flink from what is seen of it, one look after another.

The rules this module lives by:

- In a look the log of the source is read first, then the output, then the checkpoints. A file that is visible
  then stands in a checkpoint that is found, because Flink writes the metadata before it renames a file.
- The log has the order of attempts and of triggers. A checkpoint belongs to the attempt in which it was
  triggered, and comes before the next attempt.
- A part file is a transaction. Its name does not say who wrote it: it counts for the attempt in which a
  checkpoint first lists it.
- An attempt is a start of the job and Flink's number of the attempt within it. It begins with the first
  reader of that number. What it is restored from stands in the state that the reader gets.
- The number of an event is its step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import History, Recovery, Row
from onceproof.harness.model.scenario import ANY_TASK, COORDINATOR, Fault
from onceproof.harness.systems.flink.files import Metadata, SourceEvent

JOB: Final = "job"


class Pass(NamedTuple):
    """A protocol point that was passed."""

    point: Point
    task: str
    checkpoint: int
    pid: int
    """The process of Flink that passed it; 0: not known."""


@dataclass(slots=True)
class FlinkHistory:
    """The history of one run.

    ``holds_in_flight``: whether checkpoints may hold records on their way, as unaligned ones do.
    ``restored_by_flink`` is asked which checkpoint Flink has restored last, where a reader has no state;
    ``cause_of_failure`` why the last attempt has failed, where nothing had struck; ``names_killed`` whether
    that failure names a TaskManager which a fault has killed.
    """

    holds_in_flight: bool
    restored_by_flink: Callable[[], int | None]
    cause_of_failure: Callable[[], str]
    names_killed: Callable[[], bool] = lambda: False
    history: History = field(default_factory=History)
    running: str = ""
    """The attempt that runs."""
    parallelism: int = 0
    starts: int = 0
    attempts_without_a_cause: int = 0
    """How many attempts have begun within a start although nothing had struck since the one before.

    Not counted: one that follows on a stop that failed, or on a failure that names a dead TaskManager.
    """
    _step: int = 0
    _is_struck: bool = False
    """Whether a fault has struck since the running attempt began."""
    _is_stopping: bool = False
    """Whether a stop is under way."""
    _has_failed_to_stop: bool = False
    """Whether a stop has failed since the running attempt began: Flink then restarts the job."""
    _restored_of_start: int | None = None
    _is_first: bool = True
    """Whether the next attempt is the first one of its start."""
    _triggered_in: dict[int, str] = field(default_factory=dict)
    _listed_in: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By part file, the attempt and the number of the checkpoint that was the first to list it."""
    _ended: set[tuple[str, int]] = field(default_factory=set)
    """The readers that have given all records."""
    _read: int = 0
    """How many records the running attempt has given."""
    _begins_at: int = 0
    """How many records stand before the cut from which it goes on."""
    _records_before: dict[int, int] = field(default_factory=dict)
    """By complete checkpoint, how many records stand before its cut."""
    _recovering: list[tuple[Recovery, float]] = field(default_factory=list)
    latest: int | None = None
    """The latest complete checkpoint."""
    latest_cut: dict[str, int] = field(default_factory=dict)

    # What the harness does.

    def job_started(self, parallelism: int, restored: int | None) -> None:
        """A job is submitted, to go on from a checkpoint, or from the beginning."""
        self.starts += 1
        self.parallelism = parallelism
        self._restored_of_start = restored
        self._is_first = True
        self._is_stopping = self._has_failed_to_stop = False
        self._ended.clear()

    def job_stopped(self) -> None:
        """The job has ended with a savepoint."""
        self.history.job_stopped(self._next_step())

    def stop_asked(self) -> None:
        """The job is asked to stop with a savepoint."""
        self._is_stopping = True

    def stop_failed(self, reason: str) -> None:
        """A stop that was asked for has failed; Flink then restarts the job, which may be seen first."""
        if self._is_stopping:
            self._is_stopping = False
            self._has_failed_to_stop = True
            self.history.stop_failed(self._next_step(), reason)

    def savepoint_completed(self, savepoint: int) -> None:
        """A savepoint is complete, and the job runs on."""
        self.history.savepoint_completed(self._next_step(), savepoint, self.running)

    def fault_fired(self, fault: Fault, task: str) -> None:
        """A fault has struck."""
        statistics = self.history.statistics
        step = self._next_step()
        self.history.fault_fired(step, fault.kind, fault.point, task)
        statistics.count_strike(fault.kind, fault.point)
        recovery = Recovery(fault.kind, fault.point, task, self.parallelism, self._begins_at + self._read)
        statistics.recoveries.append(recovery)
        self._recovering.append((recovery, time.monotonic()))
        self.history.task_failed(step, task, self.running, FAULTS[fault.kind].sentence, injected=True)
        self._is_struck = True

    def job_finished(self) -> None:
        """The job has ended with all its input."""
        self.history.job_finished(self._next_step())

    def job_failed(self, cause: str) -> None:
        """Flink has given the job up."""
        self.history.job_failed(self._next_step(), cause)

    def out_of_time(self, what_it_does: str) -> None:
        """The run is cut off; ``what_it_does`` says what the job was about then."""
        self.history.logged(self._next_step(), what_it_does)
        self.history.budget_exhausted(self._step)

    def leak(self, kind: str, name: str) -> None:
        """Something is left behind."""
        self.history.leak(self._step, kind, name)

    def has_read_all(self, readers: int) -> bool:
        """Return whether all readers have given all their records, in the running attempt."""
        return len(self._ended) >= readers

    # What is seen.

    def look(
        self,
        events: Sequence[SourceEvent],
        new_files: Mapping[str, Sequence[Row]],
        gone_files: Sequence[str],
        checkpoints: Sequence[Metadata],
    ) -> list[Pass]:
        """Add what one look has found, and return the points that were passed, in order."""
        passes: list[Pass] = []
        waiting = list(checkpoints)
        for number, event in enumerate(events):
            if event.kind == "triggered":
                self._trigger(event.checkpoint)
            elif event.kind == "restored":
                self._reader_began(event, events[number:], waiting)
            elif event.kind == "end_of_data":
                self._ended.add((event.source, event.subtask))
            elif event.kind == "element":
                self._read += 1
            if (point := _POINTS.get(event.kind)) is not None:
                task = COORDINATOR if event.subtask < 0 else f"{event.source}-{event.subtask}"
                passes.append(Pass(point, task, event.checkpoint, event.pid))
        for metadata in waiting:
            self._complete(metadata)
        # The order of names is none: one look may find files of two checkpoints.
        for name, rows in sorted(
            new_files.items(), key=lambda each: self._listed_in.get(each[0], ("", 0))[1]
        ):
            self._show(name, rows)
            passes.append(Pass("committed", ANY_TASK, 0, 0))
        for name in gone_files:
            self.history.transaction_hidden(self._next_step(), name)
        for each in passes:
            points = self.history.statistics.points
            points[each.point] = points.get(each.point, 0) + 1
        return passes

    def _trigger(self, checkpoint: int) -> None:
        # Each source of a job says so. Another start may take an id that never became complete again.
        if self._triggered_in.get(checkpoint) != self.running:
            self._triggered_in[checkpoint] = self.running
            self.history.checkpoint_triggered(self._next_step(), checkpoint)

    def _reader_began(
        self, event: SourceEvent, events: Sequence[SourceEvent], waiting: list[Metadata]
    ) -> None:
        """Begin an attempt with its first reader; checkpoints of the one before come before it.

        ``events`` begin with that of the reader.
        """
        attempt = f"{self.starts}.{event.attempt}"
        if attempt == self.running:
            return
        again = {each.checkpoint for each in events if each.kind == "triggered"}
        for metadata in list(waiting):
            number = metadata.checkpoint
            if self._triggered_in.get(number) == self.running and number not in again:
                waiting.remove(metadata)
                self._complete(metadata)
        restored = self._restored_of_start
        if not self._is_first:
            siblings = [
                each.checkpoint
                for each in events
                if each.kind == "restored" and each.attempt == event.attempt
            ]
            restored = max(siblings, default=0) or self.restored_by_flink()
        if not self._is_first and not self._is_struck:
            self._add_failure_without_a_fault()
        self.history.attempt_started(self._next_step(), attempt, self.parallelism, restored)
        self.history.statistics.attempts += 1
        replayed = self._go_on_from(restored)
        for recovery, _ in self._recovering:
            if not recovery.parallelism_after:
                recovery.restored, recovery.parallelism_after = restored, self.parallelism
                recovery.replayed = replayed
        self.running = attempt
        self._is_first = self._is_struck = self._has_failed_to_stop = False
        self._ended.clear()

    def _go_on_from(self, restored: int | None) -> int:
        """Return how many records an attempt gives again that begins with a checkpoint."""
        given = self._begins_at + self._read
        # Of a checkpoint that was never seen complete, it is not known how many there are.
        self._begins_at = self._records_before.get(restored, given) if restored else 0
        self._read = 0
        replayed = max(0, given - self._begins_at)
        self.history.statistics.records_replayed += replayed
        return replayed

    def _add_failure_without_a_fault(self) -> None:
        """Add why Flink has begun another attempt although nothing has struck the one before."""
        if self._is_stopping:
            self.stop_failed(self.cause_of_failure())
        elif not self._has_failed_to_stop:
            names_killed = self.names_killed()
            self.attempts_without_a_cause += not names_killed
            self.history.task_failed(
                self._next_step(),
                JOB,
                self.running,
                self.cause_of_failure(),
                injected=False,
                names_killed=names_killed,
            )

    def _complete(self, metadata: Metadata) -> None:
        attempt = self._triggered_in.get(metadata.checkpoint, self.running)
        for name in metadata.transactions:
            self._listed_in.setdefault(name, (attempt, metadata.checkpoint))
        self.latest, self.latest_cut = metadata.checkpoint, metadata.cut
        self._records_before[metadata.checkpoint] = sum(metadata.cut.values())
        self.history.checkpoint_completed(
            self._next_step(),
            metadata.checkpoint,
            attempt,
            metadata.cut,
            metadata.transactions,
            in_flight=int(self.holds_in_flight),
        )

    def _show(self, name: str, rows: Sequence[Row]) -> None:
        attempt, epoch = self._listed_in.get(name, (self.running, 0))
        # The writers of one attempt differ in the random part of the name.
        writer = name.rpartition("-")[0]
        subtask = int(writer.rpartition("-")[2], 16)
        self.history.transaction_visible(self._next_step(), name, subtask, attempt, epoch, rows)
        now = time.monotonic()
        for recovery, since in self._recovering:
            if recovery.parallelism_after:
                recovery.seconds = recovery.commit_seconds = now - since
        self._recovering = [each for each in self._recovering if not each[0].parallelism_after]

    def _next_step(self) -> int:
        self._step += 1
        self.history.statistics.steps = self._step
        return self._step


_POINTS: Final[Mapping[str, Point]] = {
    "triggered": "triggered",
    "restored": "restored",
    "element": "element",
    "snapshotted": "snapshotted",
    "completed": "completed",
    "notified": "notified",
    "end_of_data": "end_of_data",
}
"""By kind of a line of the source, the point that it shows."""
