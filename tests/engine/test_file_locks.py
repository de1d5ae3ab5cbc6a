"""Locks that end with their process, although processes that it forked live on."""

import os
import signal
import subprocess
import sys
from textwrap import dedent

import pytest

from onceproof.engine.runtime.request_folder import is_running
from onceproof.engine.runtime.storage import LocalCheckpointStorage, StorageError

HOLDERS = {
    "checkpoint folder": """
        from onceproof.engine.runtime.storage import LocalCheckpointStorage
        holding = LocalCheckpointStorage(folder).exclusive()
        holding.__enter__()
    """,
    "working folders": """
        from onceproof.engine.state.rocksdb.working_folders import WorkingFolders
        WorkingFolders.below(folder).make()
    """,
}


@pytest.fixture
def forked_holder(tmp_path):
    """Start a process that locks something and forks; kill the parent, and return the living child's id."""
    children, parents = [], []

    def start(what):
        hold = dedent(HOLDERS[what])
        code = f"import os, sys, time\nfolder = sys.argv[1]\n{hold}\n" + dedent(
            """
            child = os.fork()
            if child == 0:
                print("ready", os.getpid(), flush=True)
                time.sleep(600)
                os._exit(0)
            time.sleep(600)
            """
        )
        parent = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        parents.append(parent)
        child = int(parent.stdout.readline().split()[1])
        children.append(child)
        return parent, child

    yield start
    for child in children:
        os.kill(child, signal.SIGKILL)
    # One lives on where a test has failed before it could kill it.
    for parent in parents:
        kill(parent)


def kill(process):
    process.kill()
    process.wait()
    process.stdout.close()


def test_folder_is_free_once_its_process_is_killed_although_a_fork_lives(tmp_path, forked_holder):
    parent, _ = forked_holder("checkpoint folder")
    storage = LocalCheckpointStorage(tmp_path)
    assert is_running(tmp_path), "the child has closed its copy, and the parent holds the lock"
    with pytest.raises(StorageError, match="is in use"), storage.exclusive():
        pass
    kill(parent)
    with storage.exclusive():
        assert is_running(tmp_path)
    assert not is_running(tmp_path)


def test_working_folders_of_a_killed_process_are_swept_although_a_fork_lives(tmp_path, forked_holder):
    pytest.importorskip("rocksdict")
    from onceproof.engine.state.rocksdb.working_folders import WorkingFolders

    parent, _ = forked_holder("working folders")
    [abandoned] = list(tmp_path.iterdir())
    kill(parent)
    own = WorkingFolders(str(tmp_path))
    assert not abandoned.exists()
    own.close()
