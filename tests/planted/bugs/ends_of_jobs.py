"""Mutants of a job that ends, and of the savepoints with which it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import (
    CoordinatorEffect,
    DiscardSharedFiles,
    MetadataStored,
    StartScheduler,
)
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.connectors.two_phase import CommitFailed, TwoPhaseCommitSinkFunction
from onceproof.engine.functions import FunctionSnapshotContext
from onceproof.engine.job.end_with_savepoint import EndWithSavepoint
from onceproof.engine.job.events import MasterEffect
from onceproof.engine.job.master import JobMaster
from onceproof.engine.messages import SAVEPOINT, NotifyCheckpointComplete
from onceproof.engine.task.events import TaskEffect
from onceproof.engine.task.task import Task
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="refused-stop-ends-the-checkpoints",
    origin="FLINK-15152",
    breaks="liveness",
    summary="after a stop that could not begin the job runs on, and takes no checkpoint any more",
)
def refused_stop_ends_the_checkpoints(reached: Reached) -> Iterator[None]:
    """A stop switches the periodic checkpoints off before it asks for its savepoint."""
    begin, start = JobMaster.begin_ending, CheckpointCoordinator.start_scheduler
    beginning: list[bool] = []

    def begun(self: JobMaster, ending: EndWithSavepoint, now: int) -> Sequence[MasterEffect]:
        beginning.append(True)
        try:
            return begin(self, ending, now)
        finally:
            beginning.pop()

    def left_off(self: CheckpointCoordinator, event: StartScheduler) -> Sequence[CoordinatorEffect]:
        if beginning:
            reached()
            return ()
        return start(self, event)

    with (
        replaced(JobMaster, "begin_ending", begun),
        replaced(CheckpointCoordinator, "start_scheduler", left_off),
    ):
        yield


@mutant(
    id="failure-of-the-last-commit-is-ignored",
    origin="FLINK-26783",
    breaks="exactly_once",
    summary="a task that has taken its final checkpoint finishes although its last commit has failed",
)
def failure_of_the_last_commit_is_ignored(reached: Reached) -> Iterator[None]:
    """Nothing restores that checkpoint any more once the job has finished."""
    completed = Task.checkpoint_completed

    def carefree(self: Task, message: NotifyCheckpointComplete) -> Sequence[TaskEffect]:
        try:
            return completed(self, message)
        except CommitFailed:
            final = self._first_final_checkpoint_id
            if final is None or message.checkpoint_id < final:
                raise
            reached()
            return self.finish()

    with replaced(Task, "checkpoint_completed", carefree):
        yield


@mutant(
    id="failover-forgets-the-savepoint-of-the-stop",
    origin="FLINK-20441",
    breaks="exactly_once",
    summary="a task fails before the savepoint of a stop is committed, and an older checkpoint is restored",
)
def failover_forgets_the_savepoint(reached: Reached) -> Iterator[None]:
    """The attempt that is to commit the savepoint commits an older checkpoint, and the job has stopped."""

    def checkpoints_only(self: CheckpointCoordinator) -> CheckpointMetadata | None:
        if self.stopped_with is not None:
            reached()
        return self.store.latest

    with replaced(CheckpointCoordinator, "latest", property(checkpoints_only)):
        yield


@mutant(
    id="savepoint-notifies-the-tasks",
    origin="FLINK-10354",
    breaks="consistent_cut",
    summary="sinks commit what a savepoint lists, which no failover restores",
)
def savepoint_notifies_the_tasks(reached: Reached) -> Iterator[None]:
    """After a failure the job goes on from the checkpoint before it, and writes the same rows again."""
    stored = CheckpointCoordinator.metadata_stored

    def notifying(self: CheckpointCoordinator, event: MetadataStored) -> Sequence[CoordinatorEffect]:
        pending = self.pending[event.checkpoint_id]
        effects = list(stored(self, event))
        if pending.kind == SAVEPOINT:
            reached()
            self.notify(pending, 0, effects)
        return effects

    with replaced(CheckpointCoordinator, "metadata_stored", notifying):
        yield


@mutant(
    id="savepoint-releases-shared-files",
    origin="FLINK-21351",
    breaks="no_error",
    summary="a savepoint releases the shared files of the checkpoints before it, as a checkpoint would",
    on_databases=True,
)
def savepoint_releases_shared_files(reached: Reached) -> Iterator[None]:
    """The latest checkpoint is older than the savepoint, and refers to files that are gone."""
    stored = CheckpointCoordinator.metadata_stored

    def releasing(self: CheckpointCoordinator, event: MetadataStored) -> Sequence[CoordinatorEffect]:
        kind = self.pending[event.checkpoint_id].kind
        effects = list(stored(self, event))
        unused = self._shared.unregister_unused(event.checkpoint_id) if kind == SAVEPOINT else []
        if unused:
            reached()
            effects.append(DiscardSharedFiles(tuple(unused)))
        return effects

    with replaced(CheckpointCoordinator, "metadata_stored", releasing):
        yield


@mutant(
    id="transaction-begun-behind-the-end",
    origin="FLINK-23473",
    breaks="no_leaks",
    summary="a sink begins a transaction with each checkpoint behind the end of its input, and never ends it",
)
def transaction_begun_behind_the_end(reached: Reached) -> Iterator[None]:
    """The external system keeps it open."""
    snapshot, close = TwoPhaseCommitSinkFunction.snapshot_state, TwoPhaseCommitSinkFunction.close

    def beginning(self: TwoPhaseCommitSinkFunction, context: FunctionSnapshotContext) -> None:
        snapshot(self, context)
        if self._finished and self._open is None and not self._ends_with_snapshot:
            reached()
            self._begin(context.get_checkpoint_id())

    def leaving(self: TwoPhaseCommitSinkFunction) -> None:
        if self._finished:
            self._open = None
        close(self)

    with (
        replaced(TwoPhaseCommitSinkFunction, "snapshot_state", beginning),
        replaced(TwoPhaseCommitSinkFunction, "close", leaving),
    ):
        yield
