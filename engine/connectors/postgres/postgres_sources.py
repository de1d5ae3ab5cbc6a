"""Sources of the rows of a table of PostgreSQL: by ranges of a key, or for ever by a growing one.

The rules this module lives by:

- Rows come as tuples of the columns, in the order of an integer column with a unique index. A position is the
  last key that was returned, so a split resumes in its middle, with what identifies the table and that row: a
  table that was truncated, made anew or restored from an older backup is an error (`table_guard.py`).
- `PostgresSource` reads the keys of a range that is fixed when it is built, in splits of equal width. The
  rows of the range must not change while the job runs: a restart reads them again.
- `PostgresGrowingSource` reads what is behind the last key, again and again. It stops before the first row
  that was written by a transaction not older than every one that still runs: a smaller key may still be
  committed then. So a long transaction delays it, and our own prepared transactions do until their checkpoint
  is complete.
- It never sees: changes and deletions of rows, rows whose key is not the greatest when they are committed
  although their transaction wrote it before its first change of the database, and rows without a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

from onceproof.engine.connectors.jdbc.jdbc_options import JdbcConnectionOptions
from onceproof.engine.connectors.jdbc.two_phase_database import RefusedByDatabase
from onceproof.engine.connectors.postgres.page_fetcher import Page, PageFetcher, Query
from onceproof.engine.connectors.postgres.postgres_table import PostgresTable, beside_parameters, quoted_name
from onceproof.engine.connectors.postgres.table_guard import (
    STORAGE_NOW,
    GrowingGuard,
    KeyedRow,
    RangeGuard,
    ReadUpTo,
    TableGuard,
    digest_of,
    warn_of_old_position,
)
from onceproof.engine.connectors.source import Source, SourceIdentity, SplitReader
from onceproof.engine.durations import Duration, Time, milliseconds_of
from onceproof.engine.elements import Record
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.extras import POSTGRES, require

PAGE_ROWS: Final = 1000
INTERVAL: Final = Duration.of_seconds(1)
RETRY_MS: Final = 1000
"""The thread wakes the task, so it need not ask often."""
USE: Final = "source of"
_INTEGERS: Final = ("smallint", "integer", "bigint")
_LEAST: Final = -(1 << 63)
_RANGE: Final = re.compile(r"(-?[0-9]+) to (-?[0-9]+)")
_GROWING: Final = "growing"


class WrongRange(UnrecoverableError, ValueError):
    """A checkpoint lists a split that the source does not have. The message is one line."""


class PostgresSource(Source):
    """The rows of a table whose key is in a range (ours; Flink: JdbcSource).

    Args:
        options: where the database is.
        table: the name of the table.
        columns: the names of the columns, in the order of the values.
        key: an integer column with a unique index or primary key; it need not be among ``columns``.
        lower: the least key to read; None: that of the table as the source is built.
        upper: the greatest key to read; None: that of the table as the source is built.
        schema: the schema of the table; "": as the user's search path says.
        page_rows: how many rows a query returns at most.

    Raises:
        ExtraMissing: psycopg is not installed.
        RefusedByDatabase: there is no such table, column or index.
        DatabaseUnavailable: the database is not there.
        ValueError: a name is not possible, or ``page_rows`` is less than 1.
    """

    def __init__(
        self,
        options: JdbcConnectionOptions,
        table: str,
        columns: Sequence[str],
        key: str,
        *,
        lower: int | None = None,
        upper: int | None = None,
        schema: str = "",
        page_rows: int = PAGE_ROWS,
    ) -> None:
        require("PostgresSource", POSTGRES)
        self._table = _described(options, table, columns, schema, page_rows)
        self._key = key
        self._page_rows = page_rows
        self.lower, self.upper, self._end = _checked_range(self._table, key, lower, upper)

    def splits(self) -> Sequence[str]:
        """Return the one range of a job with one subtask."""
        return self.splits_for(1)

    def splits_for(self, parallelism: int) -> Sequence[str]:
        """Return a range for each subtask, none of them empty."""
        size = self.upper - self.lower + 1
        bounds = [self.lower + size * number // parallelism for number in range(parallelism + 1)]
        return [f"{low} to {following - 1}" for low, following in pairwise(bounds) if following > low]

    def open_split(self, split: str, position: Any | None) -> RowReader:
        """Return a reader of a range; it connects with its first read. Raises WrongRange."""
        match = _RANGE.fullmatch(split)
        if match is None or not _is_position(position):
            raise WrongRange(
                f"split {split!r} at {position!r} is not a range of keys of {self._table.place}: restore with"
                " the source that the checkpoint was taken with"
            )
        low, high = int(match[1]), int(match[2])
        key = beside_parameters(quoted_name(self._key))
        select = _select(self._table, self._key, f", {STORAGE_NOW}")
        question = f"{select} WHERE {key} > %s AND {key} <= %s ORDER BY {key} LIMIT %s"
        restored = _restored(self._table, position)
        guard = RangeGuard(self._table, self._key, _select(self._table, self._key), restored, self._end)

        def query(connection: Any, after: int) -> Page:
            rows = connection.execute(question, (*guard.names, after, high, self._page_rows)).fetchall()
            return Page(rows, len(rows) < self._page_rows)

        return RowReader(self._table, guard, query, _row_at(position, low - 1), None)

    def identity(self) -> SourceIdentity:
        """Return the table and the key, and the range."""
        what = f"rows of {self._table.name} of {self._table.options.place} by {self._key}"
        return SourceIdentity(what, f"{self.lower} to {self.upper}")


class PostgresGrowingSource(Source):
    """The rows of a table by a growing key, for ever (ours).

    Args:
        options: where the database is.
        table: the name of the table.
        columns: the names of the columns, in the order of the values.
        key: an integer column with a unique index or primary key whose default is a sequence, such as an
            identity column.
        after: the key behind which to begin; None: with the first row.
        interval: how long to wait before the table is asked again.
        schema: the schema of the table; "": as the user's search path says.
        page_rows: how many rows a query returns at most.

    Raises:
        ExtraMissing: psycopg is not installed.
        RefusedByDatabase: there is no such table, column or index.
        DatabaseUnavailable: the database is not there.
        ValueError: a name or the interval is not possible, or ``page_rows`` is less than 1.
    """

    is_bounded = False

    def __init__(
        self,
        options: JdbcConnectionOptions,
        table: str,
        columns: Sequence[str],
        key: str,
        *,
        after: int | None = None,
        interval: Duration | Time = INTERVAL,
        schema: str = "",
        page_rows: int = PAGE_ROWS,
    ) -> None:
        require("PostgresGrowingSource", POSTGRES)
        self._interval_ms = milliseconds_of(interval, "interval")
        if self._interval_ms < 1:
            raise ValueError(f"interval {self._interval_ms} ms must be positive")
        self._table = _described(options, table, columns, schema, page_rows)
        self._key = key
        self._page_rows = page_rows
        self._after = _LEAST if after is None else after
        _check_key(self._table, key)

    def splits(self) -> Sequence[str]:
        """Return the only split."""
        return [_GROWING]

    def open_split(self, split: str, position: Any | None) -> RowReader:
        """Return a reader; it connects with its first read. Raises WrongRange."""
        if split != _GROWING or not _is_position(position):
            raise WrongRange(
                f"split {split!r} at {position!r} is not of a growing key of {self._table.place}: restore"
                " with the source that the checkpoint was taken with"
            )
        key = beside_parameters(quoted_name(self._key))
        # xmin is the transaction that wrote a row, the horizon the oldest transaction that still runs.
        select = _select(self._table, self._key, f", age(xmin) > age(horizon), {STORAGE_NOW}")
        question = (
            f"{select}, (SELECT pg_snapshot_xmin(pg_current_snapshot())::xid AS horizon) AS now"
            f" WHERE {key} > %s ORDER BY {key} LIMIT %s"
        )
        guard = GrowingGuard(
            self._table, self._key, _select(self._table, self._key), _restored(self._table, position)
        )

        def query(connection: Any, after: int) -> Page:
            rows = connection.execute(question, (*guard.names, after, self._page_rows)).fetchall()
            settled = next((place for place, row in enumerate(rows) if not row[-3]), len(rows))
            is_last = settled < self._page_rows
            return Page([(*row[:-3], *row[-2:]) for row in rows[:settled]], is_last)

        return RowReader(self._table, guard, query, _row_at(position, self._after), self._interval_ms / 1000)

    def identity(self) -> SourceIdentity:
        """Return the table and the key; how often it asks may change."""
        return SourceIdentity(f"rows of {self._table.name} of {self._table.options.place} by {self._key}")


class RowReader(SplitReader):
    """Hands the task what its thread has fetched."""

    def __init__(
        self,
        table: PostgresTable,
        guard: TableGuard,
        query: Query,
        after: KeyedRow,
        interval_s: float | None,
    ) -> None:
        self._table = table
        self._guard = guard
        self._query = query
        self._after = after
        self._last_row: tuple[Any, ...] | None = None
        """As its page has it; None: none was returned yet."""
        self._interval_s = interval_s
        self._has_ended = False
        self._fetcher: PageFetcher | None = None
        self._wake_up: Callable[[], None] = _no_wake_up

    def read(self, limit: int) -> list[Record]:
        """Return what has arrived. Raises DatabaseUnavailable, RefusedByDatabase, TableReplaced behind it."""
        if self._has_ended:
            return []
        if self._fetcher is None:
            self._fetcher = PageFetcher(
                self._table, self._guard, self._query, self._after, self._interval_s, self._wake_up
            )
        rows = self._fetcher.take(limit)
        if rows is None:
            self._has_ended = True
            return []
        if rows:
            self._last_row = rows[-1]
        return [(row[:-2], None) for row in rows]

    @property
    def position(self) -> tuple[Any, ...]:
        """The last key that was returned, and what identifies the table and the row, as `ReadUpTo` has it."""
        if self._last_row is not None:
            *values, _, key = self._last_row
            self._after, self._last_row = KeyedRow(key, digest_of(values)), None
        return tuple(self._guard.position(self._after))

    @property
    def exhausted(self) -> bool:
        """Whether the range is read out; never for a growing key."""
        return self._has_ended

    @property
    def retry_ms(self) -> int:
        """A time that matters only if the wake-up is lost."""
        return RETRY_MS

    def when_available(self, wake_up: Callable[[], None]) -> None:
        """Keep what wakes the task."""
        self._wake_up = wake_up

    def close(self) -> None:
        if self._fetcher is not None:
            self._fetcher.stop()


def _described(
    options: JdbcConnectionOptions, table: str, columns: Sequence[str], schema: str, page_rows: int
) -> PostgresTable:
    if page_rows < 1:
        raise ValueError(f"pages of {page_rows} rows: at least 1 is needed")
    return PostgresTable(options, table, columns, schema, USE)


def _select(table: PostgresTable, key: str, beside: str = "") -> str:
    """Return the query of the table's columns, with others and the key behind them."""
    columns, key_column, name = map(beside_parameters, (table.list, quoted_name(key), table.name))
    return f"SELECT {columns}{beside}, {key_column} FROM {name}"


