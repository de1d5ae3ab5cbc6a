"""The driver of epochs with failing writes, timeouts, damaged files and changed graphs."""

from __future__ import annotations

import errno
import os
import re
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from onceproof.engine.graph import InvalidJob
from onceproof.engine.protocol_points import COMPLETED
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.job_startup import recover_job
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.recovery import METADATA
from onceproof.engine.runtime.spark.epoch import GivenGraph, WrongRecipe
from onceproof.engine.runtime.spark.target import spark_storage
from onceproof.engine.runtime.storage import LocalCheckpointStorage, StorageError


def failing(monkeypatch, owner, method, times, error, matches=lambda *arguments: True):
    """Let a method fail the first times that it is called with what matches; gives the calls that failed."""
    original = getattr(owner, method)
    failed = []

    def replacement(self, *arguments):
        if len(failed) < times and matches(*arguments):
            failed.append(arguments)
            raise error
        return original(self, *arguments)

    monkeypatch.setattr(owner, method, replacement)
    return failed


def test_a_commit_that_fails_is_made_good_by_the_next_attempt(job, here, monkeypatch):
    rename = os.rename
    failed = []

    def failing_rename(source, target):
        if "/out/" in str(source) and str(source).endswith(".inprogress") and len(failed) < 2:
            failed.append(source)
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    # A commit gives a part file its visible name by a rename.
    monkeypatch.setattr(os, "rename", failing_rename)
    _, result = here(job.graph())
    assert len(failed) == 2
    assert result.attempts == 2, "both sinks failed to commit the same checkpoint"
    assert result.checkpoints == 6, "no epoch was done twice"
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_a_snapshot_that_cannot_be_written_fails_its_checkpoint(job, here, monkeypatch):
    error = StorageError("disk is full")
    failed = failing(
        monkeypatch, LocalCheckpointStorage, "write", 1, error, lambda path, data: "chk-3/" in path
    )
    _, result = here(job.graph(execution__checkpointing__tolerable_failed_checkpoints=1))
    assert len(failed) == 1
    assert (result.attempts, result.checkpoints) == (1, 6)
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_more_failed_checkpoints_than_are_tolerated_end_the_attempt(job, here, monkeypatch):
    error = StorageError("disk is full")
    failing(monkeypatch, LocalCheckpointStorage, "write", 100, error)
    with pytest.raises(JobExecutionFailed, match=r"checkpoint 4 failed \(disk is full\) and 0 failures"):
        here(job.graph())


def test_metadata_that_cannot_be_written_fails_its_checkpoint(job, here, monkeypatch):
    error = StorageError("disk is full")
    failed = failing(
        monkeypatch,
        LocalCheckpointStorage,
        "create_exclusive",
        1,
        error,
        lambda path, data=b"": METADATA in path,
    )
    _, result = here(job.graph())
    assert len(failed) == 1
    assert (result.attempts, result.checkpoints) == (2, 6)
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def on_full_disk(here, times, is_stopped=False):
    """Return a driver whose Spark cannot write its temporary files the first times."""

    class OnFullDisk(here.execution):
        shipped = 0

        def ship(self, shipment):
            self.shipped += 1
            self._context = context = Mock()
            context._jsc.sc.return_value.isStopped.return_value = is_stopped
            context.getConf.return_value = {"spark.local.dir": "/full/local"}
            if self.shipped <= times:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            super().ship(shipment)

    return OnFullDisk


def test_full_temporary_disk_is_left_to_the_restart_strategy(job, here, caplog):
    execution, result = here(job.graph(), execution_class=on_full_disk(here, 3))
    assert (execution.shipped, result.attempts, result.checkpoints) == (4, 4, 6)
    assert job.rows() == job.counts
    said = "No space left on device: free some space in /full/local, or set spark.local.dir or TMPDIR"
    assert [said in record.message for record in caplog.records] == [True] * 3
    other = replace(job.graph(), name="other", job_id="other")
    with pytest.raises(JobExecutionFailed, match=r"Spark has stopped: .*start the job again"):
        here(other, execution_class=on_full_disk(here, 1, is_stopped=True))


def test_full_disk_of_checkpoints_is_logged_with_its_path(job, here, monkeypatch, caplog):
    write = os.write

    def full(descriptor, data):
        if "/chk-" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    options = {"execution__checkpointing__tolerable_failed_checkpoints": 2}
    with pytest.raises(JobExecutionFailed):
        here(job.graph(restart_strategy__fixed_delay__attempts=0, **options))
    said = [record.message for record in caplog.records if "failed: checkpoint file" in record.message]
    assert len(said) == 3
    for message in said:
        assert re.search(
            rf"checkpoint \d failed: checkpoint file {job.directory}/chk-\d/.* cannot be", message
        )
        assert "No space left on device: free some space" in message


