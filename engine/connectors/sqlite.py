"""An idempotent sink: a table in an SQLite database with the last row of each key.

The rules this module lives by:

- A row is a tuple; its first columns are the key. It replaces the row of the same key.
- SQLite would store NaN as NULL, and has no integers beyond 64 bits and no lone surrogates. A row with such a
  value is refused when it arrives, before any row behind it is written.
- A table that exists must have the sink's columns, and a primary key or unique index over its key: without
  one, each write would add a row.
- Each flush is one transaction, so a reader sees none or all of it. It is on the disk before the checkpoint
  that covers it, whatever the library's default. So is the switch to write-ahead logging, which rewrites the
  header of a database that exists.
- Each flush passes the fence (`upsert_fence.py`): a process that has lost the job writes nothing any more.
- SQLite shows what a killed process has left in the log without having synced it. The sink syncs it before it
  goes on, as all that a job finds.
- All subtasks write to one file; a subtask that finds it locked waits. The file must be on a local disk of
  the one machine where they run, because SQLite's locks do not work over networks.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from onceproof.engine.connectors.idempotent import BUFFERED_KEYS, UpsertSinkFunction
from onceproof.engine.connectors.sink import Sink
from onceproof.engine.connectors.upsert_fence import COLUMNS, FENCE, UpsertFence
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.functions import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
)

LOCK_TIMEOUT_SECONDS: Final = 60.0
LONGEST_SHOWN: Final = 200
"""The characters of a value that a message shows."""
_ROW_ERRORS: Final = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
_SMALLEST_INTEGER: Final = -(1 << 63)
_LARGEST_INTEGER: Final = (1 << 63) - 1
_SECONDS_BETWEEN_TRIES: Final = 0.01
_MENDS: Final = {
    sqlite3.SQLITE_CANTOPEN: "give the path of a file in a folder that can be written",
    sqlite3.SQLITE_READONLY: "give the path of a file that can be written",
    sqlite3.SQLITE_NOTADB: "give the path of a database, or of no file yet",
    sqlite3.SQLITE_BUSY: "end the process that holds it",
}
IN_MEMORY: Final = ":memory:"
_RESERVED: Final = "sqlite_"
_PRIMARY_CODE: Final = 0xFF
"""The bits of an error code that hold SQLite's primary result code."""


class UnusableDatabase(OSError):
    """The database file cannot be used. The message is one line."""


class WrongTable(UnusableDatabase, UnrecoverableError):
    """The table exists, and is not one that the sink can write. The message is one line."""


class UnwritableRow(UnrecoverableError, ValueError):
    """The table cannot hold a row. The message is one line."""


def _place_of(path: str) -> str:
    """Return the absolute path of a database file; one in memory has no place."""
    return path if path == IN_MEMORY else os.path.abspath(path)


