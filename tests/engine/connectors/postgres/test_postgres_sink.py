"""The exactly-once sink on a real server: kills, second commits, dead sessions, and what is not its own."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from onceproof.engine import JdbcConnectionOptions, PostgresSink
from onceproof.engine.connectors.jdbc.two_phase_database import (
    DatabaseUnavailable,
    LostTransaction,
    RefusedByDatabase,
    SessionName,
    TransactionName,
    is_dead,
)
from onceproof.engine.connectors.postgres import timed_connection
from onceproof.engine.connectors.two_phase import CommitFailed
from onceproof.harness.services.postgres_server import PostgresServer
from tests.patience import PATIENCE_SECONDS


def options(address: str, timeout_ms: int = 5000) -> JdbcConnectionOptions:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    return builder.with_url(address).with_request_timeout_ms(timeout_ms).build()


@pytest.fixture
def outside(database: str) -> Any:
    """Another session, which sees what is committed."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE numbers (n bigint, word text)")
        yield connection


@pytest.fixture
def job_of(sink_job: Any) -> Any:
    """Return a job of a sink; its functions are left as a crash leaves them, and closed after the test."""
    functions: list[Any] = []

    def make(sink: Any) -> Any:
        def create() -> Any:
            functions.append(sink.create_function())
            return functions[-1]

        return sink_job(create, "job")

    yield make
    for function in functions:
        function.close()


@pytest.fixture
def job(job_of: Any, database: str, outside: Any) -> Any:
    return job_of(PostgresSink(options(database), "numbers", ["n", "word"], batch_rows=3))


def write(job: Any, *rows: tuple[Any, ...], subtask: int = 0) -> None:
    for row in rows:
        job.functions[subtask].invoke(row, None)


def seen(outside: Any) -> list[Any]:
    return outside.execute("SELECT n, word FROM numbers ORDER BY n").fetchall()


def prepared(outside: Any) -> list[str]:
    found = outside.execute(
        "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid"
    )
    return [gid for (gid,) in found.fetchall()]


def test_rows_are_seen_when_their_checkpoint_is_complete(job: Any, outside: Any) -> None:
    job.start()
    write(job, *[(n, f"{n}") for n in range(7)])
    assert seen(outside) == []
    job.snapshot(1)
    write(job, (7, "7"))
    assert seen(outside) == []
    job.notify(1)
    assert seen(outside) == [(n, f"{n}") for n in range(7)]
    assert outside.execute("SELECT job, subtask, checkpoint, row_count FROM onceproof_ledger").fetchall() == [
        ("job", 0, 1, 7)
    ]


def test_checkpoint_without_rows_prepares_nothing(job: Any, outside: Any) -> None:
    job.start()
    job.snapshot(1)
    assert prepared(outside) == []
    job.notify(1)
    job.snapshot(2)
    job.start(restored=2)


def test_restore_after_a_kill_commits_what_is_listed_and_rolls_the_rest_back(job: Any, outside: Any) -> None:
    job.start(2)
    write(job, (1, "a"))
    write(job, (2, "b"), subtask=1)
    job.snapshot(1)
    write(job, (3, "lost"))
    job.snapshot(2)
    write(job, (4, "lost"))
    assert len(prepared(outside)) == 3
    job.start(1, restored=1)
    assert seen(outside) == [(1, "a"), (2, "b")]
    assert prepared(outside) == []


def test_second_commit_is_no_loss(job: Any, outside: Any) -> None:
    job.start()
    write(job, (1, "a"))
    job.snapshot(1)
    job.notify(1)
    job.start(restored=1)
    assert seen(outside) == [(1, "a")]


def test_transaction_that_was_rolled_back_by_hand_is_an_error_that_names_it(job: Any, outside: Any) -> None:
    job.start()
    write(job, (1, "a"), (2, "b"))
    job.snapshot(1)
    [name] = prepared(outside)
    outside.execute(f"ROLLBACK PREPARED '{name}'")
    with pytest.raises(CommitFailed, match=name) as failed:
        job.notify(1)
    assert isinstance(failed.value.__cause__, LostTransaction)
    with pytest.raises(
        LostTransaction, match=rf"{name} into sink into table 'numbers' .* its 2 rows are lost"
    ):
        job.start(restored=1)


