"""An idempotent sink: a table in an SQLite database with the last row of each key.

The rules this module lives by:

- A row is a tuple; its first columns are the key. It replaces the row of the same key.
- Each flush is one transaction, so a reader sees none or all of it.
- All subtasks write to one file; a subtask that finds it locked waits. The file must be on a local disk of
  the one machine where they run, because SQLite's locks do not work over networks.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from onceproof.engine.connectors.idempotent import BUFFERED_KEYS, UpsertSinkFunction
from onceproof.engine.connectors.sink import Sink
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.functions import RuntimeContext

LOCK_TIMEOUT_SECONDS: Final = 60.0
_SECONDS_BETWEEN_TRIES: Final = 0.01
_MENDS: Final = {
    sqlite3.SQLITE_CANTOPEN: "give the path of a file in a folder that can be written",
    sqlite3.SQLITE_READONLY: "give the path of a file that can be written",
    sqlite3.SQLITE_NOTADB: "give the path of a database, or of no file yet",
    sqlite3.SQLITE_BUSY: "end the process that holds it",
}
_PRIMARY_CODE: Final = 0xFF
"""The bits of an error code that hold SQLite's primary result code."""


class UnusableDatabase(OSError):
    """The database file cannot be used. The message is one line."""


class UnwritableRow(UnrecoverableError, ValueError):
    """The table cannot hold a row. The message is one line."""


class SqliteUpsertFunction(UpsertSinkFunction):
    """Writes the rows of one subtask."""

    def __init__(self, path: str, table: str, columns: Sequence[str], keys: int, buffered_keys: int) -> None:
        super().__init__(buffered_keys)
        self._path = path
        self._columns = len(columns)
        self._keys = keys
        quoted = [_quoted(column) for column in columns]
        self._create = (
            f"CREATE TABLE IF NOT EXISTS {_quoted(table)}"
            f" ({', '.join(quoted)}, PRIMARY KEY ({', '.join(quoted[:keys])})) WITHOUT ROWID"
        )
        places = ", ".join("?" * len(columns))
        self._upsert = f"INSERT OR REPLACE INTO {_quoted(table)} ({', '.join(quoted)}) VALUES ({places})"
        self._connection: sqlite3.Connection | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Connect, and create the table if it does not exist. Raises UnusableDatabase."""
        try:
            connection = self._connection = sqlite3.connect(
                self._path, timeout=LOCK_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
            use_write_ahead_log(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(self._create)
        except sqlite3.Error as error:
            mend = _MENDS.get(error.sqlite_errorcode & _PRIMARY_CODE)
            raise UnusableDatabase(f"{self._path}: {error}{f': {mend}' if mend else ''}") from error

    def key_of(self, value: Any) -> Hashable:
        """Return the first columns of a row. Raises UnwritableRow."""
        if not isinstance(value, tuple) or len(value) != self._columns:
            raise UnwritableRow(f"{value!r} is no row of the table: give tuples of {self._columns} columns")
        key = value[: self._keys]
        if None in key:
            raise UnwritableRow(f"{value!r} has no key: none of its first {self._keys} columns may be None")
        return key

    def upsert(self, rows: Mapping[Hashable, Any]) -> None:
        """Write the rows in one transaction. Raises UnwritableRow."""
        connection = self._connection
        assert connection is not None, "the sink is used before it is opened"
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(self._upsert, rows.values())
        except (sqlite3.InterfaceError, sqlite3.ProgrammingError) as error:
            connection.execute("ROLLBACK")
            raise UnwritableRow(f"a row has a value that SQLite does not know: {error}") from error
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class SqliteUpsertSink(Sink):
    """Keeps the last row of each key in a table of an SQLite database (ours).

    Args:
        path: the database file; made if it does not exist.
        table: the name of the table; made if it does not exist.
        columns: the names of the columns, in the order of the rows.
        keys: how many of the first columns are the key.
        buffered_keys: the number of keys at which a subtask writes its buffer.

    Raises:
        ValueError: ``keys`` is not from 1 to the number of columns, or a column name occurs twice.
    """

    def __init__(
        self,
        path: str,
        table: str,
        columns: Sequence[str],
        keys: int = 1,
        buffered_keys: int = BUFFERED_KEYS,
    ) -> None:
        if not 1 <= keys <= len(columns):
            raise ValueError(f"{keys} key columns of {len(columns)}: from 1 to all are possible")
        if len(set(columns)) < len(columns):
            raise ValueError(f"columns {', '.join(columns)}: a name stands there twice")
        self._path = path
        self._table = table
        self._columns = tuple(columns)
        self._keys = keys
        self._buffered_keys = buffered_keys

    def create_function(self) -> SqliteUpsertFunction:
        """Return a function for one subtask."""
        return SqliteUpsertFunction(self._path, self._table, self._columns, self._keys, self._buffered_keys)


def use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the database to write-ahead logging, so that readers and a writer do not block each other.

    If two connections switch a new file at once, SQLite refuses one without waiting; so this retries.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _quoted(name: str) -> str:
    """Return a name quoted for SQL."""
    if "\0" in name or not name:
        raise ValueError(f"{name!r} cannot be the name of a table or a column")
    return '"' + name.replace('"', '""') + '"'
