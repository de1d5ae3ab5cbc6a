"""The upsert sink and the write-ahead sink on a real server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql

from onceproof.engine import JdbcConnectionOptions, PostgresUpsertSink, PostgresWriteAheadSink
from onceproof.engine.connectors.jdbc.two_phase_database import (
    DatabaseUnavailable,
    LostTransaction,
    RefusedByDatabase,
)
from onceproof.engine.connectors.postgres.postgres_sessions import PostgresSession
from onceproof.engine.connectors.upsert_fence import FENCE, LostRows, LostToLaterProcess
from onceproof.harness.services.postgres_server import PostgresServer
from tests.patience import PATIENCE_SECONDS


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


def test_process_that_has_lost_the_job_changes_no_row(
    job_of: Any, options: Any, outside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its session is not found: the fence alone refuses it.
    monkeypatch.setattr(PostgresSession, "end_sessions", lambda self, may_end: None)
    job = job_of(PostgresUpsertSink(options, "counts", ["word", "count"]))
    former = job.start(attempt="1.1", parallelism=2)
    former.upsert({"a": ("a", 1)})
    job.start(attempt="2.1")
    job.functions[0].upsert({"a": ("a", 9)})
    with pytest.raises(LostToLaterProcess, match="process 2 of the job has taken it over, and this one is"):
        former.upsert({"a": ("a", 2)})
    with pytest.raises(LostToLaterProcess):
        job.start(attempt="1.2")
    assert counts(outside) == [("a", 9)]


def test_process_that_takes_over_waits_for_a_transaction_that_has_begun(
    job_of: Any, options: Any, outside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostgresSession, "end_sessions", lambda self, may_end: None)
    sink = PostgresUpsertSink(options, "counts", ["word", "count"])
    job = job_of(sink)
    job.start(attempt="1.1")
    # As the former process has left it: counted in the fence, and paused before its row.
    outside.execute("BEGIN")
    outside.execute(f"UPDATE {FENCE} SET transactions = transactions + 1")
    outside.execute("INSERT INTO counts VALUES ('a', 1)")
    with ThreadPoolExecutor(1) as threads:
        taken = threads.submit(job.start, attempt="2.1")
        with psycopg.connect(options.get_db_url(), autocommit=True) as watcher:
            until(lambda: watcher.execute(WAITING).fetchone() == (1,))
        outside.execute("COMMIT")
        taken.result()
    job.functions[0].upsert({"a": ("a", 9)})
    assert counts(outside) == [("a", 9)]


def test_another_job_writes_into_the_same_table(job_of: Any, options: Any, outside: Any) -> None:
    first = job_of(PostgresUpsertSink(options, "counts", ["word", "count"]))
    second = job_of(PostgresUpsertSink(options, "counts", ["word", "count"]))
    second.job_id = "from a savepoint"
    first.start(attempt="7.1")
    first.functions[0].upsert({"a": ("a", 1)})
    first.snapshot(1)
    second.checkpoints = first.checkpoints
    second.start(restored=1, attempt="1.1")
    second.functions[0].upsert({"b": ("b", 1)})
    first.functions[0].upsert({"c": ("c", 1)})
    assert counts(outside) == [("a", 1), ("b", 1), ("c", 1)]


def test_upsert_into_a_database_without_rows_of_the_checkpoint_is_refused(
    job_of: Any, options: Any, outside: Any
) -> None:
    job = job_of(PostgresUpsertSink(options, "counts", ["word", "count"]))
    job.start(attempt="1.1")
    job.functions[0].upsert({"a": ("a", 1)})
    outside.execute("CREATE TABLE backup AS SELECT * FROM onceproof_fence")
    job.functions[0].upsert({"b": ("b", 1)})
    job.snapshot(1)
    job.start(restored=1, attempt="2.1")
    job.functions[0].close()
    outside.execute("DELETE FROM onceproof_fence; INSERT INTO onceproof_fence SELECT * FROM backup")
    with pytest.raises(LostRows, match=r"covers transaction 2 of subtask 0 .* knows is 1: the database was"):
        job.start(restored=1, attempt="3.1")


WAITING = "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_fence_that_the_user_may_not_create_is_named(job_of: Any, options: Any, outside: Any) -> None:
    outside.execute(
        "CREATE ROLE writer LOGIN PASSWORD 'w'; GRANT USAGE ON SCHEMA public TO writer;"
        "GRANT ALL ON counts TO writer"
    )
    try:
        writer = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(options.get_db_url())
        limited = writer.with_user_name("writer").with_password("w").build()
        job = job_of(PostgresUpsertSink(limited, "counts", ["word", "count"]))
        with pytest.raises(RefusedByDatabase, match=r"fence .* is missing, and the user may not create it"):
            job.start()
    finally:
        outside.execute("DROP OWNED BY writer; DROP ROLE writer")


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


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_write_ahead_misses_what_the_database_lacks(
    job_of: Any, options: Any, outside: Any, parallelism: int
) -> None:
    job = job_of(PostgresWriteAheadSink(options, "numbers", ["n"]))
    job.start(2)
    for checkpoint_id in (1, 2):
        job.functions[1].invoke((checkpoint_id,), None)
        job.snapshot(checkpoint_id)
        job.notify(checkpoint_id)
    job.snapshot(3)
    job.start(parallelism, restored=3)
    job.snapshot(4)
    assert numbers(outside) == [1, 2]
    outside.execute("DELETE FROM numbers WHERE n = 2; DELETE FROM onceproof_ledger WHERE checkpoint = 2")
    with pytest.raises(LostTransaction, match=r"batch \S+_1_2_batch, which was sent before .* older backup"):
        job.start(parallelism, restored=4)
    with pytest.raises(LostTransaction, match=r"batch \S+_1_2_batch"):
        job.settle(4, parallelism)
    # An older checkpoint still has the batch.
    job.start(parallelism, restored=2)
    job.notify(2)
    assert numbers(outside) == [1, 2]


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