def test_transactions_of_others_are_left_alone(job: Any, outside: Any, database: str) -> None:
    job.start(2)
    owner = job.functions[0].owner
    mine = [str(TransactionName(owner, subtask, 3, "1.0")) for subtask in (0, 1, 10, 11)]
    others = [
        str(TransactionName("0" * 16, 0, 3, "1.0")),
        str(TransactionName(owner, 0, 3, "2.0")),
        "onceproof_of_another_program",
    ]
    with psycopg.connect(database, autocommit=True) as connection:
        for name in (*mine, *others):
            connection.execute("BEGIN")
            connection.execute("INSERT INTO numbers VALUES (0, 'x')")
            connection.execute(f"PREPARE TRANSACTION '{name}'")
    job.start(12)
    assert prepared(outside) == sorted(others)


def test_subtask_leaves_those_whose_number_only_begins_like_its_own(job: Any, outside: Any) -> None:
    names = [str(TransactionName("0" * 16, subtask, 0, "1.0")) for subtask in (1, 10, 11)]
    function = job.start()
    recovery = function._recovery(None)._replace(owner="0" * 16, subtask=1, parallelism=12)
    assert function.unlisted(names, recovery) == [names[0]]


def test_sessions_of_dead_attempts_are_ended_before_the_rest_is_rolled_back(job: Any, outside: Any) -> None:
    job.start()
    write(job, *[(n, "late") for n in range(3)])
    dead = job.functions[0]
    job.start()
    with pytest.raises(DatabaseUnavailable, match=r"terminat|closed"):
        dead.snapshot_state(_Context())
    assert prepared(outside) == []


class _Context:
    def get_checkpoint_id(self) -> int:
        return 1


def test_sessions_of_a_later_process_are_not_ended(job: Any, database: str, outside: Any) -> None:
    later = SessionName(job.start().owner, 0, "2.1")
    with psycopg.connect(database, application_name=str(later), autocommit=True) as other:
        job.start()
        assert other.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    ("owner", "subtask", "attempt", "dead"),
    [
        ("a" * 16, 1, "2.7", False),
        ("a" * 16, 1, "2.6", True),
        ("a" * 16, 3, "2.6", True),
        ("a" * 16, 1, "2.8", False),
        # Another task of the same Spark job, which runs beside this one.
        ("a" * 16, 0, "2.6", False),
        ("a" * 16, 0, "2.driver", False),
        ("a" * 16, 0, "1.9", True),
        ("a" * 16, 1, "3.1", False),
        ("b" * 16, 1, "1.1", False),
    ],
)
def test_session_is_dead_if_this_subtask_has_taken_its_place(
    owner: str, subtask: int, attempt: str, dead: bool
) -> None:
    mine = SessionName("a" * 16, 1, "2.7")
    assert is_dead(SessionName(owner, subtask, attempt), mine, parallelism=2) is dead


def test_driver_ends_the_sessions_of_all_tasks_that_it_commits_for() -> None:
    driver = SessionName("a" * 16, 0, "2.driver")
    assert is_dead(SessionName("a" * 16, 0, "2.7"), driver, parallelism=1)


def test_driver_commits_for_its_tasks_and_ends_its_sessions(job: Any, outside: Any) -> None:
    job.start(settled=True)
    write(job, (1, "a"))
    job.snapshot(1)
    job.settle(1)
    assert seen(outside) == [(1, "a")]
    deadline = time.monotonic() + PATIENCE_SECONDS
    left = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE '%.driver'"
    while outside.execute(left).fetchone() is not None:
        assert time.monotonic() < deadline, "the sessions of the driver stay"


def test_transactions_survive_the_kill_of_the_server(
    job: Any, database: str, postgres_server: PostgresServer, outside: Any
) -> None:
    job.start()
    write(job, (1, "a"))
    job.snapshot(1)
    write(job, (2, "open"))
    postgres_server.kill()
    with pytest.raises(CommitFailed, match="numbers"):
        job.notify(1)
    postgres_server.start()
    job.start(restored=1)
    with psycopg.connect(database) as connection:
        assert seen(connection) == [(1, "a")]
        assert prepared(connection) == []


def test_row_that_meets_the_key_of_a_prepared_one_is_an_error_in_time(
    job: Any, outside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_connection, "LOCK_TIMEOUT_MS", 50)
    outside.execute("ALTER TABLE numbers ADD PRIMARY KEY (n)")
    job.start()
    write(job, (1, "a"))
    job.snapshot(1)
    write(job, (1, "b"))
    with pytest.raises(DatabaseUnavailable, match=r"lock timeout.*or use an upsert sink"):
        job.snapshot(2)


