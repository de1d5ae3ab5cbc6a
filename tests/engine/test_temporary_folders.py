"""Temporary folders of dead processes are removed, and no others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onceproof.engine.file_locks import release_lock
from onceproof.engine.temporary_folders import MARK, mark_as_owned, remove_abandoned

PREFIX = "thing-"

OWNER = """
import os, sys
from onceproof.engine.temporary_folders import mark_as_owned

mark_as_owned(sys.argv[1])
print("owned", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def owned(tmp_path: Path):
    """Make a folder whose owner is another process; gives both."""
    owners = []

    def make(name: str) -> tuple[Path, subprocess.Popen[str]]:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "blocks").write_bytes(bytes(100))
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        owners.append(owner)
        assert owner.stdout.readline() == "owned\n"
        return folder, owner

    yield make
    for owner in owners:
        owner.kill()
        owner.communicate()


def kill(owner: subprocess.Popen[str]) -> None:
    owner.send_signal(signal.SIGKILL)
    owner.wait()


def test_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_stays(tmp_path, owned):
    _, owner = owned("thing-dead")
    living, _ = owned("thing-living")
    other, other_owner = owned("other-dead")
    kill(owner)
    kill(other_owner)
    remove_abandoned(str(tmp_path), PREFIX)
    assert sorted(tmp_path.iterdir()) == [other, living]
    assert (living / "blocks").exists()


def test_folder_stays_while_another_process_of_its_dead_owner_lives(tmp_path, owned):
    dead, owner = owned("thing-dead")
    kill(owner)
    remove_abandoned(str(tmp_path), PREFIX, lambda folder: folder == str(dead))
    assert dead.exists()
    remove_abandoned(str(tmp_path), PREFIX, lambda folder: False)
    assert not dead.exists()


def test_own_folder_stays_until_it_is_given_up(tmp_path):
    folder = tmp_path / "thing-mine"
    folder.mkdir()
    mark = mark_as_owned(str(folder))
    remove_abandoned(str(tmp_path), PREFIX)
    assert folder.exists()
    release_lock(mark)
    remove_abandoned(str(tmp_path), PREFIX)
    assert not folder.exists()


def test_what_only_looks_like_a_folder_of_ours_stays(tmp_path):
    """A folder that is being made, a file, a link to a marked folder, a mark that is a pipe or a link."""
    (tmp_path / "thing-unmarked").mkdir()
    (tmp_path / "thing-file").write_text("")
    target = tmp_path / "target"
    target.mkdir()
    (target / MARK).write_text("")
    (tmp_path / "thing-link").symlink_to(target)
    (tmp_path / "thing-pipe").mkdir()
    os.mkfifo(tmp_path / "thing-pipe" / MARK)
    (tmp_path / "thing-linked-mark").mkdir()
    (tmp_path / "thing-linked-mark" / MARK).symlink_to(target / MARK)
    before = sorted(tmp_path.rglob("*"))
    remove_abandoned(str(tmp_path), PREFIX)
    assert sorted(tmp_path.rglob("*")) == before
