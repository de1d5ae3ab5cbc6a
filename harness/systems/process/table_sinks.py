"""The engine's sinks besides two-phase commit, over a database that real processes share.

The rules this module lives by:

- What becomes visible is told after it is there, as in `ends.py`; where somebody dies in between the database
  says what is there.
- A sink by key is the engine's own, for SQLite. It has no transactions, so what it has written is told row by
  row, and can be read at once.
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
    transaction_name,
    writer_of,
)
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.sinks import BUFFERED_KEYS, BatchSink, ReactingSink, SinkKind


class LoggingWriteAheadSink(BatchSink):
    """Sends its batches to the database."""

    def __init__(self, database: Database, commits: LoggedCommits) -> None:
        super().__init__(database)
        self._database = database
        self._commits = commits

    def take(self, batch: PendingBatch) -> None:
        """Hand it over, and tell."""
        name = self.name_of(batch)
        values = list(batch.values)
        self._commits.make(
            self.get_runtime_context(), name, len(values), lambda: self._database.take(name, values)
        )

    def name_of(self, batch: PendingBatch) -> str:
        """As the database names it."""
        return batch_name(batch.subtask, batch.checkpoint_id, batch.attempt)


class Begun(NamedTuple):
    """A transaction that is prepared."""

    name: str
    subtask: int
    epoch: int
    attempt: str


class DatabaseTarget:
    """The database as one task sees it: what is open is in its memory, and dies with it."""

    def __init__(self, database: Database, commits: LoggedCommits, task: RuntimeContext | None) -> None:
        self._database = database
        self._commits = commits
        self._task = task
        self._open: dict[str, list[Any]] = {}

    def begin(self, subtask: int, epoch: int, attempt: str, part: int = 0) -> str:
        """Begin a transaction here."""
        name = transaction_name(subtask, epoch, attempt, part)
        self._open[name] = []
        return name

    def write(self, name: str, row: Any) -> None:
        """Add a row."""
        self._open[name].append(row)

    def prepare(self, name: str) -> None:
        """Write the rows."""
        self._database.prepare(name, self._open.pop(name))

    def commit(self, name: str) -> None:
        """Make them visible, and tell."""
        assert self._task is not None, "nobody in particular commits"
        self._commits.make(self._task, name, 1, lambda: self._database.commit(name))

    def is_committed(self, name: str) -> bool:
        """Whether they are visible."""
        return self._database.is_visible(name)

    def abort(self, name: str) -> None:
        """Throw them away."""
        if self._open.pop(name, None) is None:
            self._database.abort(name)

    def unsettled(self) -> Sequence[Begun]:
        """What is prepared, whoever has done it."""
        return [Begun(name, *writer_of(name)) for name in self._database.prepared()]


class LoggingCommittingSink(ReactingSink):
    """A writer and a committer over the database."""

    def __init__(
        self, database: Database, commits: LoggedCommits, parameters: Mapping[str, Parameter]
    ) -> None:
        super().__init__(parameters)
        self._database = database
        self._commits = commits

    def target(self, task: RuntimeContext | None = None) -> DatabaseTarget:
        """A task's own view of the database."""
        return DatabaseTarget(self._database, self._commits, task)


class LoggingUpsertFunction(SqliteUpsertFunction):
    """The engine's sink by key, telling each write."""

    def __init__(
        self, path: Path, table: str, columns: Sequence[str], keys: int, commits: LoggedCommits
    ) -> None:
        super().__init__(str(path), table, columns, keys, BUFFERED_KEYS)
        self._commits = commits

    def upsert(self, rows: Mapping[Hashable, Any]) -> None:
        """Write between two protocol points, and tell."""
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
    """Return a new sink of a kind into the database; ``name`` and ``columns`` are those of a table."""
    match kind:
        case "write-ahead":
            return LoggingWriteAheadSink(database, commits)
        case "committing":
            return LoggingCommittingSink(database, commits, parameters)
        case "upsert":
            return LoggingUpsertFunction(database.path, name, columns, keys, commits)
