"""The external system of sinks without files in real processes: a database, and the sinks that write to it.

Rules:

- It is one SQLite file, which all processes of a run use concurrently. A process that dies in the middle of a
  write has written nothing.
- Writes survive the death of any process, but not that of the machine: no fault of a trial kills machines,
  and waiting for the disk would take most of the time of a run. A durable one is for recorded power cuts.
- Each call opens its own connection, because a worker may be forked from a process with an open connection,
  or be stopped while it holds one.
- Visible transactions are numbered (``place``), so a reader learns the order in which they became visible.
- A task logs a commit after it is visible, as in `file_io.py`. The upsert sink is the engine's SQLite sink.
  It has no transactions: its rows are visible at once, so it logs the rows of each write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec

from onceproof.engine.connectors.sqlite import SqliteUpsertFunction, use_write_ahead_log
from onceproof.engine.connectors.upsert_fence import FENCE
from onceproof.engine.connectors.write_ahead import PendingBatch
from onceproof.engine.functions import RuntimeContext
from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.model.scenario import Parameter
from onceproof.harness.systems.process.file_io import LoggedCommits
from onceproof.harness.systems.sinks import BUFFERED_KEYS, BatchSink, ReactingSink, SinkKind, sink_of

TRANSACTIONS: Final = "onceproof_transactions"
BATCH: Final = "batch/"
"""The prefix of names of write-ahead batches, which become visible at once, without being prepared."""
_SECONDS_TO_WAIT: Final = 60.0

_CREATE: Final = f"""
CREATE TABLE IF NOT EXISTS {TRANSACTIONS}
(name TEXT PRIMARY KEY, place INTEGER, is_remembered INTEGER NOT NULL DEFAULT 0, rows BLOB NOT NULL)
"""
_NEXT_PLACE: Final = f"(SELECT coalesce(max(place), 0) + 1 FROM {TRANSACTIONS})"


class UnknownTransaction(Exception):
    """The database refuses a call because it has no such transaction; the message is one line."""


class Table(NamedTuple):
    """A table that an upsert sink has written."""

    keys: int
    """The number of key columns, which come first."""
    rows: list[Row]


def database_of(output: Path) -> Path:
    """Return the path of the database that belongs to a folder of part files."""
    return output.with_name(f"{output.name}.db")


def transaction_name(subtask: int, epoch: int, attempt: str, owner: str, part: int = 0) -> str:
    return f"{subtask}/{epoch}/{attempt}/{owner}/{part}"


def owner_of(name: str) -> str:
    """Return the owner in the name of a transaction."""
    return name.split("/")[3]


def batch_name(sink: str, subtask: int, checkpoint_id: int, attempt: str) -> str:
    return f"{BATCH}{subtask}/{checkpoint_id}/{attempt}/{sink}"


def _batches(sink: str, subtask: int, checkpoint_id: int) -> str:
    """Return the pattern of the names that any attempt gives to a batch."""
    return f"{BATCH}{subtask}/{checkpoint_id}/*/{sink}"


def writer_of(name: str) -> tuple[int, int, str]:
    """Return the subtask, the epoch and the attempt in the name of a transaction or batch."""
    subtask, epoch, attempt = name.removeprefix(BATCH).split("/")[:3]
    return int(subtask), int(epoch), attempt


class Database:
    """Transactions by name, and the tables of upsert sinks, in one file."""

    def __init__(self, path: Path, *, is_durable: bool = False) -> None:
        self.path = path
        self._is_durable = is_durable

    def __deepcopy__(self, memo: object) -> Self:
        return self

    # For sinks.

    def prepare(self, name: str, rows: Sequence[Any]) -> None:
        """Write the rows of a transaction. From now on it can be committed, even if any process dies."""
        with self._writing() as connection:
            encoded = msgspec.json.encode(rows)
            connection.execute(f"INSERT INTO {TRANSACTIONS} (name, rows) VALUES (?, ?)", (name, encoded))

    def commit(self, name: str) -> None:
        """Make the rows visible. A repeated commit changes nothing. Raises UnknownTransaction."""
        with self._writing() as connection:
            known = connection.execute(f"SELECT place FROM {TRANSACTIONS} WHERE name = ?", (name,)).fetchone()
            if known is None:
                raise UnknownTransaction(f"transaction {name} was never prepared, or was aborted")
            if known[0] is None:
                connection.execute(f"UPDATE {TRANSACTIONS} SET place = {_NEXT_PLACE} WHERE name = ?", (name,))

    def is_visible(self, name: str) -> bool:
        """Return whether a transaction is committed."""
        found = self._read(f"SELECT 1 FROM {TRANSACTIONS} WHERE name = ? AND place IS NOT NULL", name)
        return bool(found)

    def abort(self, name: str) -> None:
        """Delete a prepared transaction; do nothing to a visible or unknown one."""
        with self._writing() as connection:
            connection.execute(f"DELETE FROM {TRANSACTIONS} WHERE name = ? AND place IS NULL", (name,))

    def prepared(self) -> list[str]:
        """Return the names of the prepared transactions, sorted."""
        found = self._read(f"SELECT name FROM {TRANSACTIONS} WHERE place IS NULL ORDER BY name")
        return [name for (name,) in found]

    def take(self, name: str, rows: Sequence[Any]) -> bool:
        """Make a batch visible. Return False if one of its sink, subtask and checkpoint is visible."""
        subtask, checkpoint_id, _ = writer_of(name)
        same = _batches(owner_of(name.removeprefix(BATCH)), subtask, checkpoint_id)
        with self._writing() as connection:
            found = connection.execute(f"SELECT 1 FROM {TRANSACTIONS} WHERE name GLOB ?", (same,)).fetchone()
            if found is not None:
                return False
            connection.execute(
                f"INSERT INTO {TRANSACTIONS} (name, place, rows) VALUES (?, {_NEXT_PLACE}, ?)",
                (name, msgspec.json.encode(rows)),
            )
        return True

    def remember_batch(self, sink: str, subtask: int, checkpoint_id: int) -> None:
        """Record that the sink has sent a batch. Raises UnknownTransaction if it was never taken."""
        with self._writing() as connection:
            found = connection.execute(
                f"UPDATE {TRANSACTIONS} SET is_remembered = 1 WHERE name GLOB ?",
                (_batches(sink, subtask, checkpoint_id),),
            )
            if not found.rowcount:
                raise UnknownTransaction(f"batch {subtask}/{checkpoint_id} is to be remembered, never taken")

    def remembers_batch(self, sink: str, subtask: int, checkpoint_id: int) -> bool:
        """Return whether ``remember_batch`` was called for a batch."""
        found = self._read(
            f"SELECT 1 FROM {TRANSACTIONS} WHERE is_remembered AND name GLOB ?",
            _batches(sink, subtask, checkpoint_id),
        )
        return bool(found)

    # For readers.

    def visible(self) -> list[str]:
        """Return the names of the visible transactions, in the order in which they became visible."""
        found = self._read(f"SELECT name FROM {TRANSACTIONS} WHERE place IS NOT NULL ORDER BY place")
        return [name for (name,) in found]

    def rows(self, name: str) -> list[Row] | None:
        """Return the rows of a transaction; None if it is not visible."""
        found = self._read(f"SELECT rows FROM {TRANSACTIONS} WHERE name = ? AND place IS NOT NULL", name)
        return rows_of(msgspec.json.decode(found[0][0])) if found else None

    def tables(self) -> list[Table]:
        """Return the tables of upsert sinks."""
        tables = []
        for (name,) in self._read("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"):
            if name not in (TRANSACTIONS, FENCE):
                quoted = '"' + name.replace('"', '""') + '"'
                keys = len(self._read("SELECT 1 FROM pragma_table_info(?) WHERE pk > 0", name))
                tables.append(Table(keys, self._read(f"SELECT * FROM {quoted}")))
        return tables

    def _read(self, question: str, *values: Any) -> list[Any]:
        """Return all rows of a query; none if no process has written to the database yet."""
        if not self.path.exists():
            return []
        with closing(self._connected()) as connection:
            return connection.execute(question, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Run the block in one SQLite transaction, which is rolled back if the block raises."""
        with closing(self._connected()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            # If the block raised, the connection closes without this, and SQLite rolls back.
            connection.execute("COMMIT")

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_SECONDS_TO_WAIT, isolation_level=None)
        connection.execute(f"PRAGMA synchronous = {'FULL' if self._is_durable else 'OFF'}")
        use_write_ahead_log(connection)
        if self._is_durable:
            # What a killed process has left in the log is relied on from now on.
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        connection.execute(_CREATE)
        return connection


def rows_of(values: Iterable[Any]) -> list[Row]:
    """Return rows as tuples; JSON decodes them as lists."""
    return [as_tuple(value) for value in values]


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
        """Write rows, and log them."""
        self._commits.write(self.get_runtime_context(), self._keys, rows, super().upsert)


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
