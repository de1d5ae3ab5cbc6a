"""A value that several processes read and replace as a whole."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from onceproof.harness.systems.process.board_state import BoardState, board_file
from onceproof.harness.systems.process.locked_file import LockedFile
from tests.patience import PATIENCE_SECONDS

COUNT = """
import sys
from onceproof.harness.systems.process.board_state import board_file
file = board_file(sys.argv[1])
for _ in range(50):
    with file.held() as state:
        state.struck += 1
"""


def test_concurrent_changes_of_two_processes_are_all_kept(tmp_path):
    path = str(tmp_path / "board")
    workers = [subprocess.Popen([sys.executable, "-c", COUNT, path]) for _ in range(2)]
    assert [worker.wait(PATIENCE_SECONDS) for worker in workers] == [0, 0]
    assert board_file(path).read().struck == 100


class Unknown(msgspec.Struct):
    """A class that cannot be decoded."""

    value: Nothing = 0  # noqa: F821


def test_class_of_the_value_is_made_ready_before_any_thread_reads(tmp_path):
    with pytest.raises(NameError, match="Nothing"):
        LockedFile(tmp_path / "board", Unknown)


def test_missing_file_reads_as_empty_and_a_failed_change_is_not_written(tmp_path):
    file = board_file(tmp_path / "board")
    assert file.read() == BoardState()
    with pytest.raises(ZeroDivisionError), file.held() as state:
        state.struck = 1 // 0
    with file.held() as state:
        state.deaths = 2
    assert file.read() == BoardState(deaths=2)
