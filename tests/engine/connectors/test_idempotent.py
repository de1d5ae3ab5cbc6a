"""Idempotent sinks: the buffer is written before each snapshot, and repeated writes change nothing."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from onceproof.engine import SqliteUpsertSink, StreamExecutionEnvironment, UpsertSinkFunction
from onceproof.engine.connectors.sqlite import UnusableDatabase, UnwritableRow, WrongTable
from onceproof.engine.connectors.upsert_fence import (
    FENCE,
    LostRows,
    LostToLaterAttempt,
    LostToLaterProcess,
)
from onceproof.engine.runtime.job_result import JobExecutionFailed
from tests.lone_context import lone_context


class Table(UpsertSinkFunction):
    """Writes into a dict, and records each write."""

    def __init__(self, rows, writings, buffered_keys=3):
        super().__init__(buffered_keys)
        self.rows = rows
        self.writings = writings

    def key_of(self, value):
        return value[0]

    def upsert(self, rows):
        self.writings.append(dict(rows))
        self.rows.update(rows)


@pytest.fixture
def rows():
    return {}


@pytest.fixture
def writings():
    return []


@pytest.fixture
def job(sink_job, rows, writings):
    return sink_job(lambda: Table(rows, writings))


def write(job, *values):
    for value in values:
        job.functions[0].invoke(value, None)


def test_buffer_is_written_before_the_snapshot(job, rows):
    job.start()
    write(job, ("a", 1), ("b", 1))
    assert rows == {}
    job.snapshot(1)
    assert rows == {"a": ("a", 1), "b": ("b", 1)}


def test_of_several_values_for_a_key_the_last_one_is_written(job, writings):
    job.start()
    write(job, ("a", 1), ("b", 1), ("a", 2))
    job.snapshot(1)
    job.snapshot(2)
    assert writings == [{"a": ("a", 2), "b": ("b", 1)}]


def test_full_buffer_is_written(job, writings):
    job.start()
    write(job, ("a", 1), ("b", 1), ("a", 2), ("c", 1), ("d", 1))
    assert writings == [{"a": ("a", 2), "b": ("b", 1), "c": ("c", 1)}]


def test_end_of_the_input_writes_the_rest(job, rows):
    job.start()
    write(job, ("a", 1))
    job.functions[0].finish()
    assert rows == {"a": ("a", 1)}


def test_restored_job_that_repeats_itself_comes_to_the_same(job, rows):
    job.start()
    write(job, ("a", 1))
    job.snapshot(1)
    write(job, ("a", 2), ("b", 1), ("c", 1))
    assert rows["a"] == ("a", 2)
    job.start(restored=1)
    write(job, ("a", 2), ("b", 1), ("c", 1))
    job.functions[0].finish()
    assert rows == {"a": ("a", 2), "b": ("b", 1), "c": ("c", 1)}


def test_buffer_of_nothing_is_refused(rows, writings):
    with pytest.raises(ValueError, match="0 keys to buffer: at least 1"):
        Table(rows, writings, 0)


# SQLite.


def table(path, name="totals"):
    with sqlite3.connect(path) as connection:
        found = sorted(connection.execute(f'SELECT * FROM "{name}"'))
    connection.close()
    return found


def test_table_has_the_last_row_of_each_key_after_a_crash_too(sink_job, tmp_path):
    path = tmp_path / "totals.db"
    job = sink_job(SqliteUpsertSink(str(path), "totals", ["shop", "day", "cents"], keys=2).create_function)
    job.start(parallelism=2)
    write(job, ("north", 1, 10), ("north", 2, 5), ("north", 1, 12))
    job.functions[1].invoke(("south", 1, 7), None)
    job.snapshot(1)
    write(job, ("north", 1, 99))
    for function in job.functions:
        function.close()
    job.start(restored=1)
    write(job, ("north", 1, 15))
    job.functions[0].finish()
    job.functions[0].close()
    assert table(path) == [("north", 1, 15), ("north", 2, 5), ("south", 1, 7)]


def sqlite_job(sink_job, path):
    return sink_job(SqliteUpsertSink(str(path), "totals", ["key", "value"], 1, 2).create_function)


def test_process_that_has_lost_the_job_changes_no_row(sink_job, tmp_path):
    path = tmp_path / "totals.db"
    job = sqlite_job(sink_job, path)
    former = job.start(parallelism=2, attempt="1.1")
    former.invoke(("a", 1), None)
    job.snapshot(1)
    job.start(restored=1, attempt="2.1")
    write(job, ("a", 9))
    job.functions[0].finish()
    former.invoke(("a", 2), None)
    with pytest.raises(LostToLaterProcess, match="process 2 of the job has taken it over, and this one is"):
        former.finish()
    with pytest.raises(LostToLaterProcess):
        job.start(restored=1, attempt="1.2")
    assert table(path) == [("a", 9)]


def test_subtask_that_the_later_process_has_no_more_changes_no_row(sink_job, tmp_path):
    path = tmp_path / "totals.db"
    job = sqlite_job(sink_job, path)
    job.start(parallelism=2, attempt="1.1")
    former = job.functions[1]
    job.start(parallelism=1, attempt="2.1")
    former.invoke(("a", 2), None)
    with pytest.raises(LostToLaterProcess):
        former.finish()
    assert table(path) == []


def test_earlier_attempt_of_the_same_process_changes_no_row(sink_job, tmp_path):
    path = tmp_path / "totals.db"
    job = sqlite_job(sink_job, path)
    job.start(parallelism=2, attempt="1.1")
    earlier = job.functions
    job.start(parallelism=1, attempt="1.2")
    for function in earlier:
        function.invoke(("a", 2), None)
        with pytest.raises(LostToLaterAttempt, match="a later attempt of the job has taken it over"):
            function.finish()
    assert table(path) == []


def test_another_job_writes_into_the_same_table(sink_job, tmp_path):
    path = tmp_path / "totals.db"
    first, second = sqlite_job(sink_job, path), sqlite_job(sink_job, path)
    second.job_id = "from a savepoint"
    first.start(attempt="7.1")
    write(first, ("a", 1))
    first.snapshot(1)
    second.checkpoints = first.checkpoints
    second.start(restored=1, attempt="1.1")
    write(second, ("a", 2), ("b", 2))
    write(first, ("c", 1))
    first.functions[0].finish()
    assert table(path) == [("a", 2), ("b", 2), ("c", 1)]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_database_without_rows_that_the_checkpoint_covers_is_refused(sink_job, tmp_path, parallelism):
    path = tmp_path / "totals.db"
    job = sqlite_job(sink_job, path)
    job.start(parallelism=2, attempt="1.1")
    job.functions[1].invoke(("a", 1), None)
    job.snapshot(1)
    job.functions[1].close()
    backup = path.with_name("backup.db")
    copy(path, backup)
    job.functions = []
    job.start(parallelism=2, restored=1, attempt="2.1")
    job.functions[1].invoke(("b", 1), None)
    # Nothing is written between this one and the next, which says the same.
    job.snapshot(2)
    job.snapshot(3)
    for function in job.functions:
        function.close()
    copy(backup, path)
    with pytest.raises(LostRows, match=r"covers transaction 2 of subtask 1 .* knows is 1: the database was"):
        job.start(parallelism=parallelism, restored=3, attempt="3.1")
    path.unlink()
    with pytest.raises(LostRows, match=r"covers transaction 1 of subtask 1 .* knows is 0: "):
        job.start(parallelism=parallelism, restored=1, attempt="3.2")


def copy(path, other):
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(other)) as target:
        source.backup(target)


def test_subtasks_that_open_a_new_file_at_once_wait_for_each_other(tmp_path):
    def opened(path):
        function = SqliteUpsertSink(path, "totals", ["key", "value"]).create_function()
        together.wait()
        function.open(lone_context())
        function.upsert({"a": ("a", 1)})
        function.close()

    together = threading.Barrier(4)
    with ThreadPoolExecutor(4) as threads:
        for number in range(50):
            path = tmp_path / f"{number}.db"
            list(threads.map(opened, [str(path)] * 4))
            assert table(path) == [("a", 1)]


def test_file_that_cannot_be_the_database_is_named_with_the_mend(tmp_path):
    (tmp_path / "notes.txt").write_text("no database, but long enough to be taken for one" * 20)
    for path, words in [
        (
            tmp_path / "nowhere" / "t.db",
            "t.db: unable to open database file: give the path of a file in a folder",
        ),
        (
            tmp_path / "notes.txt",
            "notes.txt: file is not a database: give the path of a database, or of no file",
        ),
    ]:
        function = SqliteUpsertSink(str(path), "totals", ["key", "value"]).create_function()
        with pytest.raises(UnusableDatabase, match=words):
            function.open(lone_context())
        function.close()


def test_rows_of_one_flush_become_visible_together(sink_job, tmp_path):
    path = tmp_path / "totals.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE totals (key PRIMARY KEY, value CHECK (value < 2))")
    connection.close()
    job = sink_job(SqliteUpsertSink(str(path), "totals", ["key", "value"]).create_function)
    job.start()
    write(job, ("a", 1), ("b", 2))
    with pytest.raises(UnwritableRow, match=r"totals.db: SQLite refuses a row: CHECK constraint failed"):
        job.snapshot(1)
    job.functions[0].close()
    assert table(path) == []


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("a",), r"totals.db: \('a',\) is not a row: give tuples of 2 columns"),
        (["a", 1], "is not a row: give tuples"),
        ((None, 1), r"column 'key' of the key is None in row \(None, 1\): give it a value"),
        (
            ("b", float("nan")),
            r"'value' cannot hold nan, which SQLite would store as NULL .*of row \('b', nan",
        ),
        (("b", 1 << 63), r"'value' cannot hold 9223372036854775808, an integer beyond 64 bits \(convert"),
        (("b", -(1 << 63) - 1), "an integer beyond 64 bits"),
        (("b", 10**5000), "column 'value' cannot hold a int, an integer beyond 64 bits .* of row a tuple"),
        (("b", "\udc80"), r"cannot hold '\\udc80', a text with a lone surrogate \(encode it to bytes"),
        (("\udc80", 1), "column 'key' cannot hold"),
        (("b", object()), r"cannot hold <object.*>, a object \(convert it to a number, text or bytes\)"),
        (("b", "x" * 10_000 + "\udc80\n"), "cannot hold 'xxx.*…"),
    ],
)
def test_row_that_does_not_fit_is_named(sink_job, tmp_path, row, words):
    sink = SqliteUpsertSink(str(tmp_path / "totals.db"), "totals", ["key", "value"])
    job = sink_job(sink.create_function)
    job.start()
    with pytest.raises(UnwritableRow, match=words) as caught:
        write(job, row)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("sink into table 'totals' of ")
    job.functions[0].close()


def test_values_that_sqlite_holds_are_read_back(sink_job, tmp_path):
    path = tmp_path / "totals.db"
    values = [None, True, -(1 << 63), (1 << 63) - 1, 1.5, float("inf"), "a\0ü", b"\0\xff"]
    job = sink_job(SqliteUpsertSink(str(path), "totals", ["key", "value"]).create_function)
    job.start()
    write(job, *enumerate(values))
    job.snapshot(1)
    job.functions[0].close()
    assert [value for _, value in table(path)] == values


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("(key PRIMARY KEY, amount)", "the table has no column 'value', but key, amount: give another table"),
        ("(key, value)", "the table has no primary key or unique index over key: give another table"),
        ("(key, value, PRIMARY KEY (key, value))", "no primary key or unique index over key"),
    ],
)
def test_table_that_the_sink_cannot_write_is_refused(sink_job, tmp_path, made, words):
    path = tmp_path / "totals.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE totals {made}")
    connection.close()
    job = sink_job(SqliteUpsertSink(str(path), "totals", ["key", "value"]).create_function)
    with pytest.raises(WrongTable, match=words):
        job.start()
    job.functions[0].close()


@pytest.mark.parametrize("made", ["(KEY, Value, more, UNIQUE (KEY))", "(key PRIMARY KEY, value)"])
def test_table_of_the_user_with_such_a_key_is_written(sink_job, tmp_path, made):
    path = tmp_path / "totals.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE totals {made}")
    connection.close()
    job = sink_job(SqliteUpsertSink(str(path), "totals", ["key", "value"]).create_function)
    job.start()
    write(job, ("a", 1))
    job.snapshot(1)
    write(job, ("a", 2))
    job.snapshot(2)
    job.functions[0].close()
    assert [row[:2] for row in table(path)] == [("a", 2)]


def test_table_and_column_names_may_hold_any_character(sink_job, tmp_path):
    path, name = tmp_path / "totals.db", 'x"; DROP TABLE "y'
    job = sink_job(SqliteUpsertSink(str(path), name, ["select", "a b"]).create_function)
    job.start()
    write(job, ("a", 1))
    job.functions[0].finish()
    job.functions[0].close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [
            (name,),
            (FENCE,),
        ]
    connection.close()


@pytest.mark.parametrize(
    ("columns", "keys", "words"),
    [
        (["a"], 0, "0 key columns of 1"),
        (["a"], 2, "2 key columns of 1"),
        (["a", "a"], 1, "stands there twice"),
    ],
)
def test_table_that_cannot_be_is_refused(columns, keys, words):
    with pytest.raises(ValueError, match=words):
        SqliteUpsertSink("x.db", "t", columns, keys)


def test_job_writes_running_totals(tmp_path):
    path = tmp_path / "totals.db"
    env = StreamExecutionEnvironment.get_execution_environment()
    env.get_configuration().set_integer("execution.checkpointing.interval-records", 10)
    values = [(f"k{number % 5}", 1) for number in range(50)]
    totals = env.from_collection(values).key_by(lambda value: value[0]).sum(1)
    sink = SqliteUpsertSink(str(path), "totals", ["key", "total"])
    totals.key_by(lambda row: row[0]).sink_to(sink).set_parallelism(2)
    env.execute("totals")
    assert table(path) == [(f"k{number}", 10) for number in range(5)]


def test_row_that_does_not_fit_ends_the_job_at_once(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.get_configuration().set_integer("execution.checkpointing.interval-records", 10)
    env.from_collection(["a"]).sink_to(SqliteUpsertSink(str(tmp_path / "t.db"), "t", ["key", "value"]))
    with pytest.raises(JobExecutionFailed, match="'a' is not a row: give tuples of 2 columns"):
        env.execute("totals")


def test_sqlite_sink_syncs_every_commit_whatever_the_default_of_the_library(tmp_path, monkeypatch):
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def with_another_default(*arguments, **options):
        opened.append(connect(*arguments, **options))
        opened[-1].execute("PRAGMA synchronous = OFF")
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", with_another_default)
    function = SqliteUpsertSink(str(tmp_path / "t.db"), "t", ["k", "v"]).create_function()
    function.open(lone_context())
    function.upsert({("a",): ("a", 1)})
    full = 2
    assert opened[0].execute("PRAGMA synchronous").fetchone() == (full,)
    assert opened[0].execute("PRAGMA journal_mode").fetchone() == ("wal",)
    function.close()


NAMES = (
    'a"b',
    "a'b",
    "a; DROP TABLE kept",
    "select",
    "-- x",
    "a b",
    "[a]",
    "`a`",
    "ü",
    "\U0001f600",
    "a\nb",
    "1",
    "?",
)


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_table_and_its_columns_is_quoted(tmp_path, name):
    path = str(tmp_path / "totals.db")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE kept (value)")
    for _ in range(2):
        function = SqliteUpsertSink(path, name, [name, f"{name} value"]).create_function()
        function.open(lone_context())
        function.upsert({("k",): ("k", 1)})
        function.close()
    found = dict(read_all(path))
    assert (found["kept"], found[name]) == ([], [("k", 1)])
    assert set(found) == {"kept", name, FENCE}


def read_all(path):
    connection = sqlite3.connect(path)
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        quoted = name.replace('"', '""')
        yield name, connection.execute(f'SELECT * FROM "{quoted}"').fetchall()
    connection.close()


@pytest.mark.parametrize(
    ("path", "table", "columns", "said"),
    [
        ("t.db", "a\0b", ["key"], "cannot be the name of a table"),
        ("t.db", "", ["key"], "cannot be the name of a table"),
        ("t.db", "\ud800", ["key"], "cannot be the name of a table"),
        ("t.db", "totals", ["key", "\udfff"], "cannot be the name of a table or a column"),
        ("t.db", "SQLite_totals", ["key"], "SQLite keeps the names that begin with sqlite_"),
        ("t.db", "totals", ["key", "KEY"], "a name stands there twice"),
        ("t\0.db", "totals", ["key"], "cannot be the path of a database"),
    ],
)
def test_a_name_that_sqlite_cannot_have_is_refused_where_it_is_given(path, table, columns, said):
    with pytest.raises(ValueError, match=said) as refused:
        SqliteUpsertSink(path, table, columns)
    assert "\n" not in str(refused.value)
