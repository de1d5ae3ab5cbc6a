"""Lookups in a real table of PostgreSQL, for the asynchronous operators of a job under trial.

The rules this module lives by:

- The process that builds the job makes the table and fills it, in one transaction. Any number of processes
  may do it again: the rows that are there stay.
- The table is in a schema of its own: the readers of what sinks have written look at the schema "public".
- Requests run in threads beside the task and its event loop, each on one connection, through the proxy that
  faults cut. They have the time-outs of the engine's connections.
- After an error a connection is given up, and the next lookup opens another one. Whether to look up again is
  the job's choice.
- Threads and connections of a task that was killed end as it is freed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

import psycopg
from psycopg import sql

from onceproof.engine.connectors.jdbc.jdbc_options import JdbcConnectionOptions
from onceproof.engine.connectors.postgres.timed_connection import TimedConnection, connect, translated
from onceproof.engine.functions import Function, RuntimeContext
from onceproof.harness.systems.process.postgres_io import PostgresEnd, job_options, until_answered

SCHEMA: Final = "lookups"
KEY: Final = "key"
AT_A_TIME: Final = 2
"""Lookups of a subtask that the server has at the same time; others wait."""
_TYPES: Final = {str: "text", int: "bigint", float: "double precision", bool: "boolean"}


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
        sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(_TYPES[type(value)]))
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
