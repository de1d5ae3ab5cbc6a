"""Mutants of where a job begins and stops: the savepoint that it came from, and the one that ends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onceproof.engine.checkpoint.events import AttemptEnded, RequestResolved
from onceproof.engine.job.end_with_savepoint import EndWithSavepoint
from onceproof.engine.job.events import CancelTasks, Deploy, MasterEffect
from onceproof.engine.job.master import JobMaster
from onceproof.engine.messages import SAVEPOINT, NotifyCheckpointComplete
from onceproof.engine.task.events import TaskEffect
from onceproof.engine.task.task import RUNNING, STOPPED, Task
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="savepoint-restored-by-the-first-attempt-only",
    origin="FLINK-3390",
    breaks="consistent_cut",
    summary="a failure before the first checkpoint of a job begins it anew, without its savepoint",
)
def savepoint_restored_by_the_first_attempt_only(reached: Reached) -> Iterator[None]:
    """Only checkpoints of the job itself are restored by later attempts."""
    deploy = JobMaster.deploy

    def forgetful(self: JobMaster) -> Sequence[MasterEffect]:
        effects = deploy(self)
        latest = self.coordinator.latest
        is_first = self._attempt_number == 1
        if is_first or latest is None or latest.kind != SAVEPOINT or self.attempt is None:
            return effects
        reached()
        return (Deploy(self.attempt, None),)

    with replaced(JobMaster, "deploy", forgetful):
        yield


@mutant(
    id="source-goes-on-behind-the-savepoint-of-a-stop",
    origin="FLINK-21133",
    breaks="liveness",
    summary="a source waits for the savepoint of a stop and reads on when it is complete",
)
def source_goes_on_behind_the_savepoint_of_a_stop(reached: Reached) -> Iterator[None]:
    """The job that was to stop waits for its sources."""
    completed = Task.checkpoint_completed

    def going_on(self: Task, message: NotifyCheckpointComplete) -> Sequence[TaskEffect]:
        final = self._first_final_checkpoint_id
        is_stop = self.is_source and self.state is STOPPED and message.attempt == self.attempt
        if not is_stop or final is None or message.checkpoint_id < final:
            return completed(self, message)
        reached()
        self._first_final_checkpoint_id = None
        effects = completed(self, message)
        self.state = RUNNING
        self.unread.append(None)
        return effects

    with replaced(Task, "checkpoint_completed", going_on):
        yield


@mutant(
    id="failed-savepoint-of-a-stop-ends-the-job",
    origin="arroyo#1128",
    breaks="liveness",
    summary="a savepoint that was to stop the job and cannot be taken fails the job for good",
)
def failed_savepoint_of_a_stop_ends_the_job(reached: Reached) -> Iterator[None]:
    """The job could go on from its last checkpoint."""

    def fatal(
        self: JobMaster,
        ending: EndWithSavepoint,
        outcome: RequestResolved,
        effects: Sequence[MasterEffect],
        now: int,
    ) -> Sequence[MasterEffect]:
        reached()
        assert self.attempt is not None
        ended = self.coordinator.handle(AttemptEnded(), now)
        failed = self._fail(f"the savepoint of the stop failed: {outcome.reason}", now)
        return (CancelTasks(self.attempt), *ended, *failed)

    with replaced(JobMaster, "_not_ended", fatal):
        yield
