"""The outside that sinks without files write to in real processes: a database that knows transactions.

The rules this module lives by:

- It is one SQLite file, which all processes of a run use beside each other; a process that dies in the middle
  of a write has written nothing.
- What is here is durable against the death of any process, not against that of the machine: nobody here kills
  machines, and waiting for the disk would be most of the time of a run.
- Nobody keeps a connection: a worker may be forked from one that has it, or be stopped for a while.
- What is visible has a place, so that whoever reads it later knows in which order it became so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec

from onceproof.engine.connectors.sqlite import use_write_ahead_log
from onceproof.harness.model.history import Row, as_tuple

TRANSACTIONS: Final = "onceproof_transactions"
BATCH: Final = "batch/"
"""What the names of batches begin with, which are taken whole and at once; others are prepared first."""
_SECONDS_TO_WAIT: Final = 60.0

_CREATE: Final = f"""
CREATE TABLE IF NOT EXISTS {TRANSACTIONS}
(name TEXT PRIMARY KEY, place INTEGER, is_remembered INTEGER NOT NULL DEFAULT 0, rows BLOB NOT NULL)
"""
_NEXT_PLACE: Final = f"(SELECT coalesce(max(place), 0) + 1 FROM {TRANSACTIONS})"


class UnknownTransaction(Exception):
    """The database refuses a call, for it has no such transaction; the message is one line."""


class Table(NamedTuple):
    """A table that a sink by key has written."""

    keys: int
    """How many of the first columns are the key."""
    rows: list[Row]


def database_of(output: Path) -> Path:
    """Where the database stands that goes with a folder of part files."""
    return output.with_name(f"{output.name}.db")


def transaction_name(subtask: int, epoch: int, attempt: str, part: int = 0) -> str:
    """What a transaction is called that a subtask has begun."""
    return f"{subtask}/{epoch}/{attempt}/{part}"


def batch_name(subtask: int, checkpoint_id: int, attempt: str) -> str:
    """What a batch of a write-ahead sink is called."""
    return f"{BATCH}{subtask}/{checkpoint_id}/{attempt}"


def writer_of(name: str) -> tuple[int, int, str]:
    """The subtask, the epoch and the attempt in a name."""
    subtask, epoch, attempt = name.removeprefix(BATCH).split("/")[:3]
    return int(subtask), int(epoch), attempt


class Database:
    """The transactions in a file, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __deepcopy__(self, memo: object) -> Self:
        return self

    # What sinks do.

    def prepare(self, name: str, rows: Sequence[Any]) -> None:
        """Write rows that can be committed from now on, whoever dies."""
        with self._writing() as connection:
            encoded = msgspec.json.encode(rows)
            connection.execute(f"INSERT INTO {TRANSACTIONS} (name, rows) VALUES (?, ?)", (name, encoded))

    def commit(self, name: str) -> None:
        """Make the rows visible; again changes nothing. Raises UnknownTransaction."""
        with self._writing() as connection:
            known = connection.execute(f"SELECT place FROM {TRANSACTIONS} WHERE name = ?", (name,)).fetchone()
            if known is None:
                raise UnknownTransaction(f"transaction {name} was never prepared, or was aborted")
            if known[0] is None:
                connection.execute(f"UPDATE {TRANSACTIONS} SET place = {_NEXT_PLACE} WHERE name = ?", (name,))

    def is_visible(self, name: str) -> bool:
        """Whether the rows can be read."""
        found = self._read(f"SELECT 1 FROM {TRANSACTIONS} WHERE name = ? AND place IS NOT NULL", name)
        return bool(found)

    def abort(self, name: str) -> None:
        """Throw away what is prepared; what is visible stays."""
        with self._writing() as connection:
            connection.execute(f"DELETE FROM {TRANSACTIONS} WHERE name = ? AND place IS NULL", (name,))

    def prepared(self) -> list[str]:
        """The names of what is neither visible nor thrown away."""
        found = self._read(f"SELECT name FROM {TRANSACTIONS} WHERE place IS NULL ORDER BY name")
        return [name for (name,) in found]

    def take(self, name: str, rows: Sequence[Any]) -> bool:
        """Make a batch visible, unless one of its subtask and its checkpoint is; whether it was not."""
        subtask, checkpoint_id, _ = writer_of(name)
        with self._writing() as connection:
            found = connection.execute(
                f"SELECT 1 FROM {TRANSACTIONS} WHERE name GLOB ?", (f"{BATCH}{subtask}/{checkpoint_id}/*",)
            ).fetchone()
            if found is not None:
                return False
            connection.execute(
                f"INSERT INTO {TRANSACTIONS} (name, place, rows) VALUES (?, {_NEXT_PLACE}, ?)",
                (name, msgspec.json.encode(rows)),
            )
        return True

    def remember_batch(self, subtask: int, checkpoint_id: int) -> None:
        """Remember for ever that a batch was taken. Raises UnknownTransaction."""
        with self._writing() as connection:
            found = connection.execute(
                f"UPDATE {TRANSACTIONS} SET is_remembered = 1 WHERE name GLOB ?",
                (f"{BATCH}{subtask}/{checkpoint_id}/*",),
            )
            if not found.rowcount:
                raise UnknownTransaction(f"batch {subtask}/{checkpoint_id} is to be remembered, never taken")

    def remembers_batch(self, subtask: int, checkpoint_id: int) -> bool:
        """Whether that was asked for."""
        found = self._read(
            f"SELECT 1 FROM {TRANSACTIONS} WHERE is_remembered AND name GLOB ?",
            f"{BATCH}{subtask}/{checkpoint_id}/*",
        )
        return bool(found)

    # What readers find.

    def visible(self) -> list[str]:
        """What can be read, in the order in which it became visible."""
        found = self._read(f"SELECT name FROM {TRANSACTIONS} WHERE place IS NOT NULL ORDER BY place")
        return [name for (name,) in found]

    def rows(self, name: str) -> list[Row] | None:
        """The rows of a transaction; None where they cannot be read."""
        found = self._read(f"SELECT rows FROM {TRANSACTIONS} WHERE name = ? AND place IS NOT NULL", name)
        return rows_of(msgspec.json.decode(found[0][0])) if found else None

    def tables(self) -> list[Table]:
        """What sinks by key have written."""
        tables = []
        for (name,) in self._read("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"):
            if name != TRANSACTIONS:
                quoted = '"' + name.replace('"', '""') + '"'
                keys = len(self._read("SELECT 1 FROM pragma_table_info(?) WHERE pk > 0", name))
                tables.append(Table(keys, self._read(f"SELECT * FROM {quoted}")))
        return tables

    def _read(self, question: str, *values: Any) -> list[Any]:
        """All answers, none where nobody has written yet."""
        if not self.path.exists():
            return []
        with closing(self._connected()) as connection:
            return connection.execute(question, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction of the file: all of what is done within, or nothing."""
        with closing(self._connected()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            # Where something was raised the connection ends without it, and nothing has been written.
            connection.execute("COMMIT")

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_SECONDS_TO_WAIT, isolation_level=None)
        use_write_ahead_log(connection)
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(_CREATE)
        return connection


def rows_of(values: Iterable[Any]) -> list[Row]:
    """Rows as tuples again, which JSON makes lists of."""
    return [as_tuple(value) for value in values]
