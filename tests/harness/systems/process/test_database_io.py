"""The database that real processes write to: each transaction is whole, visible once, and in commit order."""

from __future__ import annotations

import copy
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from onceproof.engine.connectors.sqlite import SqliteUpsertFunction
from onceproof.harness.systems.process.database_io import (
    Database,
    Table,
    UnknownTransaction,
    batch_name,
    database_of,
    transaction_name,
    writer_of,
)
from onceproof.harness.systems.process.visible_outputs import DatabaseOutput
from tests.lone_context import lone_context

FIRST = transaction_name(0, 3, "2.1", "us")
SECOND = transaction_name(1, 3, "2.1", "us", 4)
BATCH = batch_name("us", 1, 3, "2.1")


@pytest.fixture
def database(tmp_path):
    return Database(database_of(tmp_path / "output"))


def test_database_without_writes_is_empty_and_has_no_file(database):
    assert (database.visible(), database.prepared(), database.tables()) == ([], [], [])
    assert database.rows(FIRST) is None
    assert not database.is_visible(FIRST)
    assert not database.path.exists()


def test_prepared_rows_become_visible_in_the_order_of_their_commits(database):
    database.prepare(FIRST, [("ant", 1)])
    database.prepare(SECOND, [("bee", [1, 2])])
    assert (database.visible(), database.prepared()) == ([], [FIRST, SECOND])
    assert database.rows(SECOND) is None
    database.commit(SECOND)
    database.commit(FIRST)
    assert (database.visible(), database.prepared()) == ([SECOND, FIRST], [])
    assert database.rows(SECOND) == [("bee", (1, 2))]


def test_repeated_commit_changes_nothing_and_an_unknown_one_is_refused(database):
    database.prepare(FIRST, [("ant", 1)])
    database.prepare(SECOND, [])
    database.commit(FIRST)
    database.commit(SECOND)
    database.commit(FIRST)
    assert database.visible() == [FIRST, SECOND]
    with pytest.raises(UnknownTransaction, match=r"transaction 9/0/1\.1/us/0 was never prepared"):
        database.commit(transaction_name(9, 0, "1.1", "us"))


def test_abort_removes_prepared_rows_and_keeps_visible_ones(database):
    database.prepare(FIRST, [("ant", 1)])
    database.prepare(SECOND, [("bee", 1)])
    database.commit(FIRST)
    database.abort(FIRST)
    database.abort(SECOND)
    assert (database.visible(), database.prepared()) == ([FIRST], [])
    with pytest.raises(UnknownTransaction):
        database.commit(SECOND)


def test_concurrent_first_writers_wait_for_each_other(tmp_path):
    def prepared(name, database):
        together.wait()
        database.prepare(name, [("ant", 1)])

    names = [transaction_name(subtask, 3, "2.1", "us") for subtask in range(4)]
    together = threading.Barrier(4)
    with ThreadPoolExecutor(4) as threads:
        for number in range(50):
            database = Database(database_of(tmp_path / f"output-{number}"))
            list(threads.map(prepared, names, [database] * 4))
            assert database.prepared() == names


def test_two_transactions_never_have_one_name(database):
    database.prepare(FIRST, [("ant", 1)])
    with pytest.raises(sqlite3.IntegrityError):
        database.prepare(FIRST, [("ant", 2)])
    database.commit(FIRST)
    assert database.rows(FIRST) == [("ant", 1)]


def test_batch_is_taken_once_whichever_attempt_sends_it(database):
    assert database.take(BATCH, [("ant", 1)])
    assert not database.take(batch_name("us", 1, 3, "5.1"), [("ant", 1)])
    assert database.take(batch_name("us", 1, 30, "5.1"), [("bee", 1)])
    assert database.visible() == [BATCH, batch_name("us", 1, 30, "5.1")]
    assert DatabaseOutput(database).waits(BATCH)
    assert not DatabaseOutput(database).waits(FIRST)


def test_taken_batch_is_remembered_only_on_request(database):
    database.take(BATCH, [("ant", 1)])
    assert not database.remembers_batch("us", 1, 3)
    database.remember_batch("us", 1, 3)
    assert database.remembers_batch("us", 1, 3)
    assert not database.remembers_batch("us", 1, 30)
    with pytest.raises(UnknownTransaction, match="batch 1/30 is to be remembered, never taken"):
        database.remember_batch("us", 1, 30)


def test_transaction_and_batch_names_identify_their_writer(database):
    assert writer_of(SECOND) == writer_of(BATCH) == (1, 3, "2.1")


def test_a_table_is_read_with_its_keys(database):
    sink = SqliteUpsertFunction(str(database.path), "my counts", ("a", "b", "c"), 2, 5)
    sink.open(lone_context())
    sink.upsert({1: ("ant", 1, "x"), 2: ("ant", 2, "y")})
    sink.upsert({1: ("ant", 1, "z")})
    sink.close()
    database.take(BATCH, [("ant", 1)])
    assert database.tables() == [Table(2, [("ant", 1, "z"), ("ant", 2, "y")])]


def test_a_copy_is_the_same_database(database):
    assert copy.deepcopy(database) is database


def test_process_killed_during_a_write_leaves_nothing_written(database):
    database.prepare(FIRST, [("ant", 1)])
    dying = (
        "import os, signal, sys; from pathlib import Path\n"
        "from onceproof.harness.systems.process.database_io import Database\n"
        "with Database(Path(sys.argv[1]))._writing() as connection:\n"
        "    connection.execute('UPDATE onceproof_transactions SET place = 1')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", dying, str(database.path)], env=dict(os.environ), check=False
    )
    assert ended.returncode == -signal.SIGKILL
    assert (database.visible(), database.prepared()) == ([], [FIRST])
