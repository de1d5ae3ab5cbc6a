"""Notices that a table is not the one any more whose rows a reader has read.

The rules this module lives by:

- A position names the server, the database, the table, its storage and that of its key's sequence, beside the
  last key and a digest of its row. TRUNCATE, VACUUM FULL and CLUSTER give a table another storage, and
  RESTART gives one to a sequence; a restored dump has all anew. What differs need not be wrong: the last row
  that was read is the proof, if it is there with its content.
- Rows of a range must not change while they are read. So the last row read and the last one of the range must
  be there, and have their content where anything has changed.
- Rows of a growing key may change and go. There the sequence decides: if it stands below the last key, keys
  come again, and the reader would skip their rows. Where the table, its server or its sequence is another
  one, or the storage is and there is no sequence, the last row is the proof.
- After a failover or a restore to a point in time, the server has another timeline: then the rows that the
  reader has read must not end before its last key, unless none of them is left.
- All of that is compared as a reader resumes, and behind a page that is the last one for now; behind each
  page, whether the storage is still the same. Only then its rows are handed on.
- A sequence may stand up to 32 above the last key of a backup, so the loss of fewer rows is seen only by a
  row that is missing, or not at all where rows are deleted by their owner.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from onceproof.engine.connectors.postgres.postgres_table import (
    PostgresTable,
    beside_parameters,
    quoted_name,
)
from onceproof.engine.errors import UnrecoverableError

if TYPE_CHECKING:
    from onceproof.engine.connectors.postgres.timed_connection import TimedConnection

NO_SEQUENCE: Final = -1
_UNKNOWN: Final = 0
_DIGEST_BYTES: Final = 8
_TABLE: Final = """
SELECT {server}, (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
    t.oid::bigint, {storage},
    CASE WHEN q.name IS NULL OR NOT has_sequence_privilege(q.name, 'USAGE, SELECT') THEN -1
        ELSE coalesce(pg_sequence_last_value(q.name), 0) END
"""
_STORAGE: Final = (
    "coalesce(pg_relation_filenode(t.oid)::bigint, 0), coalesce(pg_relation_filenode(q.name)::bigint, 0)"
)
_FROM: Final = """
FROM pg_class t, LATERAL (SELECT pg_get_serial_sequence(%s, %s)::regclass AS name) q
WHERE t.oid = to_regclass(%s)
"""
_SERVER: Final = (
    "(SELECT system_identifier FROM pg_control_system()), (SELECT timeline_id FROM pg_control_checkpoint())"
)

_logger = logging.getLogger(__name__)


class TableReplaced(UnrecoverableError):
    """A table has lost or replaced rows that a reader has read, or was to read. The message is one line."""


class TableMark(NamedTuple):
    """What tells a table from what may come under its name; 0: the server does not say."""

    server: int
    timeline: int
    database: int
    table: int
    storage: int
    sequence_storage: int

    def names_table_of(self, other: TableMark) -> bool:
        """Return whether both are of one table with one sequence, as far as the server says."""
        pairs = zip(self, other, strict=True)
        same = [mine == theirs or _UNKNOWN in (mine, theirs) for mine, theirs in pairs]
        return same[0] and same[2] and same[3] and same[5]


class KeyedRow(NamedTuple):
    """The key of a row, and a digest of what was read of it; "": nothing was read."""

    key: int
    digest: str


class ReadUpTo(NamedTuple):
    """What a position says, flat, as a checkpoint holds it."""

    key: int
    digest: str
    server: int
    timeline: int
    database: int
    table: int
    storage: int
    sequence_storage: int
    is_generated: bool
    """Whether the sequence has given the key."""
    last_key: int
    """Of the range; with the digest of its row."""
    last_digest: str

    @property
    def row(self) -> KeyedRow:
        """The last row that was read."""
        return KeyedRow(self.key, self.digest)

    @property
    def mark(self) -> TableMark:
        """The table that had it."""
        return TableMark(*self[2:8])


class TableGuard(ABC):
    """Checks the table of one reader; a thread reads and checks, and a task asks for positions.

    Args:
        table: the table.
        key: the name of the key.
        select: the query of the columns with the key behind them.
        restored: the position to resume from, if there is one that says what was read.
    """

    def __init__(self, table: PostgresTable, key: str, select: str, restored: ReadUpTo | None) -> None:
        self._table = table
        self._key = key
        column = beside_parameters(quoted_name(key))
        self._row = f"{select} WHERE {column} = %s"
        self._any = f"SELECT 1 FROM {beside_parameters(table.name)} WHERE {column}"
        self._names = (table.name, key, table.name)
        self._restored = restored
        self._mark = restored.mark if restored is not None else TableMark(0, 0, 0, 0, 0, 0)
        self._sequence = NO_SEQUENCE
        self._end = KeyedRow(0, "")
        """The last row of a range."""

    def position(self, row: KeyedRow) -> ReadUpTo:
        """Return the position behind a row."""
        if self._restored is not None:
            return self._restored
        is_generated = self._sequence >= row.key and self._sequence != NO_SEQUENCE
        return ReadUpTo(*row, *self._mark, is_generated, *self._end)

    def begin(self, connection: TimedConnection) -> None:
        """Check what the position to resume from says. Raises TableReplaced."""
        if self._restored is None:
            self._mark, self._sequence = self._marked(connection)
        else:
            self._compare_now(connection, self._restored)
            self._restored = None

    def check(self, connection: TimedConnection, row: KeyedRow, *, is_last: bool) -> None:
        """Check the table behind a page. Raises TableReplaced.

        Args:
            connection: a connection to the database.
            row: the last one before the page.
            is_last: whether nothing is behind the page now; otherwise a changed storage is looked for only.
        """
        if not is_last:
            storage = connection.execute(f"SELECT {_STORAGE}{_FROM}", self._names).fetchone()
            if storage == self._mark[-2:]:
                return
        self._compare_now(connection, self.position(row))

    def _compare_now(self, connection: TimedConnection, read: ReadUpTo) -> None:
        mark, sequence = self._marked(connection)
        self.compare(connection, read, mark, sequence)
        self._mark, self._sequence = mark, sequence

    @abstractmethod
    def compare(self, connection: TimedConnection, read: ReadUpTo, mark: TableMark, sequence: int) -> None:
        """Raise TableReplaced if what was read is not what the table has, or had."""

    def digest_at(self, connection: TimedConnection, key: int) -> str:
        """Return the digest of the row with a key; "": there is none."""
        found = connection.execute(self._row, (key,)).fetchone()
        return "" if found is None else digest_of(found[: len(self._table.columns)])

    def has_rows(self, connection: TimedConnection, condition: str, key: int) -> bool:
        """Return whether there are rows whose key compares with this one in a way."""
        return connection.execute(f"{self._any} {condition} %s LIMIT 1", (key,)).fetchone() is not None

    def replaced(self, read: ReadUpTo, what: str) -> TableReplaced:
        """Return the error: what is wrong with a position."""
        return TableReplaced(
            f"{self._table.place}: the job has read up to {self._key} {read.key}, and {what}: the table was"
            " truncated or created again, or the database was restored from an older backup; restore the"
            " rows, or start the job without state"
        )

    def _marked(self, connection: TimedConnection) -> tuple[TableMark, int]:
        from psycopg import errors

        def asked(server: str) -> Any:
            query = _TABLE.format(server=server, storage=_STORAGE) + _FROM
            return connection.execute(query, self._names).fetchone()

        try:
            found = asked(_SERVER)
        except errors.InsufficientPrivilege:
            found = asked(f"{_UNKNOWN}, {_UNKNOWN}")
        if found is None:
            raise TableReplaced(f"{self._table.place}: the table is gone: create it again with its rows")
        *mark, sequence = found
        return TableMark(*mark), sequence


class RangeGuard(TableGuard):
    """Checks a table whose rows must not change.

    Args:
        table: the table.
        key: the name of the key.
        select: the query of the columns with the key behind them.
        restored: the position to resume from, if there is one that says what was read.
        end: the last row of the table's range as the source was built.
    """

    def __init__(
        self, table: PostgresTable, key: str, select: str, restored: ReadUpTo | None, end: KeyedRow
    ) -> None:
        super().__init__(table, key, select, restored)
        self._end = end if restored is None else KeyedRow(restored.last_key, restored.last_digest)

    def compare(self, connection: TimedConnection, read: ReadUpTo, mark: TableMark, sequence: int) -> None:
        """Compare the last row read, and the last one of the range."""
        has_changed = mark != read.mark
        for row in (read.row, KeyedRow(read.last_key, read.last_digest)):
            if not row.digest:
                continue
            found = self.digest_at(connection, row.key)
            if not found:
                raise self.replaced(read, f"the row with {self._key} {row.key} is gone")
            if has_changed and found != row.digest:
                raise self.replaced(read, f"the row with {self._key} {row.key} is another one")


class GrowingGuard(TableGuard):
    """Checks a table whose rows may change and go."""

    def compare(self, connection: TimedConnection, read: ReadUpTo, mark: TableMark, sequence: int) -> None:
        """Compare the sequence of the key, and where that does not say enough, the last row read."""
        if not read.digest:
            return
        if read.is_generated and sequence != NO_SEQUENCE and sequence < read.key:
            raise self.replaced(read, f"the sequence of {self._key} stands at {sequence}")
        sequence_says = read.is_generated and sequence != NO_SEQUENCE
        is_same_table = mark.names_table_of(read.mark)
        if not is_same_table or (mark.storage != read.mark.storage and not sequence_says):
            if self.digest_at(connection, read.key) != read.digest:
                raise self.replaced(read, "the table is another one, without that row")
        elif (
            mark.timeline != read.mark.timeline
            and not self.has_rows(connection, ">=", read.key)
            and self.has_rows(connection, "<", read.key)
        ):
            raise self.replaced(read, "the server has a new timeline, in which no row has that key or more")


def digest_of(row: Sequence[Any]) -> str:
    """Return what tells the content of a row from another one's."""
    return blake2b(repr(tuple(row)).encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def warn_of_old_position(table: PostgresTable, key: int) -> None:
    """Say that the checkpoint does not tell which table its key is of."""
    _logger.warning(
        "%s resumes behind key %d of a checkpoint of an earlier version, which does not say whose rows were"
        " read: a table that was truncated or restored since then would not be noticed; from now on it is",
        table.place,
        key,
    )
