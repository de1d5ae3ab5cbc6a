"""The upsert sink and the write-ahead sink on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from onceproof.engine import JdbcConnectionOptions, PostgresUpsertSink, PostgresWriteAheadSink
from onceproof.engine.connectors.jdbc.database_errors import DatabaseUnavailable, RefusedByDatabase
from onceproof.harness.services.postgres_server import PostgresServer


@pytest.fixture
def options(database: str) -> JdbcConnectionOptions:
    return JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(database).build()


@pytest.fixture
def outside(database: str) -> Iterator[Any]:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE counts (word text PRIMARY KEY, count bigint)")
        connection.execute("CREATE TABLE numbers (n bigint)")
        yield connection


@pytest.fixture
def job_of(sink_job: Any) -> Any:
    functions: list[Any] = []

    def make(sink: Any) -> Any:
        def create() -> Any:
            functions.append(sink.create_function())
            return functions[-1]

        return sink_job(create, "job")

    yield make
    for function in functions:
        function.close()


def counts(outside: Any) -> list[Any]:
    return outside.execute("SELECT * FROM counts ORDER BY word").fetchall()


def numbers(outside: Any) -> list[int]:
    return [n for (n,) in outside.execute("SELECT n FROM numbers ORDER BY n").fetchall()]


def test_upsert_keeps_the_last_row_of_each_key(job_of: Any, options: Any, outside: Any) -> None:
    job = job_of(PostgresUpsertSink(options, "counts", ["word", "count"]))
    job.start()
    for row in (("a", 1), ("b", 1), ("a", 2)):
        job.functions[0].invoke(row, None)
    job.snapshot(1)
    assert counts(outside) == [("a", 2), ("b", 1)]
    job.start(restored=1)
    job.functions[0].invoke(("b", None), None)
    job.snapshot(2)
    assert counts(outside) == [("a", 2), ("b", None)]


def test_upsert_of_key_columns_alone_changes_nothing_there(job_of: Any, options: Any, outside: Any) -> None:
    job = job_of(PostgresUpsertSink(options, "counts", ["word"]))
    job.start()
    outside.execute("INSERT INTO counts VALUES ('a', 7)")
    job.functions[0].invoke(("a",), None)
    job.snapshot(1)
    assert counts(outside) == [("a", 7)]


NAMES = ('we"ird; DROP TABLE counts; --', "100 %", "%s", "a%(b)s'")


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_a_table_a_column_or_a_ledger(job_of: Any, options: Any, outside: Any, name: str) -> None:
    table, column, ledger = (sql.Identifier(each) for each in (name, f"{name} column", f"{name} ledger"))
    outside.execute(sql.SQL("CREATE TABLE {} ({} text PRIMARY KEY, n bigint)").format(table, column))
    columns = [f"{name} column", "n"]
    upsert = job_of(PostgresUpsertSink(options, name, columns))
    upsert.start()
    upsert.functions[0].invoke(("a", 1), None)
    upsert.snapshot(1)
    ahead = job_of(PostgresWriteAheadSink(options, name, columns, ledger=f"{name} ledger"))
    ahead.start()
    ahead.functions[0].invoke(("b", 2), None)
    ahead.snapshot(1)
    ahead.notify(1)
    assert outside.execute(sql.SQL("SELECT * FROM {} ORDER BY n").format(table)).fetchall() == [
        ("a", 1),
        ("b", 2),
    ]
    assert outside.execute(sql.SQL("SELECT count(*) FROM {}").format(ledger)).fetchone() == (1,)


def test_what_a_dead_attempt_still_asks_for_comes_no_more(job_of: Any, options: Any, outside: Any) -> None:
    job = job_of(PostgresUpsertSink(options, "counts", ["word", "count"]))
    job.start()
    dead = job.functions[0]
    job.start()
    with pytest.raises(DatabaseUnavailable):
        dead.upsert({"a": ("a", 1)})
    assert counts(outside) == []


@pytest.mark.parametrize(
    ("columns", "keys", "line"),
    [
        (
            ["count", "word"],
            1,
            "has no primary key or unique index over count: create one, or",
        ),
        (["word", "count"], 2, "has no primary key or unique index over word, count"),
        (["word", "no"], 1, "the table has no column 'no'"),
    ],
)
def test_table_without_the_key_is_refused(
    job_of: Any, options: Any, outside: Any, columns: Any, keys: int, line: str
) -> None:
    with pytest.raises(RefusedByDatabase, match=line):
        job_of(PostgresUpsertSink(options, "counts", columns, keys)).start()


def test_row_without_a_key_is_named(job_of: Any, options: Any, outside: Any) -> None:
    job = job_of(PostgresUpsertSink(options, "counts", ["word", "count"]))
    job.start()
    with pytest.raises(RefusedByDatabase, match=r"a column of the key is None in row \(None, 1\)"):
        job.functions[0].invoke((None, 1), None)


def test_write_ahead_batch_is_there_once_though_it_is_sent_twice(
    job_of: Any, options: Any, outside: Any
) -> None:
    job = job_of(PostgresWriteAheadSink(options, "numbers", ["n"]))
    job.start()
    job.functions[0].invoke((1,), None)
    job.functions[0].invoke_batch([(2,), (3,)])
    job.snapshot(1)
    assert numbers(outside) == []
    job.notify(1)
    assert numbers(outside) == [1, 2, 3]
    # As if the process had died before it knew that the batch was taken.
    job.start(restored=1)
    job.snapshot(2)
    job.notify(2)
    assert numbers(outside) == [1, 2, 3]


def test_write_ahead_batch_that_meets_a_dead_server_comes_later(
    job_of: Any, options: Any, outside: Any, postgres_server: PostgresServer, database: str
) -> None:
    job = job_of(PostgresWriteAheadSink(options, "numbers", ["n"]))
    job.start()
    job.functions[0].invoke((1,), None)
    job.snapshot(1)
    postgres_server.kill()
    job.notify(1)
    postgres_server.start()
    job.snapshot(2)
    job.notify(2)
    with psycopg.connect(database) as connection:
        assert numbers(connection) == [1]


def test_number_of_key_columns_is_checked_as_the_job_is_built(options: Any) -> None:
    with pytest.raises(ValueError, match="0 key columns of 1"):
        PostgresUpsertSink(options, "counts", ["word"], 0)
