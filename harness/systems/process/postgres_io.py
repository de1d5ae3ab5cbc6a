"""The sinks and lookups in PostgreSQL of a job under trial in a real process, and the readers of its tables.

Rules:

- The sinks are the engine's. They log their commits as the other sinks do (`file_io.py`).
- The process that builds the job creates the tables: that of a sink with the columns of the family's row
  schema, that of a lookup in a schema of its own, filled in one transaction, by any number of processes.
- What is visible is read by the system column xmin: the rows and the ledger entry of a transaction have the
  same one, because they were written in the same transaction. Rows with another xmin were committed by no
  sink who may, and get a name that no checkpoint lists.
- Lookups run in threads beside the task and its event loop, each on one connection, through the proxy that
  faults cut, with the time-outs of the engine's connections. After an error the next lookup opens another
  connection; whether to look up again is the job's choice. Threads and connections of a task that was killed
  end as it is freed.
- `PostgresWatch` looks with one statement for each table, so it sees what one moment shows. Rows are gone if
  a transaction has fewer of them than before, or a key is missing from a table by key.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql

from onceproof.engine.connectors.jdbc.exactly_once_function import ExactlyOnceFunction
from onceproof.engine.connectors.jdbc.jdbc_options import JdbcConnectionOptions
from onceproof.engine.connectors.jdbc.two_phase_database import PREFIX, transaction_name_of
from onceproof.engine.connectors.postgres.postgres_sessions import (
    COLUMNS,
    LEDGER,
    PostgresDatabase,
    PostgresLedger,
)
from onceproof.engine.connectors.postgres.postgres_sinks import USE, PostgresUpsertFunction
from onceproof.engine.connectors.postgres.postgres_table import PostgresTable
from onceproof.engine.connectors.postgres.timed_connection import TimedConnection, connect, translated
from onceproof.engine.connectors.upsert_fence import FENCE
from onceproof.engine.functions import Function, RuntimeContext
from onceproof.harness.model.history import Row
from onceproof.harness.systems.process.database_io import Table
from onceproof.harness.systems.process.file_io import LoggedCommits
from onceproof.harness.systems.process.visible_outputs import ServerWatch
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.sinks import BUFFERED_KEYS

BATCH_ROWS: Final = 3
_TYPES: Final = {
    "STRING": "text",
    "BIGINT": "bigint",
    "INT": "integer",
    "DOUBLE": "double precision",
    "BOOLEAN": "boolean",
}
"""By types of Spark DDL, those of PostgreSQL."""
_SECONDS_TO_ANSWER: Final = 15.0
_SECONDS_BETWEEN_TRIES: Final = 0.02
_UNKNOWN: Final = f"{PREFIX}_unlisted_"


class LoggingPostgresSink(ExactlyOnceFunction):
    """The engine's exactly-once sink, which logs its commits."""

    def __init__(self, database: PostgresDatabase, commits: LoggedCommits) -> None:
        super().__init__(database, BATCH_ROWS)
        self._postgres = database
        self._commits = commits

    def __deepcopy__(self, memo: object) -> LoggingPostgresSink:
        return LoggingPostgresSink(self._postgres, self._commits)

    def pending_transactions(self) -> list[str]:
        """Return the names of the pending transactions that have rows."""
        return [name for name, rows in super().pending_transactions() if rows]

    def commit(self, transaction: list[Any]) -> None:
        """Commit and log. Raises InjectedError if a fault strikes."""
        name, rows = transaction
        if rows:
            commit = super().commit
            self._commits.make(self.get_runtime_context(), name, rows, lambda: commit(transaction))


class LoggingPostgresUpsertFunction(PostgresUpsertFunction):
    """The engine's upsert sink, which logs the rows of each write."""

    def __init__(self, table: PostgresTable, keys: int, commits: LoggedCommits) -> None:
        super().__init__(table, keys, BUFFERED_KEYS)
        self._commits = commits

    def __deepcopy__(self, memo: object) -> LoggingPostgresUpsertFunction:
        return LoggingPostgresUpsertFunction(self._target, self._keys, self._commits)

    def upsert(self, rows: Mapping[Hashable, Any]) -> None:
        """Write rows, and log them."""
        self._commits.write(self.get_runtime_context(), self._keys, rows, super().upsert)


