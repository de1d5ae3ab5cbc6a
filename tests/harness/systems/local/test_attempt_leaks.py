"""Open files that dead attempts leave, beside those that the next one opens anew."""

from __future__ import annotations

import os

from onceproof.engine.messages import AttemptId
from onceproof.engine.state.rocksdb.working_folders import WorkingFolders
from onceproof.harness.systems.local.attempt_leaks import OPEN_FILE, AttemptLeaks, Left

SECOND = AttemptId("1.2")


def test_file_that_a_dead_attempt_left_open_is_a_leak(tmp_path):
    path = tmp_path / "input.csv"
    path.write_text("a")
    leaks = AttemptLeaks("outside")
    leaks.attempt_begins()
    with path.open():
        leaks.attempt_begins()
        assert leaks.search(SECOND) == [Left(OPEN_FILE, str(path))]


def test_file_that_is_open_anew_under_the_same_number_is_no_leak(tmp_path):
    path = tmp_path / "input.csv"
    path.write_text("a")
    leaks = AttemptLeaks("outside")
    leaks.attempt_begins()
    dead = path.open()
    leaks.attempt_begins()
    number = dead.fileno()
    dead.close()
    with path.open() as again:
        assert again.fileno() == number
        assert leaks.search(SECOND) == []


def test_lock_of_the_databases_of_a_process_is_no_leak_of_its_first_attempt(tmp_path):
    leaks = AttemptLeaks("outside")
    leaks.attempt_begins()
    WorkingFolders.below(str(tmp_path))
    leaks.attempt_begins()
    (lock,) = [path for path in WorkingFolders.marks() if path.startswith(str(tmp_path))]
    with open(os.path.join(os.path.dirname(lock), "forgotten"), "w") as forgotten:
        leaks.attempt_begins()
        assert leaks.search(SECOND) == [Left(OPEN_FILE, forgotten.name)]
    WorkingFolders.close_all()
