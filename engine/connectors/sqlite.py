"""A table in an SQLite database that always has the last value of each key.

An idempotent sink for results that many want to read and nobody wants twice. The rules this module lives by:

- A row is a tuple; its first columns are the key. A row of the same key is replaced.
- What is written together is written in one transaction, so a reader sees none or all of it.
- All subtasks write to one file, one after another: whoever finds it locked waits. The file must be on a disk
  of the machine they all run on, for SQLite's locks do not work over networks.
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
    sqlite3.SQLITE_BUSY: "end whoever holds it",
}
_PRIMARY_CODE: Final = 0xFF
"""The bits of an error's code that say what it is, without the details."""


class UnusableDatabase(OSError):
    """The table cannot be kept in that file. The message is one line."""


class UnwritableRow(UnrecoverableError, ValueError):
    """A row that the table cannot hold. The message is one line."""


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
        """Connect, and make the table if it is not there. Raises UnusableDatabase."""
        try:
            connection = self._connection = sqlite3.connect(
                self._path, timeout=LOCK_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
            log_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(self._create)
        except sqlite3.Error as error:
            mend = _MENDS.get(error.sqlite_errorcode & _PRIMARY_CODE)
            raise UnusableDatabase(f"{self._path}: {error}{f': {mend}' if mend else ''}") from error

    def key_of(self, value: Any) -> Hashable:
        """The first columns. Raises UnwritableRow."""
        if not isinstance(value, tuple) or len(value) != self._columns:
            raise UnwritableRow(f"{value!r} is no row of the table: give tuples of {self._columns} columns")
        key = value[: self._keys]
        if None in key:
            raise UnwritableRow(f"{value!r} has no key: none of its first {self._keys} columns may be None")
        return key

    def upsert(self, rows: Mapping[Hashable, Any]) -> None:
        """Write in one transaction."""
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
        """Disconnect."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class SqliteUpsertSink(Sink):
    """Keeps the last row of each key in a table; the first ``keys`` of ``columns`` are the key."""

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
        """A function for one subtask."""
        return SqliteUpsertFunction(self._path, self._table, self._columns, self._keys, self._buffered_keys)


def log_ahead(connection: sqlite3.Connection) -> None:
    """Let who reads and who writes work side by side.

    Of two that switch a new file to this at once, SQLite refuses one without any waiting.
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
    """A name as SQL takes any name."""
    if "\0" in name or not name:
        raise ValueError(f"{name!r} cannot be the name of a table or a column")
    return '"' + name.replace('"', '""') + '"'
