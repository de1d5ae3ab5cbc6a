"""The connector ``jdbc``, for PostgreSQL.

Rules:

- A source reads the rows that are there by an integer column with a unique index: ``scan.partition.column``,
  or the table's primary key. So a restart resumes behind the last row; Flink reads a split anew.
- A sink of a table with a PRIMARY KEY keeps the last row of each key, and removes the key of a deletion
  (``connectors/idempotent.py``). One without a key appends with its checkpoints, exactly once: rows are kept
  in checkpoints until they are complete. Flink appends at least once.
- A lookup asks for the rows of a key each time, or keeps them as ``lookup.cache`` says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from onceproof.engine.configuration.parsing import parse_duration_ms
from onceproof.engine.connectors.jdbc.jdbc_options import (
    MAX_RETRIES,
    REQUEST_TIMEOUT_MS,
    JdbcConnectionOptions,
)
from onceproof.engine.connectors.jdbc.two_phase_database import DatabaseUnavailable, RefusedByDatabase
from onceproof.engine.connectors.postgres.postgres_sessions import LEDGER, PostgresLedger
from onceproof.engine.connectors.postgres.postgres_sinks import (
    USE,
    PostgresUpsertFunction,
    PostgresWriteAheadFunction,
)
from onceproof.engine.connectors.postgres.postgres_sources import PAGE_ROWS, PostgresSource
from onceproof.engine.connectors.postgres.postgres_table import (
    PostgresTable,
    beside_parameters,
    quoted_name,
)
from onceproof.engine.connectors.sink import Sink
from onceproof.engine.connectors.source import ForwardingReader, Source, SourceIdentity, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.extras import POSTGRES, require
from onceproof.engine.table.connectors.lookups import CachedLookup, cache_settings
from onceproof.engine.table.connectors.registry import ConnectedSource, Options, lookup, sink, source
from onceproof.engine.table.python_values import from_python, to_python
from onceproof.engine.table.table_ends import Lookup, MakeLookup, TableEnd
from onceproof.engine.table.types import INTEGERS, LogicalType
from onceproof.engine.table.values import ADDS, INSERT, Change, Row

_BATCH_ROWS: Final = 100
_PAUSE_S: Final = 0.1


class Place(Struct, frozen=True):
    """Where a table is."""

    options: JdbcConnectionOptions
    table: str
    schema: str


def _place(options: Options) -> Place:
    """Return where the table of a declaration is. Raises WrongTable."""
    require("the connector jdbc", POSTGRES)
    url = options.required("url")
    if urlsplit(url.removeprefix("jdbc:")).scheme not in ("postgresql", "postgres"):
        raise options.wrong(
            "the connector 'jdbc' reaches PostgreSQL only: give a url as jdbc:postgresql://host/db"
        )
    schema, _, table = options.required("table-name").rpartition(".")
    options.ignored("driver")
    timeout_ms = options.read("connection.max-retry-timeout", parse_duration_ms, REQUEST_TIMEOUT_MS)
    user, password = options.text("username"), options.text("password")
    try:
        where = JdbcConnectionOptions(url, None, user, password, max(timeout_ms, 1))
        return Place(where, table, schema)
    except ValueError as error:
        raise options.wrong(str(error)) from None


def _ignore(options: Options, *prefixes: str) -> None:
    """Accept what other uses of the same table read."""
    for prefix in prefixes:
        options.below(prefix)


# ---- source


class ChangesOfRows(ConnectedSource):
    """The rows of a source as changes of a table.

    Args:
        make: makes the source.
        end: the table.
    """

    _inner: Source

    def __init__(self, make: Callable[[], Source], end: TableEnd) -> None:
        self._make, self._end = make, end

    def connect(self) -> None:
        """Make the source, which asks for the range of keys."""
        self._inner = self._make()
        # It cannot be sent to other processes.
        del self._make

    def splits(self) -> Sequence[str]:
        """Return those of the inner source."""
        return self._inner.splits()

    def splits_for(self, parallelism: int) -> Sequence[str]:
        """Return those of the inner source."""
        return self._inner.splits_for(parallelism)

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        """Return a reader of changes."""
        return _ChangesReader(self._inner.open_split(split, position), self._end.type)

    def identity(self) -> SourceIdentity:
        """Return that of the inner source; of one that is not connected, its table."""
        inner = getattr(self, "_inner", None)
        return SourceIdentity(f"table {self._end.name}") if inner is None else inner.identity()


class _ChangesReader(ForwardingReader):
    """Makes changes of rows."""

    def __init__(self, reader: SplitReader, row: LogicalType) -> None:
        super().__init__(reader)
        self._fields = [from_python(kind) for kind in row.types]

    def read(self, limit: int) -> list[Record]:
        fields = self._fields
        return [
            ((INSERT, tuple([convert(value) for convert, value in zip(fields, row, strict=True)])), None)
            for row, _ in self._reader.read(limit)
        ]


@source("jdbc")
def jdbc_source(end: TableEnd, options: Options) -> Source:
    """Read the rows of a table."""
    place = _place(options)
    key = options.text("scan.partition.column")
    lower = options.read("scan.partition.lower-bound", _bound, None)
    upper = options.read("scan.partition.upper-bound", _bound, None)
    rows = options.number("scan.fetch-size", 0) or PAGE_ROWS
    options.ignored("scan.partition.num", "scan.auto-commit")
    _ignore(options, "lookup.", "sink.")
    if key is None:
        keys = [end.type.fields[each] for each in end.primary_key]
        if len(keys) != 1 or keys[0].type.root not in INTEGERS:
            raise options.wrong(
                "a jdbc source reads by a unique integer column: name it in 'scan.partition.column', or"
                " declare it as PRIMARY KEY"
            )
        key = keys[0].name

    def connect() -> PostgresSource:
        try:
            return PostgresSource(
                place.options,
                place.table,
                end.type.names,
                key,
                lower=lower,
                upper=upper,
                schema=place.schema,
                page_rows=rows,
            )
        except (RefusedByDatabase, ValueError) as error:
            raise options.wrong(str(error)) from None

    return ChangesOfRows(connect, end)


def _bound(text: Any) -> int | None:
    return int(text)


# ---- sinks


class JdbcUpsertFunction(PostgresUpsertFunction):
    """Writes the changes of one subtask by key; a deletion removes the row.

    Args:
        table: its columns are in the order of the rows here, those of the key first.
        keys: how many they are.
        end: the table.
        order: the places of the columns in the changes.
    """

    def __init__(
        self,
        table: PostgresTable,
        keys: int,
        buffered_keys: int,
        schema: str,
        end: TableEnd,
        order: Sequence[int],
    ) -> None:
        super().__init__(table, keys, buffered_keys, schema)
        self._end, self._order = end, tuple(order)
        self._fields = [(place, to_python(end.type.types[place])) for place in order]
        columns = [beside_parameters(quoted_name(column)) for column in table.columns[:keys]]
        where = " AND ".join([f"{column} = %s" for column in columns])
        self._delete = f"DELETE FROM {beside_parameters(table.name)} WHERE {where}"

    def key_of(self, value: Change) -> Hashable:
        """Return the key of a change. Raises RefusedByDatabase."""
        return super().key_of(self._values(value[1]))

    def _values(self, row: Row) -> tuple[Any, ...]:
        return tuple([convert(row[place]) for place, convert in self._fields])

    def write(self, cursor: Any, rows: Mapping[Hashable, Any]) -> None:
        """Delete and write rows by a cursor."""
        deleted = [key for key, (kind, _) in rows.items() if not ADDS[kind]]
        if deleted:
            cursor.executemany(self._delete, deleted)
        written = {key: self._values(row) for key, (kind, row) in rows.items() if ADDS[kind]}
        if written:
            super().write(cursor, written)


class JdbcAppendFunction(PostgresWriteAheadFunction):
    """Appends the rows of changes with their checkpoint."""

    def __init__(self, table: PostgresTable, ledger: PostgresLedger, row: LogicalType) -> None:
        super().__init__(table, ledger, None)
        self._fields = [to_python(kind) for kind in row.types]

    def invoke(self, value: Change, context: Any) -> None:
        """Keep the row of a change for the checkpoint."""
        super().invoke(self._row(value), context)

    def invoke_batch(self, values: list[Any]) -> bool:
        """Keep the rows of changes for the checkpoint."""
        return super().invoke_batch([self._row(each) for each in values])

    def _row(self, change: Change) -> tuple[Any, ...]:
        return tuple([convert(value) for convert, value in zip(self._fields, change[1], strict=True)])


class JdbcSink(Sink):
    """Writes the changes of a table."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def create_function(self) -> Any:
        """Return a function for one subtask."""
        return self._make()


