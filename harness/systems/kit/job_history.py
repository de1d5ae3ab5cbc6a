"""Builds the history of a job of the engine from the event logs of its processes and the files they left.

Rules:

- The log decides the order; the files decide what there is (`visible_outputs.py`). A file that can be read
  became visible at the latest when its process died, logged or not; rows that cannot be read again are gone,
  whatever was logged.
- A part file is read once its process is dead, when no process writes it. It must then stay as it is.
- Of a table by key only the last row of each key can be read. A row that was not logged was written last.
- A reader outside of the job may have looked at the output during the run (`visible_outputs.py`). What it saw
  has its place among the events of the job by time: rows that it saw before their checkpoint was complete
  became visible before.
- A checkpoint is complete once it is logged, or found by the next process, before that one restores anything.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.messages import SAVEPOINT, checkpoint_folder
from onceproof.harness.model.faults import FAULTS, KILLS
from onceproof.harness.model.history import Row
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.kit.run_history import NO_FILES, RunHistory
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


class JobHistory:
    """Turns the event logs of one process after another into one history.

    Args:
        faults: those of the run.
        lengths: by split, the number of records.
        output: the folder of rows.
        suffix: of part files.
        read_rows: reads a part file.
        parallelism: of the first attempt.
        postgres: the address of the job's database.
        kafka: the topics of the job.
        objects: the places of the job in an object store.
        attempt_of: returns the attempt of the job for which a writer wrote a snapshot or a transaction.
        is_death: see RunHistory.
        position: see RunHistory.
    """

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
        attempt_of: Callable[[str], str] = str,
        is_death: Callable[[str], bool] = KILLS.__contains__,
        position: Callable[[Mapping[str, int]], int | None] | None = None,
    ) -> None:
        self.run = RunHistory(faults, lengths, parallelism, is_death, position, sees_input=True)
        self.savepoints: list[str] = []
        """The folders of the savepoints that were reported complete."""
        self._attempt_of = attempt_of
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
        self._cuts: dict[str, dict[str, int]] = {}
        self._listed: dict[str, list[str]] = {}
        self._writers: dict[str, str] = {}
        self._visible: dict[str, Hashable | None] = {}
        self._disowned: set[str] = set()
        """What processes have not ended of which no later one could know."""
        self._table: dict[Row, Row] = {}
        """By key, what a table shows, as far as was logged."""

    def writes_into(self, folder: str) -> None:
        """Note where the file sink of the next process writes; what others have written stays where it is."""
        self._part_files.writes_into(Path(folder))

    # The events of a process.

    def add_process_log(
        self, events: list[dict[str, Any]], add_event: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        """Add the event log of one process, once it and all its children are dead.

        ``add_event`` adds each event; None: ``JobHistory.add_event``.
        """
        run = self.run
        run.log_begins()
        for event in events:
            run.next_step()
            (add_event or self.add_event)(event)
        totals = run.history.statistics.points
        for point, count in run.points.items():
            totals[point] = totals.get(point, 0) + count
        self._look_outside()

    def add_event(self, event: dict[str, Any]) -> None:
        """Add one event of a log."""
        run = self.run
        history = run.history
        match event["kind"]:
            case event_log.PROCESS_STARTED:
                self._process_started(event)
            case event_log.ATTEMPT_STARTED:
                run.attempt_started(event["attempt"], event["parallelism"], event["restored"])
                run.split_read = dict(run.complete.get(event["restored"] or 0, {}))
            case event_log.SNAPSHOT_TAKEN:
                self._snapshot_taken(event)
            case event_log.CHECKPOINT_TRIGGERED:
                history.checkpoint_triggered(run.step, event["checkpoint"])
            case event_log.CHECKPOINT_COMPLETED:
                self._completed(event["checkpoint"])
                self.savepoints += event.get("folder", ())
            case event_log.SAVEPOINT_COMPLETED:
                savepoint = event["checkpoint"]
                history.savepoint_completed(run.step, savepoint["id"], savepoint["attempt"])
                self.savepoints += event["folder"]
            case event_log.CHECKPOINT_ABORTED:
                history.checkpoint_aborted(run.step, event["checkpoint"], event["reason"])
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
                history.commit_failed(run.step, event["transaction"])
            case event_log.FAULT_STRUCK:
                self._fault_struck(event)
            case event_log.SERVER_AWAY:
                self._server_away(event)
            case event_log.SPLIT_READ:
                # Where a task runs twice, the slower one may be closed last.
                run.split_read[event["split"]] = max(run.split_read.get(event["split"], 0), event["count"])
            case event_log.LEFT_BEHIND:
                run.left_behind(event["what"], event["name"])
            case event_log.JOB_STOPPED:
                run.has_stopped = True
                run.next_parallelism = event["parallelism"] or run.next_parallelism
                history.job_stopped(run.step)
            case event_log.JOB_RESCALED:
                run.next_parallelism = event["parallelism"]
                history.job_rescaled(run.step, run.next_parallelism)
            case _:
                run.add_event(event)

    def _process_started(self, event: dict[str, Any]) -> None:
        for checkpoint in event["found"]:
            if checkpoint["id"] not in self.run.complete:
                self._completed(checkpoint)

    def _snapshot_taken(self, event: dict[str, Any]) -> None:
        path = event["path"]
        self._cuts[path] = event["cut"]
        self._listed[path] = event["transactions"]
        self._writers[path] = event["attempt"]

    def _completed(self, checkpoint: dict[str, Any]) -> None:
        """Add a complete checkpoint. A split that is in no snapshot belongs to a source that had finished."""
        cut = dict(self.run.lengths)
        transactions: list[str] = []
        writers: dict[str, None] = {}
        for path in [self._logged_path(path, checkpoint["id"]) for path in checkpoint["paths"]]:
            cut.update(self._cuts.get(path, {}))
            transactions += self._listed.get(path, [])
            writers[self._attempt_of(self._writers.get(path, "unknown"))] = None
        self.run.complete[checkpoint["id"]] = cut
        self.run.history.checkpoint_completed(
            self.run.step,
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
        self._write_rows(event["task"], self._attempt_of(event["attempt"]), event["keys"], rows)
        self.run.job_commits_again(event["at"])
        self.run.job_came_back(event["at"])

    def _rows_gone(self, name: str) -> None:
        """Add that a reader does not see rows any more; of a table by key ``name`` is the key."""
        self._visible[name] = None
        self.run.history.transaction_hidden(self.run.step, name)

    def _fault_struck(self, event: dict[str, Any]) -> None:
        # The job has to name a folder that is lost, with the folder that it was in.
        is_folder = FAULTS[self.run.faults[event["number"]].kind].strikes == "folder"
        self.run.fault_struck(event, f"{self._output.parent.name}/{CHECKPOINTS}" if is_folder else "")

    def _server_away(self, event: dict[str, Any]) -> None:
        """Add a process that has given up; without a fault of a server that is an error."""
        run = self.run
        if may_be_away(run.faults, run.waiting):
            run.has_given_up = True
            run.history.task_failed(run.step, "process", run.attempt, event["text"], injected=True)
        else:
            run.error(event["where"], event["type"], event["function"], event["text"])

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
        self.run.history.transaction_visible(
            self.run.step, name, subtask, self._attempt_of(writer), epoch, rows, output.waits(name)
        )
        if not is_empty and identity is None:
            self.run.history.transaction_hidden(self.run.step, name)
        if at is not None:
            self.run.job_commits_again(at)
            if rows:
                self.run.job_came_back(at)

    def _write_rows(self, task: str, attempt: str, keys: int, rows: list[Row]) -> None:
        self._table.update({row[:keys]: row for row in rows})
        self.run.history.rows_written(self.run.step, task, attempt, keys, rows)

    def _look_outside(self) -> None:
        """Add what can be read and was not logged, and what changed although it was visible."""
        for output in self._outputs:
            for name in output.names():
                if name not in self._visible:
                    self.run.next_step()
                    self._becomes_visible(name, is_empty=False, at=None)
        tables = self._database.tables()
        if self._postgres_output is not None:
            tables += self._postgres_output.tables()
        for table in tables:
            new = [row for row in table.rows if self._table.get(row[: table.keys]) != row]
            if new:
                self.run.next_step()
                self._write_rows("sink", self.run.attempt, table.keys, new)
        for name, identity in self._visible.items():
            if identity is not None and self._output_of(name).identity(name) != identity:
                self.run.next_step()
                self._visible[name] = None
                self.run.history.transaction_hidden(self.run.step, name)

    # The end.

    def disown_unfinished(self) -> None:
        """Let what is not ended now stay: no later process of the job can know of it."""
        self._disowned.update(name for output in self._outputs for name in output.unfinished())

    def at_rest(self, checkpoints: Path, neighbour: Mapping[str, bytes] = NO_FILES) -> None:
        """Add what was left behind: transactions that were not ended, and files of checkpoints.

        ``checkpoints`` is their folder, if they are in none of an object store. ``neighbour`` are the hidden
        files of another job in the output folder: add those that are gone.
        """
        for output in self._outputs:
            for name in output.unfinished():
                if name not in neighbour and name not in self._disowned:
                    self.run.history.leak(self.run.step, "open transaction", name)
        for name, content in neighbour.items():
            path = self._output / name
            if not path.is_file() or path.read_bytes() != content:
                self.run.history.leak(self.run.step, "lost transaction of another job", name)
        if self._objects_output is None:
            files = [str(path.relative_to(checkpoints)) for path in sorted(checkpoints.rglob("*"))]
        else:
            files = self._objects_output.files("checkpoints")
            if not self._objects_output.is_neighbour_there():
                self.run.history.leak(self.run.step, "lost transaction of another job", "an upload")
        for file in files:
            parts = file.split("/")
            if _SHARED in parts[:-1] or any(part.startswith("chk-") for part in parts):
                self.run.history.leak(self.run.step, "orphan file", file)
        if self._postgres_output is not None:
            self._postgres_output.close()
        if self._kafka_output is not None:
            self._kafka_output.close()
        self.run.history.statistics.steps = self.run.step
