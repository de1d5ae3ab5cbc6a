"""A job that a user ends: with a savepoint, by cancelling it, and what may come between."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.coordinator import TASK_FINISHED
from onceproof.engine.checkpoint.events import (
    CheckpointTriggered,
    DiscardHandle,
    MetadataStored,
    RequestResolved,
    StoreMetadata,
    TooManyFailures,
    TriggerRequested,
)
from onceproof.engine.checkpoint.metadata import StateHandle
from onceproof.engine.job.end_with_savepoint import JOB_HAS_FINISHED, JOB_IS_ENDING
from onceproof.engine.job.events import (
    CancelRequested,
    CancelTasks,
    Deploy,
    JobCanceled,
    JobFinished,
    RestartDue,
    StartRestartTimer,
    StopOverdue,
    StopRequested,
)
from onceproof.engine.job.master import JobState
from onceproof.engine.messages import SYNC_SAVEPOINT, AcknowledgeCheckpoint, DeclineCheckpoint, TaskFinished
from tests.engine.job.test_master import SINK, SOURCE, TASKS, Job


@pytest.fixture
def job() -> Job:
    return Job().start()


def of(effects, kind):
    return [effect for effect in effects if isinstance(effect, kind)]


def answered(job, checkpoint_id):
    effects = []
    for task in TASKS:
        effects += job.handle(AcknowledgeCheckpoint(job.attempt, task, checkpoint_id, None, False))
    return effects


def stopping(job):
    """Ask for a stop; give the savepoint's id."""
    [triggered] = of(job.handle(StopRequested(7)), CheckpointTriggered)
    assert triggered.kind == SYNC_SAVEPOINT
    return triggered.checkpoint_id


def complete(job, checkpoint_id):
    assert of(answered(job, checkpoint_id), StoreMetadata)
    return job.handle(MetadataStored(checkpoint_id))


def test_a_job_finishes_when_all_have_heard_of_the_savepoint(job):
    effects = complete(job, stopping(job))
    assert of(effects, RequestResolved) == [RequestResolved(7, 1)]
    job.finish(SOURCE)
    assert job.finish(SINK)[-1] == JobFinished(stopped=True)


def test_no_checkpoint_begins_while_the_job_ends(job):
    stopping(job)
    assert job.handle(TriggerRequested(number=8)) == [RequestResolved(8, None, JOB_IS_ENDING)]
    assert job.handle(StopRequested(9)) == [RequestResolved(9, None, JOB_IS_ENDING)]


def test_attempt_that_fails_after_the_savepoint_is_followed_by_a_committing_one(job):
    savepoint = stopping(job)
    complete(job, savepoint)
    [timer] = of(job.fail(), StartRestartTimer)
    [deployed] = of(job.handle(timer.event), Deploy)
    assert deployed.restored is not None
    assert deployed.restored.checkpoint_id == savepoint
    effects = job.run()
    assert of(effects, CancelTasks)
    assert effects[-1] == JobFinished(stopped=True)


def test_task_that_misses_the_savepoints_notification_is_replaced_after_a_while(job):
    effects = complete(job, stopping(job))
    [overdue] = [effect.event for effect in of(effects, StartRestartTimer)]
    assert isinstance(overdue, StopOverdue)
    assert of(job.handle(overdue), Deploy)
    assert job.run()[-1] == JobFinished(stopped=True)


def test_failed_stop_costs_an_attempt_since_tasks_have_stopped(job):
    savepoint = stopping(job)
    effects = job.handle(DeclineCheckpoint(job.attempt, SINK, savepoint, "a reason"))
    assert of(effects, RequestResolved) == [RequestResolved(7, None, "a reason")]
    [timer] = of(effects, StartRestartTimer)
    assert isinstance(timer.event, RestartDue)
    assert job.master.ending is None


def test_the_savepoint_is_asked_for_again_without_a_task_that_has_finished(job):
    stopping(job)
    effects = job.finish(SOURCE)
    assert not of(effects, RequestResolved)
    assert [each.checkpoint_id for each in of(effects, CheckpointTriggered)] == [2]


def test_a_job_whose_last_task_finishes_has_nothing_to_stop(job):
    stopping(job)
    job.finish(SOURCE)
    effects = job.finish(SINK)
    assert JobFinished() in effects
    assert of(effects, RequestResolved) == [RequestResolved(7, None, JOB_HAS_FINISHED)]
    assert TASK_FINISHED not in str(of(effects, RequestResolved))


def test_a_job_that_finishes_before_its_savepoint_begins_has_nothing_to_stop():
    job = Job(max_concurrent=1, unaligned=True).start()
    job.finalize(1)
    job.finish(SOURCE)
    assert not job.handle(StopRequested(7))
    assert not job.finish(SINK)
    effects = job.handle(MetadataStored(1))
    assert JobFinished() in effects
    assert of(effects, RequestResolved) == [RequestResolved(7, None, JOB_HAS_FINISHED)]


def test_a_job_is_cancelled_at_once(job):
    effects = job.handle(CancelRequested())
    assert of(effects, CancelTasks)
    assert effects[-1] == JobCanceled()
    assert job.master.state is JobState.CANCELED
    assert job.handle(CancelRequested()) == []


def test_a_job_is_not_cancelled_while_it_is_open_what_completes(job):
    job.finalize(1)
    assert not of(job.handle(CancelRequested()), JobCanceled)
    assert job.master.state is JobState.CANCELLING
    assert job.handle(MetadataStored(1))[-1] == JobCanceled()


def test_a_job_is_cancelled_when_its_savepoint_is_complete(job):
    [triggered] = of(job.handle(CancelRequested(5)), CheckpointTriggered)
    effects = complete(job, triggered.checkpoint_id)
    assert RequestResolved(5, triggered.checkpoint_id) in effects
    assert effects[-1] == JobCanceled()


def test_declined_savepoint_of_a_cancellation_counts_as_a_failed_checkpoint(job):
    [triggered] = of(job.handle(CancelRequested(5)), CheckpointTriggered)
    declined = DeclineCheckpoint(job.attempt, SINK, triggered.checkpoint_id, "disk full")
    effects = job.handle(declined)
    assert of(effects, TooManyFailures)
    assert of(effects, CancelTasks), "no failure is tolerated, so the attempt ends"
    assert job.master.state is JobState.RESTARTING


def test_a_task_that_finishes_late_belongs_to_no_other_attempt(job):
    old = job.attempt
    complete(job, stopping(job))
    job.fail()
    assert not of(job.handle(TaskFinished(old, SOURCE)), JobFinished)


def test_a_repeated_answer_leaves_the_file_of_a_complete_savepoint_alone(job):
    savepoint = stopping(job)
    complete(job, savepoint)
    handle = StateHandle(f"savepoint-{savepoint}/x", 1, "", {})
    again = AcknowledgeCheckpoint(job.attempt, SOURCE, savepoint, handle, False)
    assert not of(job.handle(again), DiscardHandle)
