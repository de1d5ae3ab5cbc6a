"""Which tables of a database a snapshot counts as stored: those that outlive the checkpoints under way."""

from __future__ import annotations

import pytest

from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.state.rocksdb.backend import RocksDBStateBackend
from onceproof.engine.types import Types
from tests.engine.state.conftest import MAX_PARALLELISM, Backends


class Checkpoints:
    """A database with one key, and its snapshots."""

    def __init__(self, folder):
        self.backends = Backends()
        self.backend = RocksDBStateBackend(
            MAX_PARALLELISM,
            (0, MAX_PARALLELISM - 1),
            Types.STRING(),
            lambda: 0,
            StateBackendSettings("rocksdb", str(folder), incremental=True),
        )
        self.state = self.backend.value_state(ValueStateDescriptor("count", Types.LONG()))
        self.backend.current_key = "a"

    def taken(self, checkpoint_id):
        snapshot = self.backend.snapshot(checkpoint_id)
        self.backends.store(snapshot)
        return snapshot

    def known(self, checkpoint_id):
        return set(self.taken(checkpoint_id).known)


@pytest.fixture
def checkpoints(tmp_path):
    made = Checkpoints(tmp_path)
    yield made
    made.backend.close()


def test_files_of_a_completed_checkpoint_are_known(checkpoints):
    checkpoints.state.update(1)
    assert checkpoints.known(1) == set()
    checkpoints.backend.notify_checkpoint_complete(1)
    checkpoints.state.update(2)
    assert len(checkpoints.known(2)) == 1


def test_no_file_is_known_while_an_empty_snapshot_is_pending(checkpoints):
    """It names no file; once it is complete, what was stored before it goes."""
    checkpoints.state.update(1)
    checkpoints.taken(1)
    checkpoints.state.clear()
    checkpoints.taken(2)
    checkpoints.backend.notify_checkpoint_complete(1)
    checkpoints.state.update(3)
    assert checkpoints.known(3) == set()


def test_a_snapshot_of_nothing_that_was_aborted_changes_nothing(checkpoints):
    checkpoints.state.update(1)
    checkpoints.taken(1)
    checkpoints.state.clear()
    checkpoints.taken(2)
    checkpoints.backend.notify_checkpoint_complete(1)
    checkpoints.backend.notify_checkpoint_aborted(2)
    checkpoints.state.update(3)
    assert len(checkpoints.known(3)) == 1