class PostgresEnd(NamedTuple):
    """The database at the end of a job."""

    address: str
    """For the harness."""
    address_of_job: str
    request_timeout_ms: int
    """Of the job's requests; 0: the engine's default."""


def job_options(end: PostgresEnd) -> JdbcConnectionOptions:
    """Return how the job connects."""
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(end.address_of_job)
    if end.request_timeout_ms:
        builder.with_request_timeout_ms(end.request_timeout_ms)
    return builder.build()


def make_postgres_sink(
    end: PostgresEnd, name: str, column_types: Mapping[str, str], keys: int, commits: LoggedCommits
) -> Any:
    """Return a new sink into a table, which is made if it does not exist; with ``keys`` an upsert sink."""
    until_answered(end.address, lambda connection: make_table(connection, name, column_types, keys))
    table = PostgresTable(job_options(end), name, list(column_types), "", USE)
    if keys:
        return LoggingPostgresUpsertFunction(table, keys, commits)
    return LoggingPostgresSink(PostgresDatabase(table, PostgresLedger(LEDGER, "")), commits)


def make_table(
    connection: psycopg.Connection[Any], name: str, column_types: Mapping[str, str], keys: int
) -> None:
    """Create the table of a sink, if it does not exist, and the ledger. Another process may do it, too."""
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(_TYPES[kind]))
        for column, kind in column_types.items()
    ]
    if keys:
        key = sql.SQL(", ").join(map(sql.Identifier, list(column_types)[:keys]))
        columns.append(sql.SQL("PRIMARY KEY ({})").format(key))
    connection.execute(
        sql.SQL("SELECT pg_advisory_lock(1); CREATE TABLE IF NOT EXISTS {} ({});").format(
            sql.Identifier(name), sql.SQL(", ").join(columns)
        )
        + sql.SQL(f"CREATE TABLE IF NOT EXISTS {LEDGER} ({COLUMNS}); SELECT pg_advisory_unlock(1)")
    )


def until_answered(address: str, call: Callable[[psycopg.Connection[Any]], object]) -> None:
    """Call with a new connection; call again while the server is away. Raises OperationalError in the end."""
    deadline = time.monotonic() + _SECONDS_TO_ANSWER
    while True:
        try:
            with psycopg.connect(address, autocommit=True) as connection:
                call(connection)
                return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)


