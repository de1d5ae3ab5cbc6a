"""Write-ahead, committing and upsert sinks over a database that all processes of a run share.

The rules this module lives by:

- A task logs a commit after it is visible, as in `test_io.py`. If the task dies in between, the database
  shows the commit.
- The upsert sink is the engine's SQLite sink. It has no transactions: its rows are visible at once, so it
  logs the rows of each write.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from onceproof.engine.connectors.sqlite import SqliteUpsertFunction
from onceproof.engine.connectors.write_ahead import PendingBatch
from onceproof.engine.functions import RuntimeContext
from onceproof.engine.protocol_points import COMMITTED, COMMITTING
from onceproof.harness.model.scenario import Parameter
from onceproof.harness.systems.process.test_io import LoggedCommits, task_name
from onceproof.harness.systems.process.transactional_database import (
    Database,
    batch_name,
    owner_of,
    transaction_name,
    writer_of,
)
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.sinks import BUFFERED_KEYS, BatchSink, ReactingSink, SinkKind, sink_of


class LoggingWriteAheadSink(BatchSink):
    """A write-ahead sink that sends its batches to the database, and logs them."""

    def __init__(self, database: Database, commits: LoggedCommits) -> None:
        super().__init__(database)
        self._database = database
        self._commits = commits

    def take(self, batch: PendingBatch) -> None:
        """Make the batch visible in the database, and log it."""
        name = self.name_of(batch)
        values = list(batch.values)
        self._commits.make(
            self.get_runtime_context(), name, len(values), lambda: self._database.take(name, values)
        )

    def name_of(self, batch: PendingBatch) -> str:
        """Return the batch's name in the database."""
        return batch_name(sink_of(batch), batch.subtask, batch.checkpoint_id, batch.attempt)


class Begun(NamedTuple):
    """A prepared transaction, with the writer that began it."""

    name: str
    subtask: int
    epoch: int
    attempt: str
    owner: str


class DatabaseTarget:
    """One task's access to the database. Open transactions are in memory, and lost when the task dies."""

    def __init__(self, database: Database, commits: LoggedCommits, task: RuntimeContext | None) -> None:
        self._database = database
        self._commits = commits
        self._task = task
        self._open: dict[str, list[Any]] = {}

    def begin(self, subtask: int, epoch: int, attempt: str, owner: str, part: int = 0) -> str:
        """Begin a transaction in memory. Return its name."""
        name = transaction_name(subtask, epoch, attempt, owner, part)
        self._open[name] = []
        return name

    def write(self, name: str, row: Any) -> None:
        self._open[name].append(row)

    def prepare(self, name: str) -> None:
        """Write the rows of an open transaction to the database."""
        self._database.prepare(name, self._open.pop(name))

    def commit(self, name: str) -> None:
        """Make the rows visible, and log the commit. Raises InjectedError if a fault strikes."""
        assert self._task is not None, "commit needs a task"
        self._commits.make(self._task, name, 1, lambda: self._database.commit(name))

    def is_committed(self, name: str) -> bool:
        return self._database.is_visible(name)

    def abort(self, name: str) -> None:
        """Discard the rows of an open or prepared transaction."""
        if self._open.pop(name, None) is None:
            self._database.abort(name)

    def unsettled(self) -> Sequence[Begun]:
        """Return the prepared transactions of all tasks and attempts."""
        return [Begun(name, *writer_of(name), owner_of(name)) for name in self._database.prepared()]


class LoggingCommittingSink(ReactingSink):
    """A sink of a writer and a committer over the database, which logs its commits."""

    def __init__(
        self, database: Database, commits: LoggedCommits, parameters: Mapping[str, Parameter]
    ) -> None:
        super().__init__(parameters)
        self._database = database
        self._commits = commits

    def target(self, task: RuntimeContext | None = None) -> DatabaseTarget:
        return DatabaseTarget(self._database, self._commits, task)


class LoggingUpsertFunction(SqliteUpsertFunction):
    """The engine's SQLite upsert sink, which logs the rows of each write."""

    def __init__(
        self, path: Path, table: str, columns: Sequence[str], keys: int, commits: LoggedCommits
    ) -> None:
        super().__init__(str(path), table, columns, keys, BUFFERED_KEYS)
        self._commits = commits

    def upsert(self, rows: Mapping[Hashable, Any]) -> None:
        """Write rows between the points ``committing`` and ``committed``, and log them."""
        context = self.get_runtime_context()
        context.probe(COMMITTING, 0)
        task = task_name(context)
        fault = self._commits.strike(context, task)
        super().upsert(rows)
        self._commits.log.write(
            event_log.ROWS_WRITTEN,
            task=task,
            attempt=context.get_attempt_id(),
            keys=self._keys,
            rows=list(rows.values()),
        )
        self._commits.answer(fault, task)
        context.probe(COMMITTED, 0)


def make_sink(
    kind: SinkKind,
    name: str,
    database: Database,
    commits: LoggedCommits,
    parameters: Mapping[str, Parameter],
    columns: Sequence[str],
    keys: int,
) -> Any:
    """Return a new sink; ``name``, ``columns`` and ``keys`` describe the table of an upsert sink."""
    match kind:
        case "write-ahead":
            return LoggingWriteAheadSink(database, commits)
        case "committing":
            return LoggingCommittingSink(database, commits, parameters)
        case _:
            return LoggingUpsertFunction(database.path, name, columns, keys, commits)
