"""Databases and the folders they live in."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import resource
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.state.rocksdb.database import BLOCK_CACHES, Database
from onceproof.engine.state.rocksdb.databases import DatabaseUnreadable
from onceproof.engine.state.rocksdb.working_folders import WorkingFolders, remove_working_folders

LEAVES_A_DATABASE = """
import os, signal, sys
from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.state.rocksdb.database import Database
database = Database.fresh(StateBackendSettings("rocksdb", sys.argv[1]))
database.put(b"a", b"1")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """A folder for databases; what this process has below it is gone in the end."""
    yield tmp_path / "databases"
    remove_working_folders()


@pytest.fixture
def settings(base: Path) -> StateBackendSettings:
    return StateBackendSettings("rocksdb", str(base))


def roots(base: Path) -> list[Path]:
    return sorted(base.iterdir())


def test_folders_of_a_killed_process_are_removed_by_the_next(
    base: Path, settings: StateBackendSettings
) -> None:
    died = subprocess.run([sys.executable, "-c", LEAVES_A_DATABASE, str(base)], check=False)
    assert died.returncode == -signal.SIGKILL
    [left] = roots(base)
    database = Database.fresh(settings)
    assert left not in roots(base)
    database.close()


def test_folders_of_a_process_that_lives_stay(base: Path) -> None:
    WorkingFolders.below(str(base))
    [mine] = roots(base)
    program = (
        "import sys; from onceproof.engine.state.rocksdb.working_folders import WorkingFolders;"
        " WorkingFolders(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", program, str(base)], check=True)
    assert roots(base) == [mine]


def test_folders_that_are_just_being_made_are_not_taken_for_abandoned(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    others: list[WorkingFolders] = []

    def lock_after_another_process_has_looked(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        others.append(WorkingFolders(str(base)))
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock_after_another_process_has_looked)
    folders = WorkingFolders.below(str(base))
    assert os.path.isdir(folders.make().path)
    others[0].close()


def test_a_closed_database_leaves_nothing(base: Path, settings: StateBackendSettings) -> None:
    database = Database.fresh(settings)
    database.put(b"a", b"1")
    [root] = roots(base)
    database.close()
    assert os.listdir(root) == ["lock"]


def test_process_without_finalizers_removes_its_folders_itself(
    base: Path, settings: StateBackendSettings
) -> None:
    Database.fresh(settings).close()
    remove_working_folders()
    assert roots(base) == []
    # It may begin again.
    Database.fresh(settings).close()
    assert len(roots(base)) == 1


def test_block_cache_ends_with_the_last_database(base: Path) -> None:
    """It would fill up with the blocks of dead attempts, 28 kB or so of each."""
    size = 1_234_567
    settings = StateBackendSettings("rocksdb", str(base), size)
    one, other = Database.fresh(settings), Database.fresh(settings)
    shared = weakref.ref(BLOCK_CACHES[size])
    one.close()
    assert Database.fresh(settings)
    assert shared() is BLOCK_CACHES[size]
    with pytest.raises(DatabaseUnreadable):
        Database.of_files([("CURRENT", b"")], settings)
    other.close()
    gc.collect()
    assert shared() is None
    assert size not in BLOCK_CACHES


def test_scan_ends_with_its_prefix(settings: StateBackendSettings) -> None:
    database = Database.fresh(settings)
    database.write((key, b"") for key in (b"a", b"ab", b"b", b"b\xff", b"b\xff\xff", b"c"))
    assert [key for key, _ in database.scan(b"b")] == [b"b", b"b\xff", b"b\xff\xff"]
    assert [key for key, _ in database.scan_range(b"ab", b"b\xff")] == [b"ab", b"b"]
    database.delete_range(b"ab", b"c")
    assert [key for key, _ in database.scan(b"")] == [b"a", b"c"]
    database.close()


def test_checkpoint_does_not_see_later_writes(settings: StateBackendSettings) -> None:
    database = Database.fresh(settings)
    database.put(b"a", b"1")
    taken = database.checkpoint()
    database.put(b"a", b"2")
    database.close()
    files = [(name, Path(taken.path, name).read_bytes()) for name in taken.tables]
    again = Database.of_files([*files, *taken.small.items()], settings)
    assert again.get(b"a") == b"1"
    again.close()


def test_database_without_a_file_is_an_error_of_one_line(settings: StateBackendSettings) -> None:
    database = Database.fresh(settings)
    database.put(b"a", b"1")
    taken = database.checkpoint()
    database.close()
    with pytest.raises(DatabaseUnreadable) as refused:
        Database.of_files(taken.small.items(), settings, read_only=True)
    assert taken.tables[0] in str(refused.value)
    assert "\n" not in str(refused.value)


def test_too_many_open_files_are_no_damage_of_a_database(settings: StateBackendSettings) -> None:
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    Database.fresh(settings).close()
    gc.collect()
    taken: list[int] = []
    try:
        # Numbers below the largest may be free; one of all stays so.
        highest = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, usual[1]))
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        os.close(taken.pop())
        with pytest.raises(OSError, match="Too many open files") as refused:
            Database.fresh(settings)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        for each in taken:
            os.close(each)
    assert refused.value.errno == errno.EMFILE
    Database.fresh(settings).close()