class PostgresOutput:
    """The committed transactions in a database (`visible_outputs.Output`)."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection: psycopg.Connection[Any] | None = None

    def owns(self, name: str) -> bool:
        return name.startswith(f"{PREFIX}_")

    def names(self) -> list[str]:
        """Return the names of the committed transactions, and names for rows that are in none."""
        if not self._exists(LEDGER):
            return []
        known = self._ask(f"SELECT transaction FROM {LEDGER} ORDER BY recorded_at, transaction")
        unlisted: set[str] = set()
        for table in self._tables(has_key=False):
            found = self._ask(
                sql.SQL(
                    "SELECT DISTINCT xmin::text FROM {} WHERE xmin::text NOT IN (SELECT xmin::text FROM {})"
                ).format(sql.Identifier(table), sql.Identifier(LEDGER))
            )
            unlisted.update(xmin for (xmin,) in found)
        return [*[name for (name,) in known], *[f"{_UNKNOWN}{xmin}" for xmin in sorted(unlisted)]]

    def visible(self) -> dict[str, int]:
        """Return the number of rows of each transaction, as one look at each table shows them."""
        if not self._exists(LEDGER):
            return {}
        counts: dict[str, int] = {}
        for table in self._tables(has_key=False):
            found = self._ask(
                sql.SQL(
                    "SELECT coalesce(entry.transaction, {unknown} || line.xmin::text), count(*)"
                    " FROM {table} line LEFT JOIN {ledger} entry ON entry.xmin = line.xmin GROUP BY 1"
                ).format(
                    unknown=sql.Literal(_UNKNOWN), table=sql.Identifier(table), ledger=sql.Identifier(LEDGER)
                )
            )
            for name, count in found:
                counts[name] = counts.get(name, 0) + count
        return counts

    def identity(self, name: str) -> Hashable | None:
        """Return the rows as text; None if the transaction is not visible."""
        rows = self.rows(name)
        return repr(rows) if rows else None

    def rows(self, name: str) -> list[Row]:
        """Return the rows of a transaction, in the order of their places in the table."""
        condition: sql.Composable
        if name.startswith(_UNKNOWN):
            condition, value = sql.SQL("xmin::text = %s"), name.removeprefix(_UNKNOWN)
        else:
            condition = sql.SQL("xmin = (SELECT xmin FROM {} WHERE transaction = %s)").format(
                sql.Identifier(LEDGER)
            )
            value = name
        rows: list[Row] = []
        for table in self._tables(has_key=False):
            query = sql.SQL("SELECT * FROM {} WHERE {} ORDER BY ctid").format(
                sql.Identifier(table), condition
            )
            rows += self._ask(query, (value,))
        return rows

    def writer(self, name: str) -> tuple[int, int, str]:
        """Return the writer in a name; (0, 0, "unknown") for rows that are in no transaction of a sink."""
        writer = transaction_name_of(name)
        return (0, 0, "unknown") if writer is None else (writer.subtask, writer.epoch, writer.attempt)

    def waits(self, name: str) -> bool:
        """Return False: the sink writes rows before the commit."""
        return False

    def unfinished(self) -> list[str]:
        """Return the names of the transactions that are still prepared."""
        found = self._ask(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid"
        )
        return [gid for (gid,) in found]

    def tables(self) -> list[Table]:
        """Return the tables of upsert sinks."""
        found = []
        for table in self._tables(has_key=True):
            [(keys,)] = self._ask(
                "SELECT indnkeyatts FROM pg_index WHERE indrelid = to_regclass(quote_ident(%s))"
                " AND indisprimary",
                (table,),
            )
            found.append(Table(keys, self._ask(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))))
        return found

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _tables(self, *, has_key: bool) -> list[str]:
        found = self._ask(
            "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
            " AND relname <> ALL (%s) AND EXISTS (SELECT 1 FROM pg_index WHERE indrelid = pg_class.oid) = %s"
            " ORDER BY relname",
            ([LEDGER, FENCE], has_key),
        )
        return [name for (name,) in found]

    def _exists(self, table: str) -> bool:
        [(found,)] = self._ask("SELECT to_regclass(%s) IS NOT NULL", (table,))
        return bool(found)

    def _ask(self, query: Any, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query; ask again while the server is being started."""
        deadline = time.monotonic() + _SECONDS_TO_ANSWER
        while True:
            try:
                if self._connection is None:
                    self._connection = psycopg.connect(self._address, autocommit=True)
                return self._connection.execute(query, values).fetchall()
            except psycopg.OperationalError:
                self.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(_SECONDS_BETWEEN_TRIES)


SCHEMA: Final = "lookups"
KEY: Final = "key"
AT_A_TIME: Final = 2
"""Lookups of a subtask that the server has at the same time; others wait."""
_LOOKUP_TYPES: Final = {str: "text", int: "bigint", float: "double precision", bool: "boolean"}


