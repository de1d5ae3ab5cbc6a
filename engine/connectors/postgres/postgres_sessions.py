"""Sessions of exactly-once sinks with PostgreSQL: COPY, PREPARE TRANSACTION, and the end of dead sessions.

Rules:

- Rows go in by COPY, one for each transaction, so that the server takes rows while the task makes others. Any
  other statement ends the COPY first.
- Names of transactions are this engine's own (`two_phase_database.py`), in no need of escaping.
- pg_prepared_xacts lists all databases of a server; a transaction can only be committed from its own one.
- The name of a session is its application_name, by which a later attempt finds those of dead ones. A user may
  end sessions of its own role.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.connectors.jdbc.two_phase_database import (
    DatabaseUnavailable,
    LedgerEntry,
    RefusedByDatabase,
    SessionName,
    TwoPhaseDatabase,
    TwoPhaseSession,
    owner_prefix,
    session_name_of,
    transaction_name_of,
)
from onceproof.engine.connectors.postgres.postgres_table import (
    PostgresTable,
    beside_parameters,
    make_table,
    name_in,
)

if TYPE_CHECKING:
    from onceproof.engine.connectors.postgres.timed_connection import TimedConnection


LEDGER: Final = "onceproof_ledger"
COLUMNS: Final = (
    "transaction text PRIMARY KEY, job text NOT NULL, owner text NOT NULL, subtask integer NOT NULL,"
    " checkpoint bigint NOT NULL, row_count bigint NOT NULL, recorded_at timestamptz NOT NULL DEFAULT now()"
)


class PostgresLedger:
    """The statements on the ledger.

    Args:
        name: the name of the table.
        schema: its schema; "": the first in the user's search path.
    """

    def __init__(self, name: str, schema: str) -> None:
        self.name = name_in(schema, name)

    def create(self, connection: TimedConnection, place: str) -> None:
        """Create the table if it is not there. Raises RefusedByDatabase."""
        make_table(connection, place, "ledger", self.name, COLUMNS, "SELECT, INSERT and DELETE")

    def record(self, connection: TimedConnection, entry: LedgerEntry) -> bool:
        """Write an entry. Return False if it is there already."""
        done = connection.execute(
            f"INSERT INTO {beside_parameters(self.name)} (transaction, job, owner, subtask, checkpoint,"
            " row_count) VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            entry,
        )
        return done.rowcount == 1

    def has(self, connection: TimedConnection, name: str) -> bool:
        """Return whether there is an entry of a transaction or batch."""
        ledger = beside_parameters(self.name)
        found = connection.execute(f"SELECT 1 FROM {ledger} WHERE transaction = %s", (name,))
        return found.fetchone() is not None

    def has_after(self, connection: TimedConnection, owner: str, subtask: int, epoch: int) -> bool:
        """Return whether there is an entry of a subtask for a checkpoint after ``epoch``."""
        found = connection.execute(
            f"SELECT 1 FROM {beside_parameters(self.name)} WHERE owner = %s AND subtask = %s"
            " AND checkpoint > %s LIMIT 1",
            (owner, subtask, epoch),
        )
        return found.fetchone() is not None

    def forget(self, connection: TimedConnection, owner: str, subtask: int, older_than_ms: int) -> None:
        """Delete the entries of a subtask that were written longer ago than this, but the newest one."""
        ledger = beside_parameters(self.name)
        connection.execute(
            f"DELETE FROM {ledger} WHERE owner = %s AND subtask = %s"
            " AND recorded_at < now() - %s * interval '1 millisecond'"
            f" AND checkpoint < (SELECT max(checkpoint) FROM {ledger} WHERE owner = %s AND subtask = %s)",
            (owner, subtask, older_than_ms, owner, subtask),
        )


SECONDS_TO_END: Final = 5
"""How long a session that must end may take."""
_SESSIONS: Final = (
    "SELECT pid, application_name FROM pg_stat_activity"
    " WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()"
)
_PREPARED: Final = (
    "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND owner = current_user"
)


class PostgresSession(TwoPhaseSession):
    """One connection of a sink to its database."""

    def __init__(self, connection: TimedConnection, table: PostgresTable, ledger: PostgresLedger) -> None:
        self.connection = connection
        self._table = table
        self._ledger = ledger
        self._copy = f"COPY {table.name} ({table.list}) FROM STDIN"
        self._name = ""
        """Of the open transaction."""
        self._copying: ExitStack | None = None
        self._write_row: Callable[[Sequence[Any]], None] = _nothing
        """Adds a row to the running COPY."""

    def begin(self, name: str) -> None:
        self._name = _checked(name)
        self._run("BEGIN")

    def write(self, rows: Sequence[Any]) -> None:
        """Send rows, in one COPY for the transaction. Raises RefusedByDatabase, DatabaseUnavailable."""
        self._require_open()
        self.copy(rows)

    def copy(self, rows: Sequence[Any]) -> None:
        """Send rows by COPY, whether or not a transaction of this module is open."""
        from onceproof.engine.connectors.postgres.timed_connection import translated

        with translated(self._table.place):
            if self._copying is None:
                self._copying = ExitStack()
                self._write_row = self._copying.enter_context(
                    self.connection.cursor().copy(self._copy)
                ).write_row
            write_row = self._write_row
            for row in rows:
                write_row(row)

    def finish_rows(self) -> None:
        """End the COPY: wait until the server has taken all rows, or raise what it says of one."""
        from onceproof.engine.connectors.postgres.timed_connection import translated

        copying, self._copying = self._copying, None
        if copying is not None:
            with translated(self._table.place):
                copying.close()

    def record(self, entry: LedgerEntry) -> None:
        from onceproof.engine.connectors.postgres.timed_connection import translated

        self.finish_rows()
        with translated(self._table.place):
            self._ledger.record(self.connection, entry)

    def prepare(self) -> None:
        """Prepare. PostgreSQL answers a PREPARE in a failed transaction with a ROLLBACK, and no error."""
        from onceproof.engine.connectors.postgres.timed_connection import translated

        self._require_open()
        self.finish_rows()
        name, self._name = self._name, ""
        with translated(self._table.place):
            answer = self.connection.execute(f"PREPARE TRANSACTION '{name}'").statusmessage
        if answer != "PREPARE TRANSACTION":
            raise DatabaseUnavailable(f"{self._table.place}: {name} was not prepared, but {answer}")

    def commit_prepared(self, name: str) -> bool:
        return self._finish("COMMIT PREPARED", name)

    def roll_back_prepared(self, name: str) -> bool:
        return self._finish("ROLLBACK PREPARED", name)

    def prepared(self, owner: str) -> list[str]:
        found = self._run(_PREPARED)
        return [gid for (gid,) in found if gid.startswith(owner_prefix(owner))]

    def is_recorded(self, name: str) -> bool:
        from onceproof.engine.connectors.postgres.timed_connection import translated

        self.finish_rows()
        with translated(self._table.place):
            return self._ledger.has(self.connection, name)

    def has_entry_after(self, owner: str, subtask: int, epoch: int) -> bool:
        from onceproof.engine.connectors.postgres.timed_connection import translated

        self.finish_rows()
        with translated(self._table.place):
            return self._ledger.has_after(self.connection, owner, subtask, epoch)

    def forget(self, owner: str, subtask: int, older_than_ms: int) -> None:
        from onceproof.engine.connectors.postgres.timed_connection import translated

        self.finish_rows()
        with translated(self._table.place):
            self._ledger.forget(self.connection, owner, subtask, older_than_ms)

    def end_sessions(self, may_end: Callable[[SessionName], bool]) -> None:
        """End sessions, and return when they are gone. Raises DatabaseUnavailable if one stays."""
        for pid, text in self._run(_SESSIONS):
            name = session_name_of(text)
            if name is None or not may_end(name):
                continue
            [(has_ended,)] = self._run(f"SELECT pg_terminate_backend({pid:d}, {SECONDS_TO_END * 1000})")
            still_there = self._run(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid:d}")
            if not has_ended and still_there:
                raise DatabaseUnavailable(
                    f"{self._table.place}: session {pid} of the dead attempt {name.attempt} does not end"
                    f" within {SECONDS_TO_END} s, and may still write: end it with pg_terminate_backend"
                )

    def close(self) -> None:
        self.connection.close()

    def _require_open(self) -> None:
        if not self._name:
            raise RefusedByDatabase(f"{self._table.place}: no transaction is open in this session")

    def _finish(self, statement: str, name: str) -> bool:
        """Commit a prepared transaction or roll it back; return False if there is none."""
        from psycopg import errors

        from onceproof.engine.connectors.postgres.timed_connection import translated

        self.finish_rows()
        with translated(self._table.place):
            try:
                self.connection.execute(f"{statement} '{_checked(name)}'")
            except errors.UndefinedObject:
                return False
        return True

    def _run(self, statement: str) -> list[tuple[Any, ...]]:
        from onceproof.engine.connectors.postgres.timed_connection import translated

        self.finish_rows()
        with translated(self._table.place):
            answer = self.connection.execute(statement)
            return answer.fetchall() if answer.description is not None else []


class PostgresDatabase(TwoPhaseDatabase):
    """A table and a ledger in a PostgreSQL database."""

    def __init__(self, table: PostgresTable, ledger: PostgresLedger) -> None:
        self._table = table
        self._ledger = ledger

    @property
    def place(self) -> str:
        return self._table.place

    def connect(self, session: SessionName) -> PostgresSession:
        from onceproof.engine.connectors.postgres.timed_connection import connect

        connection = connect(self._table.options, self._table.place, str(session))
        return PostgresSession(connection, self._table, self._ledger)

    def check(self, session: TwoPhaseSession) -> None:
        from onceproof.engine.connectors.postgres.timed_connection import translated

        assert isinstance(session, PostgresSession), "this database gives sessions of its own"
        connection = session.connection
        with translated(self.place):
            self._table.check(connection, "INSERT")
            [(most,)] = connection.execute("SHOW max_prepared_transactions").fetchall()
            if most == "0":
                raise RefusedByDatabase(
                    f"{self.place}: the server keeps no prepared transactions: set max_prepared_transactions"
                    " in postgresql.conf to at least three for each subtask of a sink, and restart the"
                    " server; or use PostgresWriteAheadSink, which needs none"
                )
            self._ledger.create(connection, self.place)

    def check_row(self, row: Any) -> None:
        self._table.check_row(row)

    def check_rows(self, rows: Sequence[Any]) -> None:
        self._table.check_rows(rows)


def _nothing(row: Sequence[Any]) -> None:
    """Stand for the COPY that has not begun."""


def _checked(name: str) -> str:
    """Return the name of a transaction for a statement, which cannot take it as a parameter."""
    if transaction_name_of(name) is None:
        raise RefusedByDatabase(f"{name!r} is not a name of a transaction that this engine gives")
    return name