def test_undeletable_files_are_deleted_at_the_end_of_the_job(job, here, monkeypatch):
    # For a while the disk can only be read: neither is metadata written, nor what is left of its checkpoint
    # deleted.
    refused = StorageError("read-only")
    folder = "chk-3/"
    unwritten = failing(
        monkeypatch,
        LocalCheckpointStorage,
        "create_exclusive",
        1,
        refused,
        lambda path, data=b"": folder in path,
    )
    undeleted = failing(
        monkeypatch, LocalCheckpointStorage, "delete", 2, refused, lambda path: path.startswith(folder)
    )
    _, result = here(job.graph(execution__checkpointing__tolerable_failed_checkpoints=1))
    assert len(unwritten) == 1
    assert len(undeleted) == 2
    assert result.attempts == 1
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_an_epoch_that_takes_too_long_is_called_off(job, here):
    class Slow(here.execution):
        called_off = 0
        offset_ms = 0

        def now(self):
            return super().now() + self.offset_ms

        def start_job(self, epoch):
            done = super().start_job(epoch)
            if epoch.checkpoint_id == 2:
                done.wait = self.wait_for
                done.cancel = self.cancel
            return done

        def wait_for(self, seconds):
            if seconds:
                self.offset_ms += 60_000
            return False

        def cancel(self):
            self.called_off += 1

    graph = job.graph(
        execution__checkpointing__timeout="1 min",
        execution__checkpointing__tolerable_failed_checkpoints=1,
    )
    execution, result = here(graph, execution_class=Slow)
    assert execution.called_off == 1
    assert (result.attempts, result.checkpoints) == (1, 6)
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


def test_a_job_is_rescaled_between_two_epochs(job, here):
    class Growing(here.execution):
        parallelisms = ()

        def start_job(self, epoch):
            self.parallelisms += (self.graph.vertices[-1].parallelism,)
            return super().start_job(epoch)

        def checkpoint_completed(self, effect):
            super().checkpoint_completed(effect)
            if effect.checkpoint_id in (2, 4):
                self.rescale(job.graph(3 if effect.checkpoint_id == 2 else 1))

    graph = job.graph(restart_strategy__fixed_delay__attempts=0)
    execution, result = here(graph, execution_class=Growing)
    assert execution.parallelisms == (2, 2, 3, 3, 1, 1, 1)
    assert (result.attempts, result.checkpoints) == (3, 7), (
        "in epoch 3 one source of three had nothing to read"
    )
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-1"], [])


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1)])
def test_a_checkpoint_of_the_local_runtime_is_restored_here(job, here, before, after):
    with pytest.raises(job.power_cut):
        execute(job.graph(before), job.raising(COMPLETED, job.power_cut(), 3))
    execution, result = here(job.graph(after))
    assert execution.tried[0][0] == 4
    assert result.records_read < 400
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-2"], [])


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1)])
def test_a_checkpoint_taken_here_is_restored_by_the_local_runtime(job, here, before, after):
    with pytest.raises(job.power_cut):
        here(job.graph(before), here.dying(COMPLETED, checkpoint=3, death=job.power_cut))
    result = execute(job.graph(after))
    assert result.records_read == {2: 300, 3: 333}[before]
    assert job.rows() == job.counts
    assert job.left_behind() == (["finished", "incarnation-2"], [])


def test_a_job_that_has_finished_is_not_run_again(job, here):
    here(job.graph())
    storage = spark_storage(job.graph())
    assert recover_job(job.graph(), storage).already_finished


@pytest.mark.parametrize("kind", ["damaged", "missing"])
def test_a_snapshot_that_cannot_be_read_ends_the_job(job, here, kind):
    with pytest.raises(job.power_cut):
        here(job.graph(), here.dying(COMPLETED, checkpoint=3, death=job.power_cut))
    path = sorted(path for path in job.directory.glob("chk-3/*") if path.name != METADATA)[0]
    if kind == "damaged":
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    else:
        path.unlink()
    with pytest.raises(JobExecutionFailed, match=str(path)) as caught:
        here(job.graph())
    assert "\n" not in str(caught.value)
    rows = job.rows()
    with pytest.raises(JobExecutionFailed):
        here(job.graph())
    assert job.rows() == rows


def test_a_checkpoint_that_the_job_does_not_fit_ends_the_job(job, here):
    with pytest.raises(job.power_cut):
        here(job.graph(), here.dying(COMPLETED, checkpoint=3, death=job.power_cut))
    graph = job.graph()
    vertices = tuple([replace(vertex, max_parallelism=17) for vertex in graph.vertices])
    with pytest.raises(JobExecutionFailed, match="its state has max parallelism 16, the job sets 17"):
        here(replace(graph, vertices=vertices))


def test_recipe_is_built_in_the_workers_and_must_build_the_same_job(job, here):
    here(job.graph(), recipe=GivenGraph(job.graph()))
    assert job.rows() == job.counts
    with pytest.raises(WrongRecipe, match="other operators or another parallelism than in the driver"):
        here(
            job.graph(pipeline__name="again", execution__checkpointing__dir=str(job.checkpoints) + "2"),
            recipe=GivenGraph(job.graph(3)),
        )


def test_a_job_without_checkpoints_is_refused(job):
    with pytest.raises(InvalidJob, match=r"takes no checkpoints.*set execution\.checkpointing\.interval"):
        spark_storage(
            job.graph(
                execution__checkpointing__interval_records=None,
                restart_strategy__type=None,
                restart_strategy__fixed_delay__attempts=None,
                restart_strategy__fixed_delay__delay=None,
            )
        )


def test_a_job_without_a_checkpoint_folder_is_refused(job):
    with pytest.raises(InvalidJob, match=r"in memory.*set execution\.checkpointing\.dir"):
        spark_storage(job.graph(execution__checkpointing__dir=None))