def _is_position(position: Any) -> bool:
    """Return whether a position is one of these sources; that of an earlier version is the last key alone."""
    if position is None or type(position) is int:
        return True
    return isinstance(position, tuple | list) and len(position) == len(ReadUpTo._fields)


def _restored(table: PostgresTable, position: Any) -> ReadUpTo | None:
    """Return what a position says; None: there is none, or it is the last key alone."""
    if type(position) is int:
        warn_of_old_position(table, position)
    return None if position is None or type(position) is int else ReadUpTo(*position)


def _row_at(position: Any, beginning: int) -> KeyedRow:
    """Return the last row that was read: nothing of it is known at the beginning."""
    if position is None or type(position) is int:
        return KeyedRow(beginning if position is None else position, "")
    return ReadUpTo(*position).row


def _check_key(table: PostgresTable, key: str) -> None:
    """Check the table and its key. Raises RefusedByDatabase, DatabaseUnavailable."""
    from onceproof.engine.connectors.postgres.timed_connection import connect, translated

    with connect(table.options, table.place) as connection, translated(table.place):
        types = table.check(connection, "SELECT")
        if types.get(key) not in _INTEGERS:
            raise RefusedByDatabase(
                f"{table.place}: the key {key!r} is {types.get(key, 'no column')}: give an integer column"
                " with a unique index"
            )
        table.check_unique(connection, [key])


def _checked_range(
    table: PostgresTable, key: str, lower: int | None, upper: int | None
) -> tuple[int, int, KeyedRow]:
    """Check the table; return the least and the greatest key to read, and the last row between them.

    Of a table without rows it is the range from 0 to -1.
    """
    from onceproof.engine.connectors.postgres.timed_connection import connect, translated

    _check_key(table, key)
    column = quoted_name(key)
    with connect(table.options, table.place) as connection, translated(table.place):
        [(least, greatest)] = connection.execute(
            f"SELECT min({column}), max({column}) FROM {table.name}"
        ).fetchall()
        if least is None:
            least, greatest = 0, -1
        low, high = least if lower is None else lower, greatest if upper is None else upper
        between = f"{_select(table, key)} WHERE {beside_parameters(column)} BETWEEN %s AND %s"
        order = f"ORDER BY {beside_parameters(column)} DESC LIMIT 1"
        last = connection.execute(f"{between} {order}", (low, high)).fetchone()
    return low, high, KeyedRow(0, "") if last is None else KeyedRow(last[-1], digest_of(last[:-1]))


def _no_wake_up() -> None:
    """Do nothing: the task asks by itself."""
