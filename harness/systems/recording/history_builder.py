"""From what real processes told, and the files they left, to the history that checkers judge.

The rules this module lives by:

- The order is that of the log; what is outside decides what there is (`outputs.py`). A file that can be read
  became visible at the latest when its process died, told or not; rows that cannot be read again are gone,
  whatever was told.
- A part file is read once its process is dead, when nobody can be in the middle of it. It must then stay as
  it is to the end.
- Of a table by key only the last row of each key is there to be seen. One that nobody told was written last.
- The number of an event is its step: real processes have no other.
- A checkpoint is complete once it is told, or found by the next process, before that one restores anything.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.harness.model.faults import KILLS
from onceproof.harness.model.history import History, Recovery, Row
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.fault_clock import ClockState
from onceproof.harness.systems.process.transactional_database import Database, database_of, rows_of
from onceproof.harness.systems.process.visible_outputs import DatabaseOutput, Output, PartFiles, ReadRows

_SHARED: Final = "shared"
"""The folder of files that several checkpoints have in common."""
OUTSIDE: Final = "outside"
"""The point of a kill that somebody else sent: anywhere."""


class Retelling:
    """Turns the events of one process after another into one history."""

    def __init__(
        self,
        faults: tuple[Fault, ...],
        lengths: Mapping[str, int],
        output: Path,
        suffix: str,
        read_rows: ReadRows,
        parallelism: int,
    ) -> None:
        self.history = History()
        self.parallelism = parallelism
        """Of the attempt that runs, or ran last."""
        self.next_parallelism = parallelism
        """Of the next one: what the last kill with a rescale asked for."""
        self.is_over = False
        self.waiting = ClockState()
        """How far the faults had come, by the last one that struck."""
        self.death_was_planned = False
        """A fault killed the process that was heard last."""
        self._faults = faults
        self._lengths = dict(lengths)
        self._output = output
        self._database = Database(database_of(output))
        self._outputs: tuple[Output, ...] = (
            PartFiles(output, suffix, read_rows),
            DatabaseOutput(self._database),
        )
        self._step = 0
        self._attempt = ""
        self._cuts: dict[str, dict[str, int]] = {}
        self._listed: dict[str, list[str]] = {}
        self._writers: dict[str, str] = {}
        self._complete: dict[int, dict[str, int]] = {}
        self._visible: dict[str, Hashable | None] = {}
        self._table: dict[Row, Row] = {}
        """By key, what a table shows, as far as was told."""
        self._waiting: list[tuple[Recovery, int, dict[str, int]]] = []
        self._points: dict[str, int] = {}

    # The events of a process.

    def hear(self, events: list[dict[str, Any]]) -> None:
        """Retell what one process told, once it is dead."""
        self.death_was_planned = False
        self._points = {}
        for event in events:
            self._step += 1
            getattr(self, f"_{event['kind']}")(event)
        totals = self.history.statistics.points
        for point, count in self._points.items():
            totals[point] = totals.get(point, 0) + count
        self._look_outside()

    def killed(self, at: int) -> None:
        """The process was killed; one that told so has told why."""
        self._step += 1
        if not self.death_was_planned:
            self._fired("kill_process", OUTSIDE, "*", at, {})
        self.history.task_failed(self._step, "process", self._attempt, "killed", injected=True)

    def _process_started(self, event: dict[str, Any]) -> None:
        for checkpoint in event["found"]:
            if checkpoint["id"] not in self._complete:
                self._completed(checkpoint)

    def _attempt_started(self, event: dict[str, Any]) -> None:
        restored = event["restored"]
        self._attempt = event["attempt"]
        self.parallelism = self.next_parallelism = event["parallelism"]
        self.history.attempt_started(self._step, self._attempt, self.parallelism, restored)
        self.history.statistics.attempts += 1
        for recovery, _, read in self._waiting:
            # One that had come back already, and died again before anything became visible, is left as it is.
            if not recovery.parallelism_after:
                self.goes_on(recovery, restored, read)

    def goes_on(self, recovery: Recovery, restored: int | None, read: dict[str, int]) -> None:
        """What had read so far when it died goes on from a checkpoint."""
        cut = self._complete.get(restored or 0, {})
        recovery.restored = restored
        recovery.parallelism_after = self.parallelism
        recovery.replayed = sum([max(0, position - cut.get(split, 0)) for split, position in read.items()])
        self.history.statistics.records_replayed += recovery.replayed

    def _snapshot_taken(self, event: dict[str, Any]) -> None:
        path = event["path"]
        self._cuts[path] = event["cut"]
        self._listed[path] = event["transactions"]
        self._writers[path] = event["attempt"]

    def _checkpoint_triggered(self, event: dict[str, Any]) -> None:
        self.history.checkpoint_triggered(self._step, event["checkpoint"])

    def _checkpoint_aborted(self, event: dict[str, Any]) -> None:
        self.history.checkpoint_aborted(self._step, event["checkpoint"], event["reason"])

    def _checkpoint_completed(self, event: dict[str, Any]) -> None:
        self._completed(event["checkpoint"])

    def _completed(self, checkpoint: dict[str, Any]) -> None:
        """What is not among the snapshots of any source belongs to sources that had finished."""
        cut = dict(self._lengths)
        transactions: list[str] = []
        writers: dict[str, None] = {}
        for path in checkpoint["paths"]:
            cut.update(self._cuts.get(path, {}))
            transactions += self._listed.get(path, [])
            writers[self.attempt_of(self._writers.get(path, "unknown"))] = None
        self._complete[checkpoint["id"]] = cut
        self.history.checkpoint_completed(
            self._step,
            checkpoint["id"],
            checkpoint["attempt"],
            cut,
            transactions,
            tuple(writers),
            checkpoint["in_flight"],
        )

    def _committed(self, event: dict[str, Any]) -> None:
        self._becomes_visible(event["transaction"], event["length"] == 0, event["at"])

    def _rows_written(self, event: dict[str, Any]) -> None:
        rows = rows_of(event["rows"])
        self._write_rows(event["task"], self.attempt_of(event["attempt"]), event["keys"], rows)
        self._job_commits_again(event["at"])
        self._job_came_back(event["at"])

    def _commit_failed(self, event: dict[str, Any]) -> None:
        self.history.commit_failed(self._step, event["transaction"])

    def attempt_of(self, writer: str) -> str:
        """The attempt of the job for which ``writer`` wrote a snapshot or a transaction."""
        return writer

    def _fault_struck(self, event: dict[str, Any]) -> None:
        self.waiting = msgspec.convert(event["waiting"], ClockState)
        self._points = event["points"]
        fault = self._faults[event["number"]]
        if event.get("again"):
            # It goes on, and what follows from it now is not what followed from it before.
            self.history.fault_fired(self._step, fault.kind, fault.point, event["task"], fault.means)
            return
        self.death_was_planned |= fault.kind == "kill_process"
        self.next_parallelism = fault.rescale_to or self.next_parallelism
        self._fired(fault.kind, fault.point, event["task"], event["at"], event["read"], fault.means)

    def _task_failed(self, event: dict[str, Any]) -> None:
        self.history.task_failed(
            self._step, event["task"], event["attempt"], event["cause"], event["injected"]
        )

    def _error(self, event: dict[str, Any]) -> None:
        self.history.error(self._step, event["where"], event["type"], event["function"], event["text"])
        self.is_over = True

    def _job_finished(self, event: dict[str, Any]) -> None:
        self._points = event["points"]
        self.history.job_finished(self._step)
        self.is_over = True

    def _job_failed(self, event: dict[str, Any]) -> None:
        self.history.job_failed(self._step, event["cause"])
        self.is_over = True

    def _fired(
        self, kind: str, point: str, task: str, at: int, read: dict[str, int], means: str = ""
    ) -> None:
        self.history.fault_fired(self._step, kind, point, task, means)
        statistics = self.history.statistics
        if means:
            statistics.means[kind, means] = statistics.means.get((kind, means), 0) + 1
        key = (kind, point)
        statistics.coverage[key] = statistics.coverage.get(key, 0) + 1
        if self.is_death(kind):
            position = self.position(read)
            recovery = Recovery(kind, point, task, self.parallelism, position, means=means)
            statistics.recoveries.append(recovery)
            self._waiting.append((recovery, at, read))

    def is_death(self, kind: str) -> bool:
        """Whether somebody dies of such a fault."""
        return kind in KILLS

    def position(self, read: dict[str, int]) -> int | None:
        """How many records had been read where one that died had read so many; None where that is unknown."""
        # Who dies in a restore knows only of the sources that were restored before.
        return sum(read.values()) if read.keys() == self._lengths.keys() else None

    # The outside.

    def _output_of(self, name: str) -> Output:
        return self._outputs["/" in name]

    def _becomes_visible(self, name: str, is_empty: bool, at: int | None) -> None:
        """Once: committing again what is visible changes nothing for a reader."""
        if name in self._visible:
            return
        output = self._output_of(name)
        identity = self._visible[name] = None if is_empty else output.identity(name)
        rows = [] if identity is None else output.rows(name)
        subtask, epoch, writer = output.writer(name)
        self.history.transaction_visible(
            self._step, name, subtask, self.attempt_of(writer), epoch, rows, output.waits(name)
        )
        if not is_empty and identity is None:
            self.history.transaction_hidden(self._step, name)
        if at is not None:
            self._job_commits_again(at)
            if rows:
                self._job_came_back(at)

    def _write_rows(self, task: str, attempt: str, keys: int, rows: list[Row]) -> None:
        self._table.update({row[:keys]: row for row in rows})
        self.history.rows_written(self._step, task, attempt, keys, rows)

    def _job_commits_again(self, at: int) -> None:
        """There is a new transaction, with rows or without."""
        for recovery, since, _ in self._waiting:
            if recovery.parallelism_after and recovery.commit_seconds is None:
                recovery.commit_seconds = (at - since) / 1e9

    def _job_came_back(self, at: int) -> None:
        """Something new can be read; what a dying attempt still commits is no recovery."""
        for recovery, since, _ in self._waiting:
            if recovery.parallelism_after:
                recovery.seconds = (at - since) / 1e9
        self._waiting = [each for each in self._waiting if not each[0].parallelism_after]

    def _look_outside(self) -> None:
        """What can be read has become visible, told or not, and must not change any more."""
        for output in self._outputs:
            for name in output.names():
                if name not in self._visible:
                    self._step += 1
                    self._becomes_visible(name, is_empty=False, at=None)
        for table in self._database.tables():
            new = [row for row in table.rows if self._table.get(row[: table.keys]) != row]
            if new:
                self._step += 1
                self._write_rows("sink", self._attempt, table.keys, new)
        for name, identity in self._visible.items():
            if identity is not None and self._output_of(name).identity(name) != identity:
                self._step += 1
                self._visible[name] = None
                self.history.transaction_hidden(self._step, name)

    # The end.

    def out_of_time(self) -> None:
        """The job did not end within its time."""
        self._step += 1
        self.history.budget_exhausted(self._step)
        self.is_over = True

    def cannot_begin(self, what: str) -> None:
        """A process ended without a word in its log."""
        self._step += 1
        self.history.error(self._step, "process", "ProcessEnded", "main", what)
        self.is_over = True

    def at_rest(self, checkpoints: Path) -> None:
        """Look for what was left behind: transactions that nobody has ended, and files of checkpoints."""
        for output in self._outputs:
            for name in output.unfinished():
                self.history.leak(self._step, "open transaction", name)
        for path in sorted(checkpoints.rglob("*")):
            parts = path.relative_to(checkpoints).parts
            if _SHARED in parts[:-1] or any(part.startswith("chk-") for part in parts):
                self.history.leak(self._step, "orphan file", str(path.relative_to(checkpoints)))
        self.history.statistics.steps = self._step
