"""Mutants of savepoints: their ownership, their commits, and the restart after a stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import CoordinatorEffect, MetadataStored
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.messages import CHECKPOINT, SAVEPOINT
from onceproof.engine.runtime import job_driver, job_startup
from onceproof.engine.runtime.checkpoint_history import HistoryStorage, JobHistory
from onceproof.engine.runtime.job_requests import publish_metadata
from onceproof.engine.runtime.job_startup import Find, add_starting_point
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.runtime.starting_point import StartingPoint
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="savepoint-subsumes",
    breaks="no_leaks",
    summary="a savepoint replaces the last checkpoint, which is deleted",
)
def savepoint_subsumes(reached: Reached) -> Iterator[None]:
    """Flink before 1.15 did this: the user may delete the savepoint, and its completion is not notified."""
    stored = CheckpointCoordinator.metadata_stored

    def subsuming(self: CheckpointCoordinator, event: MetadataStored) -> Sequence[CoordinatorEffect]:
        pending = self.pending[event.checkpoint_id]
        latest = self.store.latest
        if pending.kind == SAVEPOINT and (latest is None or latest.checkpoint_id < pending.checkpoint_id):
            reached()
            pending.kind = CHECKPOINT
        return stored(self, event)

    with replaced(CheckpointCoordinator, "metadata_stored", subsuming):
        yield


@mutant(
    id="savepoint-commits-without-restore-point",
    breaks="exactly_once",
    summary="the savepoint of a stop is committed, but the next process restores the checkpoint before it",
)
def savepoint_commits_without_restore_point(reached: Reached) -> Iterator[None]:
    """Flink up to 2.3 restores the last checkpoint where a task fails between the savepoint and the end."""

    def forgetful(
        storage: HistoryStorage,
        history: JobHistory,
        metadata: CheckpointMetadata,
        begins_from: StartingPoint | None,
    ) -> None:
        if begins_from is not None:
            reached()
        publish_metadata(storage, history, metadata, None)

    with replaced(job_driver, "publish_metadata", forgetful):
        yield


@mutant(
    id="unclaimed-savepoint-deleted",
    breaks="no_leaks",
    summary="a savepoint that was not claimed is deleted when the job has a checkpoint of its own",
)
def unclaimed_savepoint_deleted(reached: Reached) -> Iterator[None]:
    """The savepoint belongs to its user, who may restore it again."""

    def claiming(recovered: Recovered, find: Find, num_retained: int, *, is_claimed: bool) -> Recovered:
        if recovered.starting_point.path and not is_claimed:
            reached()
        return add_starting_point(recovered, find, num_retained, is_claimed=True)

    with replaced(job_startup, "add_starting_point", claiming):
        yield