class PostgresLookup(Function):
    """Finds rows by their first column.

    Args:
        options: where the database is.
        name: of the table in the schema of lookups.
    """

    def __init__(self, options: JdbcConnectionOptions, name: str) -> None:
        self._options = options
        self._name = name
        self._place = f"lookup in table {name!r} of {options.place}"
        self._statement = sql.SQL("SELECT * FROM {} WHERE {} = %s").format(
            sql.Identifier(SCHEMA, name), sql.Identifier(KEY)
        )

    def __deepcopy__(self, memo: object) -> PostgresLookup:
        return PostgresLookup(self._options, self._name)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Connect later: the first lookup does, in a thread of its own."""
        name = f"lookups-{runtime_context.get_task_name()}-{runtime_context.get_index_of_this_subtask()}"
        self._threads = ThreadPoolExecutor(AT_A_TIME, name)
        self._idle: SimpleQueue[TimedConnection] = SimpleQueue()

    async def row_of(self, key: Any) -> tuple[Any, ...] | None:
        """Return the row with a key, or None.

        Raises:
            DatabaseUnavailable: the server is away, or does not answer in time.
            RefusedByDatabase: it refuses the user, the table or the key.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._look_up, key)

    def close(self) -> None:
        """Wait for the lookups that run, not longer than their time-out, and end the sessions."""
        self._threads.shutdown(cancel_futures=True)
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()

    def _look_up(self, key: Any) -> tuple[Any, ...] | None:
        """Ask on a connection that has nothing to do; called in one of the threads."""
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = connect(self._options, self._place)
        try:
            with translated(self._place):
                row = connection.execute(self._statement, (key,)).fetchone()
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)
        return row


def make_postgres_lookup(end: PostgresEnd, name: str, rows: Sequence[tuple[Any, ...]]) -> PostgresLookup:
    """Return a lookup in a table of these rows, which is made and filled if it does not exist."""
    until_answered(end.address, lambda connection: make_lookup_table(connection, name, rows))
    return PostgresLookup(job_options(end), name)


def make_lookup_table(
    connection: psycopg.Connection[Any], name: str, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Create a table with rows, unless it is there. Another process may do it at the same time."""
    if not rows:
        raise ValueError(f"lookup in {name!r}: give at least one row, which tells the types of the columns")
    table, first = sql.Identifier(SCHEMA, name), rows[0]
    names = [KEY, *[f"column_{number}" for number in range(2, len(first) + 1)]]
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(_LOOKUP_TYPES[type(value)]))
        for column, value in zip(names, first, strict=True)
    ]
    columns.append(sql.SQL("PRIMARY KEY ({})").format(sql.Identifier(KEY)))
    places = sql.SQL(", ").join([sql.Placeholder()] * len(first))
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(1)")
        cursor.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SCHEMA)))
        cursor.execute(
            sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(table, sql.SQL(", ").join(columns))
        )
        cursor.executemany(
            sql.SQL("INSERT INTO {} VALUES ({}) ON CONFLICT DO NOTHING").format(table, places), rows
        )


SECONDS_BETWEEN_LOOKS: Final = 0.02


class PostgresWatch(ServerWatch):
    """Looks at a database.

    Args:
        address: of the database, directly.
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        self.looks = 0
        """How often it has seen all tables."""
        self._output = PostgresOutput(address)
        self._counts: dict[str, int] = {}
        """By transaction, the most rows that were seen of it."""
        self._keys: set[Row] = set()

    def close(self) -> None:
        """End the session with the server; the next look begins another one."""
        self._output.close()

    def look(self) -> None:
        """Look at all tables once. Raises psycopg.Error where the server does not answer for long."""
        counts = self._output.visible()
        keys = {row[: table.keys] for table in self._output.tables() for row in table.rows}
        for name, count in counts.items():
            if name not in self._counts:
                self.note(event_log.ROWS_SEEN, name)
            self._counts[name] = max(count, self._counts.get(name, 0))
        for name, most in list(self._counts.items()):
            if counts.get(name, 0) < most:
                self.note(event_log.ROWS_GONE, name)
                self._counts[name] = 0
        for key in sorted(self._keys - keys, key=repr):
            self.note(event_log.ROWS_GONE, repr(key))
        self._keys = keys
        self.looks += 1

    def watch(self) -> None:
        try:
            while not self.ends.wait(SECONDS_BETWEEN_LOOKS):
                # The database may be dropped, or its tables made, at any moment.
                with contextlib.suppress(psycopg.Error):
                    self.look()
        finally:
            self.close()
