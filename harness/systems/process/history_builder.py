"""Builds the history that checkers judge from the event logs of real processes and the files they left.

The rules this module lives by:

- The log decides the order; the files decide what there is (`visible_outputs.py`). A file that can be read
  became visible at the latest when its process died, logged or not; rows that cannot be read again are gone,
  whatever was logged.
- A part file is read once its process is dead, when no process writes it. It must then stay as it is.
- Of a table by key only the last row of each key can be read. A row that was not logged was written last.
- The number of an event is its step: real processes have no other.
- A reader outside of the job may have looked at the output during the run (`visible_outputs.py`). What it saw
  has its place among the events of the job by time: rows that it saw before their checkpoint was complete
  became visible before.
- A checkpoint is complete once it is logged, or found by the next process, before that one restores anything.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from onceproof.engine.messages import SAVEPOINT, checkpoint_folder
from onceproof.harness.model.faults import FAULTS, KILLS
from onceproof.harness.model.history import History, Recovery, Row
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.fault_clock import ClockState
from onceproof.harness.systems.process.database_io import Database, database_of, rows_of
from onceproof.harness.systems.process.job_specification import CHECKPOINTS, TrialObjects, TrialTopics
from onceproof.harness.systems.process.strike_requests import may_be_away
from onceproof.harness.systems.process.visible_outputs import DatabaseOutput, Output, PartFiles, ReadRows
from onceproof.harness.systems.recording import event_log

if TYPE_CHECKING:
    from onceproof.harness.systems.process.kafka_io import KafkaOutput
    from onceproof.harness.systems.process.object_io import ObjectOutput
    from onceproof.harness.systems.process.postgres_io import PostgresOutput

_SHARED: Final = "shared"
"""The folder of files that several checkpoints have in common."""
NO_FILES: Final[Mapping[str, bytes]] = {}
OUTSIDE: Final = "outside"
"""The point of a kill that no fault of the scenario sent: it can strike anywhere."""


class HistoryBuilder:
    """Turns the event logs of one process after another into one history."""

    sees_input = True
    """Whether the readers of the job's input log how far they have come."""

    def __init__(
        self,
        faults: tuple[Fault, ...],
        lengths: Mapping[str, int],
        output: Path,
        suffix: str,
        read_rows: ReadRows,
        parallelism: int,
        postgres: str = "",
        kafka: TrialTopics | None = None,
        objects: TrialObjects | None = None,
    ) -> None:
        self.history = History()
        self.parallelism = parallelism
        """Of the attempt that runs, or ran last."""
        self.next_parallelism = parallelism
        """Of the next one: what the last rescale asked for."""
        self.is_over = False
        self.waiting = ClockState()
        """How far the faults had come, by the last one that struck."""
        self.death_was_planned = False
        """Whether a fault killed the process whose log was added last."""
        self.has_stopped = False
        """Whether the process whose log was added last has ended with a savepoint, to be started again."""
        self.has_given_up = False
        """Whether it has ended because a server was away that a fault had struck."""
        self.savepoints: list[str] = []
        """The folders of the savepoints that were reported complete."""
        self._faults = faults
        self._lengths = dict(lengths)
        self._output = output
        self._database = Database(database_of(output))
        self._part_files = PartFiles(output, suffix, read_rows)
        self._database_output = DatabaseOutput(self._database)
        self._outputs: tuple[Output, ...] = (self._database_output, self._part_files)
        self._postgres_output: PostgresOutput | None = None
        self._kafka_output: KafkaOutput | None = None
        if postgres:
            # It imports psycopg, which only some families need.
            from onceproof.harness.systems.process.postgres_io import PostgresOutput

            self._postgres_output = PostgresOutput(postgres)
            self._outputs = (self._postgres_output, *self._outputs)
        if kafka is not None:
            # It imports confluent_kafka, which only some families need.
            from onceproof.harness.systems.process.kafka_io import KafkaOutput

            self._kafka_output = KafkaOutput(kafka)
            self._outputs = (self._kafka_output, *self._outputs)
        self._objects_output: ObjectOutput | None = None
        if objects is not None:
            # It imports a client of S3, which only some families need.
            from onceproof.harness.systems.process.object_io import ObjectOutput

            self._objects_output = ObjectOutput(objects)
            self._outputs = (self._objects_output, *self._outputs)
        self._step = 0
        self._attempt = ""
        self._cuts: dict[str, dict[str, int]] = {}
        self._listed: dict[str, list[str]] = {}
        self._writers: dict[str, str] = {}
        self._complete: dict[int, dict[str, int]] = {}
        self._split_read: dict[str, int] = {}
        """By split, how far the attempt that runs is known to have read."""
        self._visible: dict[str, Hashable | None] = {}
        self._table: dict[Row, Row] = {}
        """By key, what a table shows, as far as was logged."""
        self._waiting: list[tuple[Recovery, int, dict[str, int]]] = []
        self._points: dict[str, int] = {}

    def writes_into(self, folder: str) -> None:
        """Note where the file sink of the next process writes; what others have written stays where it is."""
        self._part_files.writes_into(Path(folder))

    # The events of a process.

    def add_process_log(self, events: list[dict[str, Any]]) -> None:
        """Add the event log of one process, once the process is dead."""
        self.death_was_planned = self.has_stopped = self.has_given_up = False
        self._points = {}
        for event in events:
            self._step += 1
            self.add_event(event)
        totals = self.history.statistics.points
        for point, count in self._points.items():
            totals[point] = totals.get(point, 0) + count
        self._look_outside()

    def add_event(self, event: dict[str, Any]) -> None:
        """Add one event of a log; a system with events of its own overrides this."""
        match event["kind"]:
            case event_log.PROCESS_STARTED:
                self._process_started(event)
            case event_log.ATTEMPT_STARTED:
                self._attempt_started(event)
            case event_log.SNAPSHOT_TAKEN:
                self._snapshot_taken(event)
            case event_log.CHECKPOINT_TRIGGERED:
                self.history.checkpoint_triggered(self._step, event["checkpoint"])
            case event_log.CHECKPOINT_COMPLETED:
                self._completed(event["checkpoint"])
                self.savepoints += event.get("folder", ())
            case event_log.SAVEPOINT_COMPLETED:
                savepoint = event["checkpoint"]
                self.history.savepoint_completed(self._step, savepoint["id"], savepoint["attempt"])
                self.savepoints += event["folder"]
            case event_log.CHECKPOINT_ABORTED:
                self.history.checkpoint_aborted(self._step, event["checkpoint"], event["reason"])
            case event_log.COMMITTED:
                self._becomes_visible(event["transaction"], event["length"] == 0, event["at"])
            case event_log.ROWS_WRITTEN:
                self._rows_written(event)
            case event_log.ROWS_SEEN:
                self._becomes_visible(event["transaction"], is_empty=False, at=event["at"])
            case event_log.ROWS_GONE:
                self._rows_gone(event["transaction"])
            case event_log.UPLOAD_BEGUN:
                if self._objects_output is not None:
                    self._objects_output.upload_begun(event["upload"])
            case event_log.COMMIT_FAILED:
                self.history.commit_failed(self._step, event["transaction"])
            case event_log.FAULT_STRUCK:
                self._fault_struck(event)
            case event_log.TASK_FAILED:
                self._task_failed(event)
            case event_log.SERVER_AWAY:
                self._server_away(event)
            case event_log.SPLIT_READ:
                # Where a task runs twice, the slower one may be closed last.
                known = self._split_read.get(event["split"], 0)
                self._split_read[event["split"]] = max(known, event["count"])
            case event_log.LEFT_BEHIND:
                self.left_behind(event["what"], event["name"])
            case event_log.JOB_STOPPED:
                self.has_stopped = True
                self.next_parallelism = event["parallelism"] or self.next_parallelism
                self.history.job_stopped(self._step)
            case event_log.JOB_RESCALED:
                self.next_parallelism = event["parallelism"]
                self.history.job_rescaled(self._step, self.next_parallelism)
            case event_log.ERROR:
                self._error(event)
            case event_log.JOB_FINISHED:
                self._job_finished(event)
            case event_log.JOB_FAILED:
                self._job_failed(event)
            case unknown:
                raise ValueError(f"the event log has an event of the unknown kind {unknown!r}")

    def killed(self, at: int) -> None:
        """Add the kill of the process; a fault that killed it is in its log already."""
        self._step += 1
        if not self.death_was_planned:
            self._fired("kill_process", OUTSIDE, "*", at, {})
        self.history.task_failed(self._step, "process", self._attempt, "killed", injected=True)

    def left_behind(self, what: str, name: str) -> None:
        """Add something that is left behind, or is gone that should be there."""
        self.history.leak(self._step, what, name)

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
        self._split_read = dict(self._complete.get(restored or 0, {}))
        for recovery, _, read in self._waiting:
            # A recovery that died again before anything became visible keeps its first checkpoint.
            if not recovery.parallelism_after:
                self.record_recovery(recovery, restored, read)

    def record_recovery(self, recovery: Recovery, restored: int | None, read: dict[str, int]) -> None:
        """Record from which checkpoint a task or job recovers, and how many records it reads again.

        ``read`` is how far each split was read when it died.
        """
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

    def _completed(self, checkpoint: dict[str, Any]) -> None:
        """Add a complete checkpoint. A split that is in no snapshot belongs to a source that had finished."""
        cut = dict(self._lengths)
        transactions: list[str] = []
        writers: dict[str, None] = {}
        for path in [self._logged_path(path, checkpoint["id"]) for path in checkpoint["paths"]]:
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

    def _logged_path(self, path: str, checkpoint_id: int) -> str:
        """Return the path under which a snapshot was logged: a process finds a savepoint in another place."""
        folder = checkpoint_folder(checkpoint_id, SAVEPOINT)
        return path if path in self._writers else f"{folder}/{path.rpartition('/')[2]}"

    def _rows_written(self, event: dict[str, Any]) -> None:
        rows = rows_of(event["rows"])
        self._write_rows(event["task"], self.attempt_of(event["attempt"]), event["keys"], rows)
        self._job_commits_again(event["at"])
        self._job_came_back(event["at"])

    def _rows_gone(self, name: str) -> None:
        """Add that a reader does not see rows any more; of a table by key ``name`` is the key."""
        self._visible[name] = None
        self.history.transaction_hidden(self._step, name)

    def attempt_of(self, writer: str) -> str:
        """Return the attempt of the job for which ``writer`` wrote a snapshot or a transaction."""
        return writer

    def _fault_struck(self, event: dict[str, Any]) -> None:
        self.waiting = msgspec.convert(event["waiting"], ClockState)
        self._points = event["points"]
        fault = self._faults[event["number"]]
        if event.get("again"):
            # The fault strikes repeatedly; only its first strike begins a recovery.
            self.history.fault_fired(self._step, fault.kind, fault.point, event["task"], fault.means)
            return
        self.death_was_planned |= FAULTS[fault.kind].strikes == "process"
        self.next_parallelism = fault.rescale_to or self.next_parallelism
        struck = event["task"]
        if FAULTS[fault.kind].strikes == "folder":
            # The job has to name it, with the folder that it was in.
            struck = f"{self._output.parent.name}/{CHECKPOINTS}"
        self._fired(fault.kind, fault.point, struck, event["at"], event["read"], fault.means)

    def _task_failed(self, event: dict[str, Any]) -> None:
        self.history.task_failed(
            self._step, event["task"], event["attempt"], event["cause"], event["injected"]
        )

    def _server_away(self, event: dict[str, Any]) -> None:
        """Add a process that has given up; without a fault of a server that is an error."""
        if may_be_away(self._faults, self.waiting):
            self.has_given_up = True
            self.history.task_failed(self._step, "process", self._attempt, event["text"], injected=True)
        else:
            self._error(event)

    def _error(self, event: dict[str, Any]) -> None:
        self.history.error(self._step, event["where"], event["type"], event["function"], event["text"])
        self.is_over = True

    def _job_finished(self, event: dict[str, Any]) -> None:
        self._points = event["points"]
        self.says_success()

    def says_success(self) -> None:
        """Add that the job, or its process, says that all is done; and how much of the input was read."""
        self.history.job_finished(self._step)
        if self.sees_input:
            self.history.input_read(self._step, self._split_read, self._lengths)
        self.is_over = True

    def _job_failed(self, event: dict[str, Any]) -> None:
        self.history.job_failed(self._step, event["cause"])
        self.is_over = True

    def _fired(
        self, kind: str, point: str, task: str, at: int, read: dict[str, int], means: str = ""
    ) -> None:
        self.history.fault_fired(self._step, kind, point, task, means)
        statistics = self.history.statistics
        statistics.count_strike(kind, point, means)
        if self.is_death(kind):
            position = self.position(read)
            recovery = Recovery(kind, point, task, self.parallelism, position, means=means)
            statistics.recoveries.append(recovery)
            self._waiting.append((recovery, at, read))

    def is_death(self, kind: str) -> bool:
        """Return whether the job has to recover from a fault of this kind."""
        return kind in KILLS

    def position(self, read: dict[str, int]) -> int | None:
        """Return how many records had been read at a death, by what the victim knew; None where unknown."""
        # A task that dies in a restore knows only the sources that were restored before.
        return sum(read.values()) if read.keys() == self._lengths.keys() else None

    # The outside.

    def _output_of(self, name: str) -> Output:
        return next(output for output in self._outputs if output.owns(name))

    def _becomes_visible(self, name: str, is_empty: bool, at: int | None) -> None:
        """Add a visible transaction, once: committing it again changes nothing for a reader."""
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
        """End the wait for a commit: there is a new transaction, with rows or without."""
        for recovery, since, _ in self._waiting:
            if recovery.parallelism_after and recovery.commit_seconds is None:
                recovery.commit_seconds = (at - since) / 1e9

    def _job_came_back(self, at: int) -> None:
        """End the recoveries: new rows can be read. What a dying attempt still commits is no recovery."""
        for recovery, since, _ in self._waiting:
            if recovery.parallelism_after:
                recovery.seconds = (at - since) / 1e9
        self._waiting = [each for each in self._waiting if not each[0].parallelism_after]

    def _look_outside(self) -> None:
        """Add what can be read and was not logged, and what changed although it was visible."""
        for output in self._outputs:
            for name in output.names():
                if name not in self._visible:
                    self._step += 1
                    self._becomes_visible(name, is_empty=False, at=None)
        tables = self._database.tables()
        if self._postgres_output is not None:
            tables += self._postgres_output.tables()
        for table in tables:
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
        """Add that the job did not end within its time."""
        self._step += 1
        self.history.budget_exhausted(self._step)
        self.is_over = True

    def cannot_begin(self, what: str) -> None:
        """Add a process that ended without a log; ``what`` is what it printed last."""
        self._step += 1
        self.history.error(self._step, "process", "ProcessEnded", "main", what)
        self.is_over = True

    def at_rest(self, checkpoints: Path, neighbour: Mapping[str, bytes] = NO_FILES) -> None:
        """Add what was left behind: transactions that were not ended, and files of checkpoints.

        ``checkpoints`` is their folder, if they are in none of an object store. ``neighbour`` are the hidden
        files of another job in the output folder: add those that are gone.
        """
        for output in self._outputs:
            for name in output.unfinished():
                if name not in neighbour:
                    self.history.leak(self._step, "open transaction", name)
        for name, content in neighbour.items():
            path = self._output / name
            if not path.is_file() or path.read_bytes() != content:
                self.history.leak(self._step, "lost transaction of another job", name)
        if self._objects_output is None:
            files = [str(path.relative_to(checkpoints)) for path in sorted(checkpoints.rglob("*"))]
        else:
            files = self._objects_output.files("checkpoints")
            if not self._objects_output.is_neighbour_there():
                self.history.leak(self._step, "lost transaction of another job", "an upload")
        for file in files:
            parts = file.split("/")
            if _SHARED in parts[:-1] or any(part.startswith("chk-") for part in parts):
                self.history.leak(self._step, "orphan file", file)
        if self._postgres_output is not None:
            self._postgres_output.close()
        if self._kafka_output is not None:
            self._kafka_output.close()
        self.history.statistics.steps = self._step