@sink("jdbc")
def jdbc_sink(end: TableEnd, options: Options) -> Sink:
    """Write by primary key, or append."""
    place = _place(options)
    buffered = options.number("sink.buffer-flush.max-rows", _BATCH_ROWS) or 1
    # Rows are sent with each checkpoint, and a failure restarts the job.
    options.ignored("sink.buffer-flush.interval", "sink.max-retries")
    _ignore(options, "scan.", "lookup.")
    names = end.type.names
    try:
        if not end.primary_key:
            table = PostgresTable(place.options, place.table, names, place.schema, USE)
            ledger = PostgresLedger(LEDGER, place.schema)
            return JdbcSink(partial(JdbcAppendFunction, table, ledger, end.type))
        order = [*end.primary_key, *[each for each in range(len(names)) if each not in end.primary_key]]
        table = PostgresTable(place.options, place.table, [names[each] for each in order], place.schema, USE)
    except ValueError as error:
        raise options.wrong(str(error)) from None
    keys = len(end.primary_key)
    return JdbcSink(partial(JdbcUpsertFunction, table, keys, buffered, place.schema, end, order))


# ---- lookup


class JdbcLookup:
    """Asks for the rows of a key; a question that fails is asked again on a new connection."""

    def __init__(self, table: PostgresTable, end: TableEnd, keys: Sequence[int], retries: int) -> None:
        self._table, self._retries = table, retries
        columns = [beside_parameters(quoted_name(end.type.names[each])) for each in keys]
        where = " AND ".join([f"{column} = %s" for column in columns])
        self._question = (
            f"SELECT {beside_parameters(table.list)} FROM {beside_parameters(table.name)} WHERE {where}"
        )
        self._key = [to_python(end.type.types[each]) for each in keys]
        self._fields = [from_python(kind) for kind in end.type.types]
        self._connection: Any = None

    def open(self) -> None:
        """Connect, and check the table. Raises DatabaseUnavailable, RefusedByDatabase."""
        from onceproof.engine.connectors.postgres.timed_connection import connect, translated

        self._connection = connect(self._table.options, self._table.place)
        with translated(self._table.place):
            self._table.check(self._connection, "SELECT")

    def rows(self, key: Row) -> Sequence[Row]:
        """Return the rows of a key. Raises DatabaseUnavailable, RefusedByDatabase."""
        from onceproof.engine.connectors.postgres.timed_connection import translated

        values = [convert(value) for convert, value in zip(self._key, key, strict=True)]
        for left in reversed(range(self._retries + 1)):
            try:
                if self._connection is None:
                    self.open()
                with translated(self._table.place):
                    found = self._connection.execute(self._question, values).fetchall()
                break
            except DatabaseUnavailable:
                self.close()
                if not left:
                    raise
                time.sleep(_PAUSE_S)
        fields = self._fields
        return [tuple([convert(each) for convert, each in zip(fields, row, strict=True)]) for row in found]

    def close(self) -> None:
        """End the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


@lookup("jdbc")
def jdbc_lookup(end: TableEnd, keys: Sequence[int], options: Options) -> MakeLookup:
    """Look rows up by key."""
    place = _place(options)
    retries = options.number("lookup.max-retries", MAX_RETRIES)
    cache = cache_settings(options)
    _ignore(options, "scan.", "sink.")
    try:
        table = PostgresTable(place.options, place.table, end.type.names, place.schema, "look rows up in")
    except ValueError as error:
        raise options.wrong(str(error)) from None

    def make() -> Lookup:
        asking = JdbcLookup(table, end, keys, retries)
        return asking if cache is None else CachedLookup(asking, cache)

    return make