def test_old_entries_of_the_ledger_are_deleted_but_the_newest(job: Any, outside: Any) -> None:
    job.start(2)
    for checkpoint_id, subtask in ((1, 0), (2, 1), (3, 0)):
        write(job, (checkpoint_id, "a"), subtask=subtask)
        job.snapshot(checkpoint_id)
        job.notify(checkpoint_id)
    outside.execute("UPDATE onceproof_ledger SET recorded_at = now() - interval '8 days'")
    job.notify(3)
    assert outside.execute("SELECT count(*) FROM onceproof_ledger").fetchone() == (3,)
    for function in job.functions:
        function._completed = 1000
    job.notify(3)
    left = outside.execute("SELECT subtask, checkpoint FROM onceproof_ledger ORDER BY subtask").fetchall()
    assert left == [(0, 3), (1, 2)]


BACKUP = "CREATE TABLE {0}_backup AS SELECT * FROM {0}"
RESTORE = "TRUNCATE {0}; INSERT INTO {0} SELECT * FROM {0}_backup"
TABLES = ("numbers", "onceproof_ledger")


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_database_that_lacks_committed_rows_is_not_written_on(
    job: Any, outside: Any, parallelism: int
) -> None:
    job.start(2)
    write(job, (1, "a"))
    write(job, (2, "b"), subtask=1)
    job.snapshot(1)
    job.notify(1)
    for table in TABLES:
        outside.execute(BACKUP.format(table))
    write(job, (3, "c"), subtask=1)
    job.snapshot(2)
    job.notify(2)
    # Nothing more comes, so the latest checkpoint lists no transaction with rows.
    job.snapshot(3)
    job.snapshot(4)
    job.start(parallelism, restored=4)
    assert len(seen(outside)) == 3
    for table in TABLES:
        outside.execute(RESTORE.format(table))
    with pytest.raises(LostTransaction, match=r"_1_1_1\.1, which was committed before .* older backup or is"):
        job.start(parallelism, restored=4)
    job.start(parallelism, restored=1)
    assert len(seen(outside)) == 2


def test_driver_and_its_tasks_miss_what_the_database_lacks(job: Any, outside: Any) -> None:
    job.start(settled=True)
    write(job, (1, "a"))
    job.snapshot(1)
    job.settle(1)
    job.start(restored=1, settled=True, attempt="1.7")
    job.snapshot(2)
    job.settle(2)
    outside.execute("TRUNCATE numbers, onceproof_ledger")
    with pytest.raises(LostTransaction, match="was committed before the checkpoint"):
        job.settle(2)


def test_savepoint_whose_entry_was_swept_is_restored(job: Any, outside: Any) -> None:
    job.start()
    write(job, (1, "a"))
    job.snapshot(1)
    job.notify(1)
    job.snapshot(2)
    write(job, (2, "b"))
    job.snapshot(3)
    job.notify(3)
    outside.execute("UPDATE onceproof_ledger SET recorded_at = now() - interval '8 days'")
    job.functions[0]._completed = 1000
    job.notify(3)
    with pytest.raises(LostTransaction):
        # Too young for its entry to have been swept.
        job.start(restored=2)
    job.now_ms = 8 * 24 * 3_600_000
    job.start(restored=2)


def test_any_name_is_a_table_and_no_name_or_value_is_sql(job_of: Any, database: str, outside: Any) -> None:
    name, column = 'we"ird; DROP TABLE numbers; --', 'a "b" %s'
    quoted = '"' + name.replace('"', '""') + '"'
    outside.execute(f"""CREATE TABLE {quoted} ("a ""b"" %%s" text)""".replace("%%", "%"))
    sink = PostgresSink(options(database), name, [column])
    job = job_of(sink)
    values = ["'); DROP TABLE numbers; --", "\\.", "a\tb\nc", "\\N", ""]
    job.start()
    write(job, *[(value,) for value in values])
    job.snapshot(1)
    job.notify(1)
    assert [value for (value,) in outside.execute(f"SELECT * FROM {quoted}").fetchall()] == values
    assert seen(outside) == []


# What a user can get wrong.