class SqliteUpsertFunction(UpsertSinkFunction):
    """Writes the rows of one subtask."""

    def __init__(self, path: str, table: str, columns: Sequence[str], keys: int, buffered_keys: int) -> None:
        super().__init__(buffered_keys)
        self._path = _place_of(path)
        self._table = table
        self._columns = tuple(columns)
        self._keys = keys
        quoted = [_quoted(column) for column in columns]
        self._create = (
            f"CREATE TABLE IF NOT EXISTS {_quoted(table)}"
            f" ({', '.join(quoted)}, PRIMARY KEY ({', '.join(quoted[:keys])})) WITHOUT ROWID"
        )
        places = ", ".join("?" * len(columns))
        self._upsert = f"INSERT OR REPLACE INTO {_quoted(table)} ({', '.join(quoted)}) VALUES ({places})"
        self._fence = UpsertFence(FENCE, self._sink, "?")
        self._connection: sqlite3.Connection | None = None

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Restore what the fence has counted."""
        self._fence.initialize_state(context)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Send the rows, and store what the fence has counted."""
        super().snapshot_state(context)
        self._fence.snapshot_state()

    def open(self, runtime_context: RuntimeContext) -> None:
        """Connect, create the table if it does not exist, and take it over. Raises UnusableDatabase."""
        try:
            connection = self._connection = sqlite3.connect(
                self._path, timeout=LOCK_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA synchronous = FULL")
            use_write_ahead_log(connection)
            # It syncs the log first, and waits for no one.
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            connection.execute(self._create)
            self._check_table(connection)
            with _transaction(connection):
                connection.execute(f"CREATE TABLE IF NOT EXISTS {FENCE} ({COLUMNS})")
                self._fence.take_over(connection.execute, runtime_context)
        except sqlite3.Error as error:
            mend = _MENDS.get(error.sqlite_errorcode & _PRIMARY_CODE)
            raise UnusableDatabase(f"{self._path}: {error}{f': {mend}' if mend else ''}") from error

    def key_of(self, value: Any) -> Hashable:
        """Return the first columns of a row. Raises UnwritableRow."""
        count = len(self._columns)
        if not isinstance(value, tuple) or len(value) != count:
            raise UnwritableRow(f"{self._sink}: {_shown(value)} is not a row: give tuples of {count} columns")
        for column, each in zip(self._columns, value, strict=True):
            reason = unwritable(each)
            if reason is not None:
                raise UnwritableRow(
                    f"{self._sink}: column {column!r} cannot hold {_shown(each)}, {reason}, of row"
                    f" {_shown(value)}"
                )
        key = value[: self._keys]
        for column, each in zip(self._columns, key, strict=False):
            if each is None:
                raise UnwritableRow(
                    f"{self._sink}: column {column!r} of the key is None in row {_shown(value)}:"
                    " give it a value"
                )
        return key

    def upsert(self, rows: Mapping[Hashable, Any]) -> None:
        """Write the rows in one transaction. Raises UnwritableRow, or that another process has the job."""
        connection = self._connection
        assert connection is not None, "the sink is used before it is opened"
        with _transaction(connection):
            self._fence.require(self._fence.enter(connection.execute), connection.execute)
            try:
                connection.executemany(self._upsert, rows.values())
            except _ROW_ERRORS as error:
                raise UnwritableRow(
                    f"{self._sink}: SQLite refuses a row: {error}: change the value"
                ) from error
        self._fence.written()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @property
    def _sink(self) -> str:
        return f"sink into table {self._table!r} of {self._path}"

    def _check_table(self, connection: sqlite3.Connection) -> None:
        """Raise WrongTable if the table is not one that the sink can write."""
        described = connection.execute(
            "SELECT lower(name), pk FROM pragma_table_info(?)", (self._table,)
        ).fetchall()
        known = [name for name, _ in described]
        mend = "give another table, or the columns and the key of this one"
        for column in self._columns:
            if _lower(column) not in known:
                raise WrongTable(
                    f"{self._sink}: the table has no column {column!r}, but {', '.join(known)}: {mend}"
                )
        unique = [{name for name, place in described if place}]
        for (index,) in connection.execute(
            'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial', (self._table,)
        ).fetchall():
            found = connection.execute("SELECT lower(name) FROM pragma_index_info(?)", (index,))
            unique.append({name for (name,) in found})
        if set(map(_lower, self._columns[: self._keys])) not in unique:
            raise WrongTable(
                f"{self._sink}: the table has no primary key or unique index over"
                f" {', '.join(self._columns[: self._keys])}: {mend}"
            )


class SqliteUpsertSink(Sink):
    """Keeps the last row of each key in a table of an SQLite database (ours).

    Args:
        path: the database file; made if it does not exist.
        table: the name of the table; made if it does not exist.
        columns: the names of the columns, in the order of the rows.
        keys: how many of the first columns are the key.
        buffered_keys: the number of keys at which a subtask writes its buffer.

    Raises:
        ValueError: ``keys`` is not from 1 to the number of columns, a column name occurs twice, which SQLite
            compares without the case of ASCII letters, or a name is one that SQLite cannot have.
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
        if "\0" in path or not path:
            raise ValueError(f"{path!r} cannot be the path of a database")
        for name in (table, *columns):
            _quoted(name)
        if _lower(table).startswith(_RESERVED):
            raise ValueError(
                f"table {table!r}: SQLite keeps the names that begin with {_RESERVED}: give another"
            )
        if _lower(table) == FENCE:
            raise ValueError(f"table {table!r} is the one that fences upsert sinks: give another")
        if len(set(map(_lower, columns))) < len(columns):
            raise ValueError(f"columns {', '.join(columns)}: a name stands there twice")
        self._path = _place_of(path)
        self._table = table
        self._columns = tuple(columns)
        self._keys = keys
        self._buffered_keys = buffered_keys

    def create_function(self) -> SqliteUpsertFunction:
        """Return a function for one subtask."""
        return SqliteUpsertFunction(self._path, self._table, self._columns, self._keys, self._buffered_keys)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the body has written, or roll it back; no other connection writes meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _lower(name: str) -> str:
    """Return a name as SQLite compares it: only ASCII letters have no case."""
    return "".join([letter.lower() if letter.isascii() else letter for letter in name])


def unwritable(value: Any) -> str | None:
    """Return why SQLite cannot hold a value, with the mend; None if it can."""
    match value:
        case None | bool() | bytes() | bytearray() | memoryview():
            return None
        case int():
            if _SMALLEST_INTEGER <= value <= _LARGEST_INTEGER:
                return None
            return "an integer beyond 64 bits (convert it to text)"
        case float():
            return "which SQLite would store as NULL (convert it to None)" if value != value else None
        case str():
            return None if is_utf8(value) else "a text with a lone surrogate (encode it to bytes)"
        case _:
            return f"a {type(value).__name__} (convert it to a number, text or bytes)"


def is_utf8(text: str) -> bool:
    """Return whether a text has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    """Return a value for a message of one line."""
    try:
        text = repr(value)
    except ValueError:
        # Python refuses to print integers of thousands of digits.
        text = f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


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
    """Return a name quoted for SQL. Raises ValueError for a name that SQLite cannot have."""
    if "\0" in name or not name or not is_utf8(name):
        raise ValueError(f"{name!r} cannot be the name of a table or a column: give another")
    return '"' + name.replace('"', '""') + '"'
