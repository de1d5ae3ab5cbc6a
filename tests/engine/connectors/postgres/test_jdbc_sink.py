"""Sinks over any DB-API driver: here psycopg's standard methods, and a driver without two-phase commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from onceproof.engine import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink, Types
from onceproof.engine.connectors.jdbc.db_api_database import with_parameters
from onceproof.engine.connectors.jdbc.two_phase_database import LostTransaction, RefusedByDatabase
from onceproof.harness.services.postgres_server import PostgresServer

INSERT = "INSERT INTO numbers (n, word) VALUES (?, ?)"
ROW = Types.ROW([Types.LONG(), Types.STRING()])


def options(url: str, driver: str = "psycopg") -> JdbcConnectionOptions:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    return builder.with_url(url).with_driver_name(driver).build()


@pytest.fixture
def outside(database: str) -> Iterator[Any]:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE numbers (n bigint, word text)")
        yield connection


@pytest.fixture
def job_of(sink_job: Any) -> Iterator[Any]:
    functions: list[Any] = []

    def make(create: Any) -> Any:
        def kept() -> Any:
            functions.append(create())
            return functions[-1]

        return sink_job(kept, "job")

    yield make
    for function in functions:
        function.close()


def seen(outside: Any) -> list[Any]:
    return outside.execute("SELECT n, word FROM numbers ORDER BY n").fetchall()


def test_generic_sink_is_exactly_once_by_the_standard_methods(
    job_of: Any, database: str, outside: Any
) -> None:
    execution = JdbcExecutionOptions.builder().with_batch_size(2).build()
    job = job_of(lambda: JdbcSink.exactly_once_sink(INSERT, ROW, options(database), execution))
    job.start(2)
    for n in range(5):
        job.functions[n % 2].invoke((n, "100% ? '"), None)
    job.snapshot(1)
    assert seen(outside) == []
    job.functions[0].invoke((9, "lost"), None)
    job.snapshot(2)
    job.start(1, restored=1)
    assert seen(outside) == [(n, "100% ? '") for n in range(5)]
    assert outside.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == []
    # All again: each second commit is known by the ledger.
    job.start(1, restored=1)
    assert len(seen(outside)) == 5


def test_generic_sink_names_a_transaction_that_is_lost(job_of: Any, database: str, outside: Any) -> None:
    job = job_of(lambda: JdbcSink.exactly_once_sink(INSERT, ROW, options(database)))
    job.start()
    job.functions[0].invoke((1, "a"), None)
    job.snapshot(1)
    [(gid,)] = outside.execute("SELECT gid FROM pg_prepared_xacts").fetchall()
    outside.execute(f"ROLLBACK PREPARED '{gid}'")
    with pytest.raises(LostTransaction, match="its 1 rows are lost"):
        job.start(restored=1)


def test_generic_sink_misses_what_the_database_lacks_and_keeps_the_newest_entry(
    job_of: Any, database: str, outside: Any
) -> None:
    job = job_of(lambda: JdbcSink.exactly_once_sink(INSERT, ROW, options(database)))
    job.start()
    for checkpoint_id in (1, 3):
        job.functions[0].invoke((checkpoint_id, "a"), None)
        job.snapshot(checkpoint_id)
        job.notify(checkpoint_id)
        job.snapshot(checkpoint_id + 1)
    outside.execute("UPDATE onceproof_jdbc_ledger SET recorded_ms = 0")
    job.functions[0]._completed = 1000
    job.notify(4)
    assert outside.execute("SELECT checkpoint_id FROM onceproof_jdbc_ledger").fetchall() == [(3,)]
    # The entry of the older checkpoint may have been swept by then, that of the newer one may not.
    job.now_ms = 8 * 24 * 3_600_000
    job.start(restored=2)
    job.start(restored=4)
    outside.execute("TRUNCATE numbers, onceproof_jdbc_ledger")
    for checkpoint_id in (2, 4):
        with pytest.raises(LostTransaction, match="which was committed before the checkpoint, is not in"):
            job.start(restored=checkpoint_id)


def test_statement_sink_sends_rows_before_the_snapshot(job_of: Any, database: str, outside: Any) -> None:
    job = job_of(lambda: JdbcSink.sink(INSERT, ROW, options(database)))
    job.start()
    job.functions[0].invoke((1, "a"), None)
    assert seen(outside) == []
    job.snapshot(1)
    assert seen(outside) == [(1, "a")]


def test_statement_sink_tries_again_on_a_new_connection(
    job_of: Any, database: str, outside: Any, postgres_server: PostgresServer
) -> None:
    job = job_of(lambda: JdbcSink.sink(INSERT, ROW, options(database)))
    job.start()
    job.functions[0].invoke((1, "a"), None)
    job.snapshot(1)
    postgres_server.kill()
    postgres_server.start()
    job.functions[0].invoke((2, "b"), None)
    job.snapshot(2)
    with psycopg.connect(database) as connection:
        assert seen(connection) == [(1, "a"), (2, "b")]


def test_driver_without_two_phase_commit_is_named(
    job_of: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sqlite:").mkdir()
    url = "jdbc:sqlite://database"
    with pytest.raises(RefusedByDatabase, match="the driver has no two-phase commit"):
        job_of(lambda: JdbcSink.exactly_once_sink(INSERT, ROW, options(url, "sqlite3"))).start()


def test_statement_that_the_database_refuses_is_one_line(job_of: Any, database: str, outside: Any) -> None:
    job = job_of(lambda: JdbcSink.sink("INSERT INTO nowhere VALUES (?)", ROW, options(database)))
    job.start()
    job.functions[0].invoke((1,), None)
    with pytest.raises(RefusedByDatabase, match='relation "nowhere" does not exist') as refused:
        job.snapshot(1)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("driver", "line"), [("", "give the Python module"), ("json", "is not a DB-API driver")]
)
def test_driver_that_is_none_is_refused_as_the_job_is_built(driver: str, line: str) -> None:
    with pytest.raises(ValueError, match=line):
        JdbcSink.sink(INSERT, ROW, options("postgresql://h/d", driver))


@pytest.mark.parametrize(
    ("style", "statement"),
    [
        ("qmark", "SELECT '?', ? WHERE x LIKE 'a%' AND y = ?"),
        ("format", "SELECT '?', %s WHERE x LIKE 'a%%' AND y = %s"),
        ("numeric", "SELECT '?', :1 WHERE x LIKE 'a%' AND y = :2"),
    ],
)
def test_parameters_are_written_in_the_style_of_the_driver(style: str, statement: str) -> None:
    assert with_parameters("SELECT '?', ? WHERE x LIKE 'a%' AND y = ?", style) == statement