@pytest.mark.parametrize(
    ("table", "columns", "change", "line"),
    [
        ("nowhere", ["n"], str, r"table 'nowhere' of postgresql://.*: there is no such table: create it"),
        ("numbers", ["n", "no"], str, r"the table has no column 'no', but n, word: give the columns of this"),
        (
            "numbers",
            ["n"],
            lambda url: f"{url}x",
            r"database \"onceproofx\" does not exist: give",
        ),
        (
            "numbers",
            ["n"],
            lambda url: url.replace("f:", "f:x"),
            "password authentication failed.*: give the",
        ),
        (
            "numbers",
            ["n"],
            lambda url: url.replace("of:", "of2:"),
            'authentication failed for user "onceproof2',
        ),
        ("numbers", ["n"], lambda url: f"{url}?sslmoode=1", "invalid URI query parameter"),
    ],
)
def test_what_the_database_refuses_is_one_line(
    job_of: Any, database: str, outside: Any, table: str, columns: Any, change: Any, line: str
) -> None:
    sink = PostgresSink(options(change(database)), table, columns)
    with pytest.raises(RefusedByDatabase, match=line) as refused:
        job_of(sink).start()
    text = str(refused.value)
    assert text.startswith(f"sink into table {table!r} of postgresql://onceproof")
    assert "\n" not in text
    assert database.split(":")[2].split("@")[0] not in text, "no message shows the password"


def test_server_that_is_down_is_one_line_and_may_heal(
    job_of: Any, database: str, postgres_server: PostgresServer
) -> None:
    url = database.replace(f":{postgres_server.port}/", ":1/")
    sink = PostgresSink(options(url), "numbers", ["n"])
    with pytest.raises(
        DatabaseUnavailable, match=r"Connection refused .*: start the server, or give the"
    ) as down:
        job_of(sink).start()
    assert "\n" not in str(down.value)


def test_paused_server_fails_the_request_in_time(
    job_of: Any, database: str, outside: Any, postgres_server: PostgresServer
) -> None:
    job = job_of(PostgresSink(options(database, 300), "numbers", ["n"], batch_rows=1))
    job.start()
    write(job, (1,))
    postgres_server.pause()
    try:
        with pytest.raises(DatabaseUnavailable, match=r"the server does not answer within 0\.3 s"):
            job.snapshot(1)
    finally:
        postgres_server.resume()


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (("x", "a"), 'invalid input syntax for type bigint: "x"; COPY numbers, line 2, column n: "x"'),
        ((1 << 63, "a"), 'value "9223372036854775808" is out of range for type bigint'),
        ((1, "a\0"), "NUL"),
        ((1, "\ud800"), "lone surrogate"),
        ((1, {"a": 1}), "cannot adapt type 'dict'"),
        ((None, "a"), 'null value in column "n" of relation "numbers" violates not-null'),
        ((1,), r"\(1,\) is not a row: give tuples of 2 columns \(n, word\)"),
        ("text", r"'text' is not a row"),
    ],
)
def test_row_that_does_not_fit_is_named(job: Any, outside: Any, row: Any, line: str) -> None:
    outside.execute("ALTER TABLE numbers ALTER n SET NOT NULL")
    job.start()
    write(job, (0, "fits"))

    def send() -> None:
        write(job, row)
        job.snapshot(1)

    with pytest.raises(RefusedByDatabase, match=line) as refused:
        send()
    assert "\n" not in str(refused.value)


def test_server_without_prepared_transactions_is_named(
    job_of: Any, database: str, outside: Any, postgres_server: PostgresServer
) -> None:
    postgres_server.stop()
    other = PostgresServer(
        postgres_server.folder, settings={"max_prepared_transactions": "0", "fsync": "off"}
    )
    other.start()
    try:
        sink = PostgresSink(options(database), "numbers", ["n"])
        with pytest.raises(
            RefusedByDatabase, match="keeps no prepared transactions: set max_prepared_transa"
        ):
            job_of(sink).start()
    finally:
        other.stop()
        postgres_server.start()


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 64, "\ud800"])
def test_name_that_postgresql_cannot_have_is_refused_as_the_job_is_built(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        PostgresSink(options("postgresql://u@h/d"), name, ["n"])


def test_column_that_is_named_twice_is_refused_as_the_job_is_built() -> None:
    with pytest.raises(ValueError, match="a name stands there twice"):
        PostgresSink(options("postgresql://u@h/d"), "t", ["n", "n"])
