"""Retained checkpoints that were moved or renamed, and jobs that go on from one of them with other output."""

from __future__ import annotations

import shutil

import pytest

from onceproof.engine.protocol_points import COMMITTING
from onceproof.engine.runtime.job_registry import REGISTRY
from onceproof.engine.runtime.local import execute
from onceproof.harness.commands.checkpoints import show_command, verify_command

BACKENDS = {
    "hashmap": {},
    "rocksdb": {"state__backend__type": "rocksdb", "execution__checkpointing__incremental": True},
}


@pytest.fixture(params=BACKENDS)
def killed(request, job, new_job):
    """A job that was killed before the second commit of its third checkpoint, and its options."""
    options = BACKENDS[request.param]
    job.stopped(COMMITTING, 6, **options)
    return job, options


def latest(job):
    [folder] = [each for each in job.checkpoints.iterdir() if each.name != REGISTRY]
    return max(folder.glob("chk-*"), key=lambda path: int(path.name[4:]))


def other_job(new_job, job, name, folder):
    """Return a job on the same input, with a checkpoint folder and output of its own."""
    other = new_job(folder / name)
    other.source = job.source
    other.counts = job.counts
    return other


def in_place(checkpoint, folder):
    return checkpoint


def under_another_name(checkpoint, folder):
    return checkpoint.rename(checkpoint.with_name("the good one"))


def with_the_folder_of_its_job(checkpoint, folder):
    shutil.move(checkpoint.parent, folder / "backup")
    return folder / "backup" / checkpoint.name


def with_what_it_shares(checkpoint, folder):
    shared = checkpoint.with_name("shared")
    (folder / "backup").mkdir()
    for moved in (checkpoint, shared) if shared.exists() else (checkpoint,):
        shutil.move(moved, folder / "backup")
    return (folder / "backup" / checkpoint.name).rename(folder / "backup" / "chk-99")


MOVES = [in_place, under_another_name, with_the_folder_of_its_job, with_what_it_shares]


@pytest.mark.parametrize("move", MOVES, ids=[move.__name__ for move in MOVES])
def test_moved_checkpoint_is_intact_and_restored(killed, new_job, tmp_path, move):
    job, options = killed
    checkpoint = move(latest(job), tmp_path)
    assert verify_command(str(checkpoint), as_json=False) == 0
    assert show_command(str(checkpoint), as_json=False) == 0
    other = other_job(new_job, job, "other", tmp_path)
    other.output = job.output
    execute(other.graph(3, execution__state_recovery__path=str(checkpoint), **options))
    assert job.rows() == job.counts
    # What a claimed checkpoint does not delete is the user's.
    assert verify_command(str(checkpoint), as_json=False) == 0


def test_claimed_checkpoint_under_another_name_is_deleted(killed, new_job, tmp_path):
    job, options = killed
    checkpoint = under_another_name(latest(job), tmp_path)
    other = other_job(new_job, job, "other", tmp_path)
    other.output = job.output
    options = options | {"execution__state_recovery__claim_mode": "CLAIM"}
    execute(other.graph(execution__state_recovery__path=str(checkpoint), **options))
    assert job.rows() == job.counts
    assert not checkpoint.exists()


def test_two_jobs_from_one_checkpoint_commit_its_output_once_and_go_their_ways(killed, new_job, tmp_path):
    job, options = killed
    checkpoint = latest(job)
    for name in ("one", "other"):
        heir = other_job(new_job, job, name, tmp_path)
        execute(heir.graph(execution__state_recovery__path=str(checkpoint), **options))
        assert job.rows() + heir.rows() == job.counts
        assert heir.rows().total() > 100


def test_job_goes_on_with_another_base_path(killed, tmp_path):
    job, options = killed
    before, job.output = job.output, tmp_path / "elsewhere"
    execute(job.graph(**options))
    elsewhere = job.rows()
    job.output = before
    assert job.rows() + elsewhere == job.counts
    assert elsewhere.total() > 100
