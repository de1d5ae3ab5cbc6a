"""The checkpoint folder is deleted, moved or replaced under a running job, or before its next start."""

from __future__ import annotations

import shutil

import pytest

from onceproof.engine.protocol_points import COMPLETED, METADATA_WRITTEN, SNAPSHOTTED
from onceproof.engine.runtime.job_identity import FolderLost
from onceproof.engine.runtime.job_registry import REGISTRY
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.lease import JobLost
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.recovery import INCARNATION, is_claimed_by, recover
from onceproof.engine.runtime.remote_storage import RemoteCheckpointStorage
from onceproof.engine.runtime.storage import LocalCheckpointStorage


def deleted(job):
    shutil.rmtree(job.directory)


def moved(job):
    job.checkpoints.rename(job.checkpoints.with_name("elsewhere"))


def replaced(job):
    folder = job.directory
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    folder.rename(job.checkpoints.with_name("elsewhere"))
    copy.rename(folder)


def acting(point, occurrence, act):
    """Return a probe that acts at the n-th pass of a point."""
    passes = 0

    def probe(passed, task, checkpoint_id):
        nonlocal passes
        if passed == point:
            passes += 1
            if passes == occurrence:
                act()

    return probe


@pytest.mark.parametrize("point", [METADATA_WRITTEN, SNAPSHOTTED])
@pytest.mark.parametrize("vanish", [deleted, moved, replaced])
def test_job_whose_folder_vanishes_commits_nothing_more_and_fails(job, vanish, point):
    rows = []

    def act():
        rows.append(job.rows())
        vanish(job)

    options = {"execution__checkpointing__tolerable_failed_checkpoints": 100}
    with pytest.raises(JobLost, match="deleted, moved or replaced while it ran, so nothing is committed"):
        execute(job.graph(**options), acting(point, 5, act))
    assert job.rows() == rows[0]


def test_second_process_over_a_new_folder_does_not_write_the_rows_again(job):
    ends = []

    def act():
        moved(job)
        with pytest.raises(JobExecutionFailed, match="has output of an earlier run of this job"):
            execute(job.graph())
        ends.append(job.rows())

    with pytest.raises(JobLost):
        execute(job.graph(), acting(METADATA_WRITTEN, 4, act))
    assert ends[0].total() > 0
    assert job.rows() == ends[0]
    shutil.rmtree(job.checkpoints)
    job.checkpoints.with_name("elsewhere").rename(job.checkpoints)
    execute(job.graph())
    assert job.rows() == job.counts


def test_job_that_had_not_ended_is_not_begun_anew_where_its_folder_was_deleted(job):
    job.stopped(COMPLETED, 3)
    before = job.rows()
    record = job.checkpoints / REGISTRY / f"{job.directory.name}.json"
    shutil.rmtree(job.directory)
    for _ in range(2):
        with pytest.raises(
            FolderLost, match="was deleted or moved, and all its output would be written again"
        ):
            execute(job.graph())
    assert job.rows() == before
    record.unlink()
    with pytest.raises(JobExecutionFailed, match="has output of an earlier run of this job"):
        execute(job.graph())
    shutil.rmtree(job.checkpoints)
    shutil.rmtree(job.output)
    execute(job.graph())
    assert job.rows() == job.counts


def test_job_that_had_finished_is_begun_anew_where_its_folder_was_deleted(job):
    for runs in (1, 2):
        execute(job.graph())
        assert job.rows().total() == runs * job.counts.total()
        deleted(job)


def test_first_incarnations_of_two_processes_differ_at_an_address(request):
    storage = RemoteCheckpointStorage(f"memory://{request.node.name}")
    first = recover(storage, 1, token="aa")
    assert is_claimed_by(storage, first.incarnation, first.token)
    for path in storage.list(""):
        storage.delete(path)
    assert not is_claimed_by(storage, first.incarnation, first.token)
    second = recover(storage, 1, token="bb")
    assert first.incarnation == second.incarnation == 1
    assert not is_claimed_by(storage, first.incarnation, first.token)
    assert is_claimed_by(storage, second.incarnation, second.token)
    third = recover(storage, 1, token="cc")
    assert not is_claimed_by(storage, second.incarnation, second.token)
    assert storage.list(INCARNATION) == ["incarnation-2", "incarnation-2.cc"]
    assert third.incarnation == 2


def test_lock_is_on_the_folder_that_is_at_the_path(tmp_path):
    root = tmp_path / "job"
    one, other = LocalCheckpointStorage(root), LocalCheckpointStorage(root)
    assert one.is_in_place
    with one.exclusive():
        assert one.is_in_place
        root.rename(tmp_path / "moved")
        assert not one.is_in_place
        root.mkdir()
        assert not one.is_in_place
        with other.exclusive():
            assert other.is_in_place
            assert not one.is_in_place
        root.rmdir()
        (tmp_path / "moved").rename(root)
        assert one.is_in_place
        with other.kept_in_view():
            assert other.is_in_place
    assert one.is_in_place
