"""The recorded file calls of SQLite: a replay of them gives the files that SQLite has."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from onceproof.engine.connectors.sqlite import SqliteUpsertSink
from onceproof.harness.systems.volatile_disk import PowerCut
from tests.harness.systems.disk.recorded_calls import Call, CallLog, Replay, read_log
from tests.harness.systems.disk.sqlite_calls import recorded_sqlite, sqlite_library, unsynced_sqlite
from tests.lone_context import lone_context
from tests.patience import PATIENCE_SECONDS

WRITER = """
import sys
from onceproof.engine.connectors.sqlite import SqliteUpsertSink
from tests.harness.systems.disk.recorded_calls import CallLog
from tests.harness.systems.disk.sqlite_calls import recorded_sqlite
from tests.lone_context import lone_context
folder, dies_after = sys.argv[1], int(sys.argv[2])
with recorded_sqlite(CallLog(folder + "/log", folder + "/disk", dies_after)):
    function = SqliteUpsertSink(folder + "/disk/t.db", "t", ["k", "v"]).create_function()
    function.open(lone_context())
    function.upsert({("a",): ("a", 1)})
    function.close()
"""
"""A process that commits one row, and kills itself after some call."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an empty disk in it."""
    (tmp_path / "disk").mkdir()
    return tmp_path


def _log(folder: Path) -> CallLog:
    return CallLog(str(folder / "log"), str(folder / "disk"))


def _replayed(folder: Path) -> Replay:
    replay = Replay(calls := read_log(str(folder / "log")), str(folder / "disk"))
    replay.run_to(len(calls))
    return replay


def _files(folder: Path) -> dict[str, bytes]:
    """Return the files of a database but its shared memory, which is not recorded."""
    return {path.name: path.read_bytes() for path in (folder / "disk").iterdir() if path.suffix != ".db-shm"}


@pytest.mark.parametrize("mode", ["WAL", "DELETE", "TRUNCATE", "PERSIST"])
def test_replay_gives_the_files_that_sqlite_has(folder: Path, mode: str) -> None:
    random = Random(5)
    with recorded_sqlite(_log(folder)):
        connection = sqlite3.connect(folder / "disk" / "a.db", isolation_level=None)
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("PRAGMA wal_autocheckpoint = 5")
        connection.execute("CREATE TABLE t (k PRIMARY KEY, v)")
        for number in range(30):
            row = (random.randrange(9), random.randbytes(random.randrange(9000)))
            connection.execute("INSERT OR REPLACE INTO t VALUES (?, ?)", row)
            if number % 10 == 9:
                connection.execute("VACUUM")
            assert _replayed(folder).disk.live() == _files(folder)
        connection.close()
    assert _replayed(folder).disk.live() == _files(folder)


def test_connection_beside_a_recording_is_not_recorded(folder: Path) -> None:
    with recorded_sqlite(_log(folder)), closing(sqlite3.connect(folder / "elsewhere.db")) as connection:
        connection.execute("CREATE TABLE t (k)")
    with closing(sqlite3.connect(folder / "disk" / "a.db")) as connection:
        connection.execute("CREATE TABLE t (k)")
    assert [call.method for call in read_log(str(folder / "log"))] == ["start"]


def test_sqlite_is_as_before_after_a_recording(folder: Path) -> None:
    library = sqlite_library()
    before = library.sqlite3_vfs_find(None)
    for _ in range(3):
        with recorded_sqlite(_log(folder)):
            assert library.sqlite3_vfs_find(None) != before
            assert library.sqlite3_vfs_find(b"onceproof-recorded") is not None
        assert library.sqlite3_vfs_find(None) == before
        assert library.sqlite3_vfs_find(b"onceproof-recorded") is None


def test_connection_may_outlive_its_recording(folder: Path) -> None:
    with recorded_sqlite(_log(folder)):
        connection = sqlite3.connect(folder / "disk" / "a.db", isolation_level=None)
    connection.execute("CREATE TABLE t (k)")
    connection.close()
    assert _replayed(folder).disk.live() == _files(folder)


def test_databases_are_whole_without_any_sync_if_the_power_stays_on(folder: Path) -> None:
    path = folder / "disk" / "a.db"
    with unsynced_sqlite(), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (k)")
        connection.execute("INSERT INTO t VALUES (1)")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == [(1,)]


def test_log_that_cannot_be_written_is_an_error_of_sqlite(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _log(folder)
    with recorded_sqlite(log):
        connection = sqlite3.connect(folder / "disk" / "a.db", isolation_level=None)

        def full(call: Call) -> None:
            raise OSError(28, os.strerror(28))

        monkeypatch.setattr(log, "write", full)
        with pytest.raises(sqlite3.OperationalError, match="I/O error"):
            connection.execute("CREATE TABLE t (k)")
        monkeypatch.undo()
        connection.close()


@pytest.mark.parametrize("syncs_what_it_finds", [True, False])
def test_row_that_a_killed_writer_left_is_durable_once_the_sink_is_open(
    folder: Path, syncs_what_it_finds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_its_sync = _calls_until_the_commit_is_synced(folder) - 1
    _run_writer(folder, before_its_sync)
    if not syncs_what_it_finds:
        monkeypatch.setattr(sqlite3, "connect", _without_checkpoints(sqlite3.connect))
    with recorded_sqlite(_log(folder)):
        function = SqliteUpsertSink(str(folder / "disk" / "t.db"), "t", ["k", "v"]).create_function()
        function.open(lone_context())
        replay = _replayed(folder)
        function.close()
    assert replay.processes == 2
    (folder / "after").mkdir()
    for name, content in replay.disk.after(PowerCut(Random(1), names=0, data=0)).items():
        (folder / "after" / name).write_bytes(content or b"")
    with closing(sqlite3.connect(folder / "after" / "t.db")) as connection:
        found = connection.execute("SELECT * FROM t").fetchall()
    assert found == ([("a", 1)] if syncs_what_it_finds else [])


def _calls_until_the_commit_is_synced(folder: Path) -> int:
    beside = folder / "beside"
    (beside / "disk").mkdir(parents=True)
    assert _run_writer(beside, 0) == 0
    calls = read_log(str(beside / "log"))
    synced = [number for number, call in enumerate(calls, 1) if "write-ahead log" in call.other]
    copied = next(
        number for number in synced if calls[number].method == "write_at" and calls[number].flags == 0
    )
    return max(number for number in synced if number < copied)


def _run_writer(folder: Path, dies_after: int) -> int:
    command = [sys.executable, "-c", WRITER, str(folder), str(dies_after)]
    return subprocess.run(command, check=False, timeout=PATIENCE_SECONDS).returncode


def _without_checkpoints(connect):
    class Connection(sqlite3.Connection):
        def execute(self, sql, *parameters):
            sql = "SELECT 1" if "wal_checkpoint" in sql else sql
            return super().execute(sql, *parameters)

    return lambda *arguments, **options: connect(*arguments, factory=Connection, **options)
