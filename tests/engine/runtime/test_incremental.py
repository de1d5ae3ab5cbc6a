"""Incremental checkpoints of databases on the local runtime: stored, restored, rescaled and deleted files."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.metadata import decode_metadata
from onceproof.engine.checkpoint.verification import damages_of
from onceproof.engine.protocol_points import COMMITTING, COMPLETED, ELEMENT
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.recovery import FINISHED
from onceproof.engine.runtime.storage import LocalCheckpointStorage

INCREMENTAL = {"state__backend__type": "rocksdb", "execution__checkpointing__incremental": True}


def shared_of(job):
    """By checkpoint, the shared files that its metadata name."""
    found = {}
    for path in job.directory.glob("chk-*/_metadata"):
        metadata = decode_metadata(path.read_bytes(), str(path))
        found[metadata.checkpoint_id] = {
            file.path
            for operator in metadata.operators
            for subtask in operator.subtasks
            if subtask.handle is not None
            for file in subtask.handle.files
        }
    return found


def on_disk(job):
    return {path for path in job.files() if path.startswith("shared/")}


def test_each_checkpoint_names_files_of_those_before(job):
    job.stopped(COMMITTING, 9, execution__checkpointing__num_retained=5, **INCREMENTAL)
    shared = shared_of(job)
    first, *others = sorted(shared)
    assert all(shared[first] & shared[other] for other in others)
    assert all(shared[number] - shared[number - 1] for number in others)
    assert set().union(*shared.values()) == on_disk(job)


def test_only_files_of_retained_checkpoints_are_kept(job):
    job.stopped(COMPLETED, 4, **INCREMENTAL)
    # The process died at the completion of the fourth: what it was about to delete the next one deletes.
    job.stopped(ELEMENT, 1, **INCREMENTAL)
    (shared,) = shared_of(job).values()
    assert shared == on_disk(job)


FULL = {"state__backend__type": "rocksdb"}


@pytest.mark.parametrize(
    ("parallelism", "after"), [(1, INCREMENTAL), (2, INCREMENTAL), (3, INCREMENTAL), (2, FULL), (3, {})]
)
def test_any_parallelism_and_either_backend_restore_one_checkpoint(job, parallelism, after):
    job.stopped(COMMITTING, 7, **INCREMENTAL)
    result = execute(job.graph(parallelism=parallelism, **after))
    assert 0 < result.records_read < 400
    assert job.rows() == job.counts
    assert job.left_behind() == ([FINISHED, "incarnation-2"], [])


def test_an_incremental_checkpoint_follows_full_ones(job):
    full = {**FULL, "execution__checkpointing__num_retained": 9}
    job.stopped(COMMITTING, 5, **full)
    assert on_disk(job) == set()
    job.stopped(COMMITTING, 5, **full, execution__checkpointing__incremental=True)
    # What full ones have stored is theirs: the first incremental one stores everything anew.
    newest = max(shared_of(job))
    assert shared_of(job)[newest]
    assert all(path.startswith("shared/") for path in shared_of(job)[newest])
    execute(job.graph(**full))
    assert job.rows() == job.counts
    assert job.left_behind()[0] == [FINISHED, "incarnation-3"]


@pytest.mark.parametrize("claim_mode", ["NO_CLAIM", "LEGACY", "CLAIM"])
def test_restored_checkpoint_keeps_its_shared_files_unless_claimed(job, claim_mode):
    job.stopped(COMMITTING, 7, **INCREMENTAL)
    begun = max(job.directory.glob("chk-*"))
    metadata = decode_metadata((begun / "_metadata").read_bytes(), "")
    options = {
        **INCREMENTAL,
        "execution__state_recovery__path": str(begun),
        "execution__state_recovery__claim_mode": claim_mode,
    }
    # Stopped in the middle, and started again by the same command.
    job.stopped(COMMITTING, 5, **options)
    shared = shared_of(job)
    newest = max(shared)
    assert newest > metadata.checkpoint_id
    if claim_mode == "CLAIM":
        assert not begun.exists()
        assert shared.keys() == {newest}
    else:
        storage = LocalCheckpointStorage(job.directory)
        assert list(damages_of(metadata, storage.read)) == []
        assert shared[newest].isdisjoint(shared[metadata.checkpoint_id])
    execute(job.graph(**options))
    assert job.rows() == job.counts
    if claim_mode != "CLAIM":
        assert list(damages_of(metadata, LocalCheckpointStorage(job.directory).read)) == []


def test_unreferenced_shared_files_of_dead_processes_are_deleted(job):
    job.stopped(COMMITTING, 5, **INCREMENTAL)
    stray = job.directory / "shared" / "chk-4.of-a-dead-one.sst"
    stray.write_bytes(b"half a table")
    others = job.directory / "shared" / "notes.txt"
    others.write_text("not ours")
    job.stopped(ELEMENT, 1, **INCREMENTAL)
    assert not stray.exists()
    assert others.exists()


def test_a_task_that_dies_leaves_nothing_shared_for_ever(job):
    graph = job.graph(**INCREMENTAL)
    result = execute(graph, job.raising(ELEMENT, RuntimeError("planned"), 60))
    assert result.attempts == 2
    assert job.rows() == job.counts
    assert job.left_behind() == ([FINISHED, "incarnation-1"], [])
