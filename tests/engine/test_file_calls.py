"""Files of the engine in a process whose standard streams are closed, and syncs that are done together."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from onceproof.engine.durable_files import sync_folder, write_file
from onceproof.engine.file_calls import SYSTEM_CALLS, joint_syncs
from tests.patience import PATIENCE_SECONDS

PROGRAM = """
import os, sys
from contextlib import suppress
from onceproof.engine.file_calls import SystemFileCalls
closed = [int(each) for each in sys.argv[2]]
for each in closed:
    os.close(each)
calls = SystemFileCalls()
descriptor = calls.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for each in (1, 2):
    with suppress(OSError):
        os.write(each, b"a line of a log")
calls.write(descriptor, b"rows")
calls.close(descriptor)
os._exit(0 if descriptor > 2 else 1)
"""


@pytest.mark.parametrize("closed", ["0", "1", "2", "12", "012"])
def test_what_is_printed_with_closed_streams_gets_into_no_file(tmp_path, closed):
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "part"), closed], check=True, timeout=PATIENCE_SECONDS
    )
    assert (tmp_path / "part").read_bytes() == b"rows"


@pytest.fixture
def synced(monkeypatch):
    """The names of what the operating system has synced; it fails for ``broken``."""
    names = []

    def fsync(descriptor):
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        if name == "broken":
            raise OSError(5, "Input/output error")
        names.append(name)

    monkeypatch.setattr(os, "fsync", fsync)
    return names


def written(folder, *names):
    """Write files durably, as the subtasks of a task do."""
    for name in names:
        write_file(SYSTEM_CALLS, str(folder / name), b"rows")
        sync_folder(SYSTEM_CALLS, str(folder))


def test_joint_syncs_are_done_at_the_end_and_once_for_a_folder(tmp_path, synced):
    with joint_syncs():
        written(tmp_path, "a", "b", "c")
        assert synced == []
    assert sorted(synced) == sorted(["a", "b", "c", tmp_path.name])
    written(tmp_path, "d")
    assert synced[4:] == ["d", tmp_path.name]


def test_joint_syncs_are_done_before_a_deletion_and_before_contents_are_renamed(tmp_path, synced):
    with joint_syncs():
        written(tmp_path, "a")
        SYSTEM_CALLS.rename(str(tmp_path / "a"), str(tmp_path / "b"))
        assert sorted(synced) == sorted(["a", tmp_path.name])
        sync_folder(SYSTEM_CALLS, str(tmp_path))
        SYSTEM_CALLS.rename(str(tmp_path / "b"), str(tmp_path / "c"))
        assert len(synced) == 2, "a folder waits through a renaming"
        SYSTEM_CALLS.unlink(str(tmp_path / "c"))
        assert synced[2:] == [tmp_path.name]


def written_together(folder, *names):
    """Write the content of files durably; None ends it by an error."""
    with joint_syncs():
        for name in names:
            write_file(SYSTEM_CALLS, str(folder / name), b"rows")


def test_joint_syncs_are_given_up_by_an_error(tmp_path, synced):
    before = os.listdir("/proc/self/fd")
    with pytest.raises(TypeError):
        written_together(tmp_path, "a", None)
    assert synced == []
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("others", [(), ("a", "b")])
def test_a_joint_sync_that_fails_names_its_file_and_leaves_nothing_open(tmp_path, synced, others):
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="Input/output error") as failed:
        written_together(tmp_path, *others, "broken")
    assert failed.value.filename == str(tmp_path / "broken")
    assert sorted(synced) == sorted(others)
    assert os.listdir("/proc/self/fd") == before


def test_more_files_than_may_wait_are_synced_before_the_end(tmp_path, synced):
    names = [f"part-{number}" for number in range(100)]
    with joint_syncs():
        written(tmp_path, *names)
        assert len(synced) == 64
    assert set(synced) == {*names, tmp_path.name}
