"""A job from attempt to attempt, with a real coordinator and no tasks."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from onceproof.engine.checkpoint.completed_store import CompletedCheckpointStore
from onceproof.engine.checkpoint.coordinator import FAILOVER, CheckpointCoordinator
from onceproof.engine.checkpoint.events import (
    CheckpointAborted,
    CheckpointPlan,
    CheckpointTriggered,
    MetadataFailed,
    MetadataStored,
    RequestResolved,
    StoreMetadata,
    TooManyFailures,
    TriggerRequested,
)
from onceproof.engine.checkpoint.failure_counter import SHUT_DOWN
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.configuration import CheckpointSettings, FixedDelayRestarts, NoRestarts
from onceproof.engine.job.end_with_savepoint import NO_SAVEPOINT_IN_BATCH
from onceproof.engine.job.events import (
    AttemptDeployed,
    CancelRequested,
    CancelTasks,
    Deploy,
    DeploymentFailed,
    JobFailed,
    JobFinished,
    OrphanEnded,
    RescaleRequested,
    RestartDue,
    StartJob,
    StartRestartTimer,
    StopRequested,
)
from onceproof.engine.job.master import JobMaster, JobState
from onceproof.engine.job.restart_strategies import restart_strategy
from onceproof.engine.messages import (
    SAVEPOINT,
    AcknowledgeCheckpoint,
    AttemptId,
    DeclineCheckpoint,
    TaskFailed,
    TaskFinished,
    TaskId,
    TaskRunning,
)

SOURCE, SINK = TaskId(0, 0), TaskId(1, 0)
TASKS = (SOURCE, SINK)


class Job:
    """Two tasks without state, and the master that runs them; validated after each event."""

    def __init__(
        self,
        incarnation: int = 1,
        completed: tuple[int, ...] = (),
        *,
        is_batch: bool = False,
        **settings: Any,
    ) -> None:
        how = {"restarts": FixedDelayRestarts(2, 500), "max_concurrent": 2, **settings}
        self.settings = CheckpointSettings(**how)
        self.store = CompletedCheckpointStore(2)
        for checkpoint_id in completed:
            self.store.add(CheckpointMetadata(checkpoint_id, "job", "words", 0, "checkpoint", "0.1", ()))
        coordinator = CheckpointCoordinator("job", "words", self.settings, self.store)
        self.master = JobMaster(
            coordinator,
            restart_strategy(self.settings.restarts, lambda: Random(1).random),
            incarnation,
            max_equal_errors=self.settings.max_equal_errors,
            is_batch=is_batch,
        )
        self.now = 0

    def handle(self, event: Any) -> list[Any]:
        effects = list(self.master.handle(event, self.now))
        self.master.validate()
        return effects

    def run(self) -> list[Any]:
        """Answer a deployment: the tasks exist and run."""
        attempt = self.attempt
        plan = CheckpointPlan(attempt, (), {SOURCE: (), SINK: (SOURCE,)})
        effects = self.handle(AttemptDeployed(plan))
        for task in TASKS:
            effects += self.handle(TaskRunning(attempt, task))
        return effects

    @property
    def attempt(self) -> AttemptId:
        assert self.master.attempt is not None
        return self.master.attempt

    def start(self) -> Job:
        self.handle(StartJob())
        self.run()
        return self

    def fail(self, attempt: str = "", unrecoverable: bool = False) -> list[Any]:
        return self.handle(TaskFailed(AttemptId(attempt or self.attempt), SOURCE, "a cause", unrecoverable))

    def raise_error(self, error: str = "ValueError: no", taken: int = 1) -> list[Any]:
        """User code raises, and the next attempt runs unless this was the last one."""
        attempt = self.attempt
        failed = TaskFailed(attempt, SINK, f"sink-0: {error or 'killed'}", error=error, taken=taken)
        effects = self.handle(failed)
        if self.master.state is JobState.RESTARTING:
            self.handle(RestartDue(attempt))
            self.run()
        return effects

    def finish(self, task: TaskId, attempt: str = "") -> list[Any]:
        return self.handle(TaskFinished(AttemptId(attempt or self.attempt), task))

    def finalize(self, checkpoint_id: int) -> None:
        """Everyone has answered the checkpoint; its metadata is being written."""
        self.handle(TriggerRequested())
        effects = [
            self.handle(AcknowledgeCheckpoint(self.attempt, task, checkpoint_id, None, True))
            for task in TASKS
        ]
        assert isinstance(effects[-1][0], StoreMetadata)


@pytest.fixture
def job() -> Job:
    return Job().start()


# Attempts.


def test_a_job_starts_with_a_deployment_from_nothing():
    job = Job(incarnation=4)
    assert job.handle(StartJob()) == [Deploy(AttemptId("4.1"), None)]
    assert job.master.state is JobState.RUNNING


def test_a_process_goes_on_from_the_latest_checkpoint_that_was_found():
    job = Job(incarnation=4, completed=(6, 9))
    (deploy,) = job.handle(StartJob())
    assert deploy.restored.checkpoint_id == 9


def test_checkpoints_begin_once_the_attempt_runs(job):
    assert CheckpointTriggered(1) in job.handle(TriggerRequested())


def test_a_failed_task_ends_the_attempt_and_the_next_one_comes_after_the_delay(job):
    job.now = 70
    assert job.fail() == [CancelTasks(AttemptId("1.1")), StartRestartTimer(570, RestartDue(AttemptId("1.1")))]
    assert job.master.state is JobState.RESTARTING
    job.now = 570
    assert job.handle(RestartDue(AttemptId("1.1"))) == [Deploy(AttemptId("1.2"), None)]
    assert job.master.state is JobState.RUNNING


ENDLESS = FixedDelayRestarts(1_000_000, 0)


def test_third_equal_error_of_user_code_fails_the_job_whatever_the_strategy_says():
    job = Job(restarts=ENDLESS).start()
    job.raise_error()
    job.raise_error()
    assert job.master.state is JobState.RUNNING
    *_, failed = job.raise_error()
    assert isinstance(failed, JobFailed)
    assert failed.cause.startswith("sink-0: ValueError: no: 3 attempts have ended with this error")
    assert job.master.state is JobState.FAILED
    assert job.attempt == "1.3"


@pytest.mark.parametrize(("error", "limit"), [("", 3), ("ValueError: no", 0)], ids=["kills", "no limit"])
def test_kills_and_errors_without_a_limit_leave_it_to_the_strategy(error, limit):
    job = Job(restarts=ENDLESS, max_equal_errors=limit).start()
    for _ in range(20):
        job.raise_error(error)
    assert job.master.state is JobState.RUNNING
    assert job.attempt == "1.21"


def test_equal_errors_with_a_checkpoint_in_between_do_not_fail_the_job():
    job = Job(restarts=ENDLESS).start()
    for checkpoint_id in range(1, 6):
        job.raise_error()
        job.raise_error()
        job.finalize(checkpoint_id)
        job.handle(MetadataStored(checkpoint_id))
    assert job.master.state is JobState.RUNNING


def test_error_during_the_storing_of_a_checkpoint_that_fails_is_not_the_last_chance():
    job = Job(restarts=ENDLESS, tolerable_failures=9).start()
    job.raise_error()
    job.raise_error()
    job.finalize(1)
    job.raise_error()
    assert job.master.state is JobState.FAILING, "the checkpoint may still complete"
    attempt = job.attempt
    job.handle(MetadataFailed(1, "no answer"))
    assert job.master.state is JobState.RESTARTING
    job.handle(RestartDue(attempt))
    job.run()
    *_, failed = job.raise_error()
    assert isinstance(failed, JobFailed)


def test_a_rescale_deploys_a_new_attempt_at_once_and_is_no_failure():
    job = Job(restarts=NoRestarts()).start()
    job.handle(TriggerRequested())
    first, *others, last = job.handle(RescaleRequested())
    assert first == CancelTasks(AttemptId("1.1"))
    assert CheckpointAborted(1, FAILOVER) in others
    assert last == Deploy(AttemptId("1.2"), None)
    job.run()
    assert job.master.state is JobState.RUNNING
    assert job.fail()[-1] == JobFailed("a cause"), "what was wrong afterwards is one"


def test_a_rescale_goes_on_from_the_latest_checkpoint(job):
    job.finalize(1)
    job.handle(MetadataStored(1))
    *_, deploy = job.handle(RescaleRequested())
    assert deploy.restored.checkpoint_id == 1


def test_no_rescale_begins_while_the_outcome_of_a_checkpoint_is_open(job):
    job.finalize(1)
    assert job.handle(RescaleRequested()) == []
    assert job.attempt == "1.1"


def test_no_rescale_begins_while_a_restart_is_waited_for(job):
    job.fail()
    assert job.handle(RescaleRequested()) == []
    assert job.master.state is JobState.RESTARTING


def test_the_tasks_are_cancelled_before_anything_else(job):
    job.handle(TriggerRequested())
    effects = job.fail()
    assert effects[:2] == [CancelTasks(AttemptId("1.1")), CheckpointAborted(1, FAILOVER)]
    assert job.master.coordinator.pending == {}


def test_the_next_attempt_restores_the_latest_completed_checkpoint(job):
    job.finalize(1)
    job.handle(MetadataStored(1))
    job.handle(TriggerRequested())
    job.fail()
    (deploy,) = job.handle(RestartDue(AttemptId("1.1")))
    assert deploy.restored.checkpoint_id == 1


def test_a_failure_of_another_attempt_is_old_news(job):
    assert job.fail(attempt="0.9") == []
    job.fail()
    job.handle(RestartDue(AttemptId("1.1")))
    job.run()
    assert job.fail(attempt="1.1") == []
    assert job.master.state is JobState.RUNNING


def test_a_second_failure_of_the_attempt_costs_no_second_restart(job):
    job.fail()
    assert job.fail() == []
    job.handle(RestartDue(AttemptId("1.1")))
    job.run()
    assert isinstance(job.fail()[-1], StartRestartTimer)


def test_a_restart_timer_is_good_for_one_restart(job):
    job.fail()
    job.handle(RestartDue(AttemptId("1.1")))
    assert job.handle(RestartDue(AttemptId("1.1"))) == []
    job.run()
    job.fail()
    assert job.handle(RestartDue(AttemptId("1.1"))) == []
    assert job.handle(RestartDue(AttemptId("1.2"))) == [Deploy(AttemptId("1.3"), None)]


def test_restarts_are_counted(job):
    for number in (1, 2):
        assert isinstance(job.fail()[-1], StartRestartTimer)
        job.handle(RestartDue(AttemptId(f"1.{number}")))
        job.run()
    assert job.fail() == [CancelTasks(AttemptId("1.3")), JobFailed("a cause")]
    assert job.master.state is JobState.FAILED
    assert job.handle(RestartDue(AttemptId("1.3"))) == []


def test_without_restarts_the_first_failure_is_the_last():
    job = Job(restarts=NoRestarts()).start()
    assert job.fail() == [CancelTasks(AttemptId("1.1")), JobFailed("a cause")]


def test_failed_job_answers_the_stop_whose_metadata_are_being_written():
    job = Job(restarts=NoRestarts()).start()
    job.handle(StopRequested(7))
    job.finalize(1)
    assert job.fail()[-2:] == [RequestResolved(7, None, SHUT_DOWN), JobFailed("a cause")]
    assert RequestResolved not in map(type, job.handle(MetadataStored(1)))


def test_what_a_restart_cannot_mend_ends_the_job_at_once(job):
    assert job.fail(unrecoverable=True) == [CancelTasks(AttemptId("1.1")), JobFailed("a cause")]
    assert job.master.state is JobState.FAILED


def test_a_checkpoint_that_cannot_be_read_ends_the_job_at_once(job):
    job.fail()
    job.handle(RestartDue(AttemptId("1.1")))
    assert job.handle(DeploymentFailed("damaged")) == [JobFailed("damaged")]
    assert job.master.state is JobState.FAILED


def test_a_checkpoint_that_the_storage_cannot_read_now_is_read_again_later(job):
    job.fail()
    job.handle(RestartDue(AttemptId("1.1")))
    cancelled, timer = job.handle(DeploymentFailed("no answer", may_pass=True))
    assert cancelled == CancelTasks(AttemptId("1.2"))
    assert timer == StartRestartTimer(job.now + 500, RestartDue(AttemptId("1.2")))
    assert job.handle(RestartDue(AttemptId("1.2"))) == [Deploy(AttemptId("1.3"), None)]
    job.handle(DeploymentFailed("no answer", may_pass=True))
    assert job.master.state is JobState.FAILED, "the restart strategy allows two restarts"


def test_a_failed_job_does_not_rise_again(job):
    job.fail(unrecoverable=True)
    assert job.fail() == []
    for task in TASKS:
        job.finish(task)
    assert job.master.state is JobState.FAILED


def test_more_failed_checkpoints_than_are_tolerated_end_the_attempt(job):
    job.handle(TriggerRequested())
    effects = job.handle(DeclineCheckpoint(job.attempt, SINK, 1, "disk full"))
    assert isinstance(effects[0], TooManyFailures)
    assert effects[-2:] == [
        CancelTasks(AttemptId("1.1")),
        StartRestartTimer(500, RestartDue(AttemptId("1.1"))),
    ]


# While the outcome of a checkpoint is open.


@pytest.mark.parametrize("outcome", [MetadataStored(1), MetadataFailed(1, "disk full")])
def test_nothing_is_restored_while_the_outcome_of_a_checkpoint_is_open(job, outcome):
    job.finalize(1)
    assert job.fail() == [CancelTasks(AttemptId("1.1"))]
    assert job.master.state is JobState.FAILING
    assert job.handle(RestartDue(AttemptId("1.1"))) == []
    job.now = 90
    assert job.handle(outcome)[-1] == StartRestartTimer(590, RestartDue(AttemptId("1.1")))
    (deploy,) = job.handle(RestartDue(AttemptId("1.1")))
    assert (deploy.restored is not None) == isinstance(outcome, MetadataStored)


def test_messages_of_the_ended_attempt_do_not_end_the_wait(job):
    job.finalize(1)
    job.fail()
    job.finish(SINK)
    assert job.handle(AcknowledgeCheckpoint(job.attempt, SINK, 1, None, True)) == []
    assert job.master.state is JobState.FAILING


# The end of the job.


def test_the_job_has_finished_when_every_task_has(job):
    assert job.finish(SOURCE) == []
    assert job.finish(SOURCE) == []
    assert job.finish(SINK) == [JobFinished()]
    assert job.master.state is JobState.FINISHED


def test_tasks_of_another_attempt_do_not_finish_the_job(job):
    job.finish(SOURCE)
    job.fail()
    job.handle(RestartDue(AttemptId("1.1")))
    job.run()
    assert job.finish(SOURCE, attempt="1.1") == []
    assert job.finish(SINK) == []
    assert job.finish(SOURCE) == [JobFinished()]


def test_the_job_does_not_finish_over_an_open_outcome(job):
    job.finalize(1)
    job.finish(SOURCE)
    assert job.finish(SINK) == []
    assert job.master.state is JobState.RUNNING
    assert job.handle(MetadataStored(1))[-1] == JobFinished()


def test_checkpoint_that_fails_after_every_task_finished_does_no_harm(job):
    job.finalize(1)
    job.finish(SOURCE)
    job.finish(SINK)
    assert job.handle(MetadataFailed(1, "disk full"))[-1] == JobFinished()
    assert job.master.state is JobState.FINISHED


def test_a_finished_job_does_not_fail_any_more(job):
    for task in TASKS:
        job.finish(task)
    assert job.fail() == []
    assert job.master.state is JobState.FINISHED


def test_a_job_whose_tasks_do_not_exist_yet_has_not_finished():
    job = Job()
    job.handle(StartJob())
    job.handle(TriggerRequested())
    assert job.master.state is JobState.RUNNING


def test_tasks_of_the_last_attempt_do_not_finish_one_that_is_still_being_deployed(job):
    job.finalize(1)
    for task in TASKS:
        job.finish(task)
    job.fail()
    job.handle(MetadataFailed(1, "disk full"))
    job.handle(RestartDue(AttemptId("1.1")))
    assert job.handle(TriggerRequested()) == []
    assert job.master.state is JobState.RUNNING


# What the master checks of itself.


def test_a_restart_that_is_planned_over_a_pending_checkpoint_is_noticed(job):
    job.finalize(1)
    job.master.state = JobState.RESTARTING
    with pytest.raises(AssertionError, match="a restart is planned while a checkpoint is pending"):
        job.master.validate()


def test_first_attempt_waits_until_all_orphaned_tasks_have_ended() -> None:
    job = Job(incarnation=4)
    assert job.handle(StartJob(orphans=2)) == []
    assert job.handle(OrphanEnded()) == []
    assert job.handle(OrphanEnded()) == [Deploy(AttemptId("4.1"), None)]


@pytest.mark.parametrize(
    "request_of_user",
    [TriggerRequested(SAVEPOINT, 7), StopRequested(7), StopRequested(7, drains=True), CancelRequested(7)],
)
def test_a_job_in_batch_mode_refuses_savepoints_and_goes_on(request_of_user: Any) -> None:
    job = Job(is_batch=True).start()
    assert job.handle(request_of_user) == [RequestResolved(7, None, NO_SAVEPOINT_IN_BATCH)]
    assert job.master.state is JobState.RUNNING
    assert job.master.ending is None
