"""Mutants of answers that come late or in another order: abort notices, acknowledgements, writes, clocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onceproof.engine.checkpoint.completed_store import CompletedCheckpointStore
from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import (
    CoordinatorEffect,
    DiscardHandle,
    MetadataFailed,
    MetadataStored,
    StoreMetadata,
)
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.connectors.two_phase import TwoPhaseCommitSinkFunction
from onceproof.engine.messages import AcknowledgeCheckpoint, NotifyCheckpointAborted
from onceproof.engine.state.rocksdb.backend import RocksDBStateBackend
from onceproof.engine.task.events import TaskEffect
from onceproof.engine.task.task import Task
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="abort-notice-commits-what-came-before",
    origin="FLINK-23759",
    breaks="consistent_cut",
    summary="a sink takes the abort notice of a checkpoint for news that all earlier ones are complete",
)
def abort_notice_commits(reached: Reached) -> Iterator[None]:
    """An earlier checkpoint may be pending still, or aborted as well."""

    def committing(self: TwoPhaseCommitSinkFunction, checkpoint_id: int) -> None:
        for pending in [each for each in self._pending.values() if each.checkpoint_id < checkpoint_id]:
            reached()
            del self._pending[pending.checkpoint_id]
            self.commit(pending.transaction)

    with replaced(TwoPhaseCommitSinkFunction, "notify_checkpoint_aborted", committing):
        yield


@mutant(
    id="abort-notice-cancels-all-uploads",
    origin="FLINK-17869",
    breaks="timeliness",
    summary="an abort notice cancels the uploads of all checkpoints that a task has under way",
)
def abort_notice_cancels_all_uploads(reached: Reached) -> Iterator[None]:
    """A notice that comes late cancels that of a newer checkpoint, which then waits for its time-out."""
    aborted = Task.checkpoint_aborted

    def cancelling(self: Task, message: NotifyCheckpointAborted) -> Sequence[TaskEffect]:
        if message.attempt == self.attempt:
            for checkpoint_id in [each for each in self._in_flight if each != message.checkpoint_id]:
                reached()
                del self._in_flight[checkpoint_id]
        return aborted(self, message)

    with replaced(Task, "checkpoint_aborted", cancelling):
        yield


@mutant(
    id="late-answer-deletes-shared-files",
    origin="FLINK-25395",
    breaks="no_error",
    summary="what a late acknowledgement names is deleted, with the shared files that others refer to",
    on_databases=True,
    unseen="late acknowledgements are rare, and runs on databases few",
)
def late_answer_deletes_shared_files(reached: Reached) -> Iterator[None]:
    """A completed checkpoint refers to files that are gone."""
    discard = CheckpointCoordinator.discard_unless_used

    def with_all_its_files(
        self: CheckpointCoordinator, message: AcknowledgeCheckpoint
    ) -> Sequence[CoordinatorEffect]:
        effects = discard(self, message)
        if not effects or effects == (DiscardHandle(message.handle),):
            return effects
        reached()
        return (DiscardHandle(message.handle),)

    with replaced(CheckpointCoordinator, "discard_unless_used", with_all_its_files):
        yield


@mutant(
    id="latest-checkpoint-by-the-wall-clock",
    origin="FLINK-4417",
    breaks="consistent_cut",
    summary="the latest of the retained checkpoints is that with the latest timestamp, not the highest id",
)
def latest_checkpoint_by_the_wall_clock(reached: Reached) -> Iterator[None]:
    """The wall clock may be set back between two checkpoints."""
    add = CompletedCheckpointStore.add

    def by_time(self: CompletedCheckpointStore, completed: CheckpointMetadata) -> list[CheckpointMetadata]:
        subsumed = add(self, completed)
        latest = max(self._retained, key=lambda each: (each.timestamp, each.checkpoint_id))
        if latest is not self.latest:
            reached()
            self.latest = latest
        return subsumed

    with replaced(CompletedCheckpointStore, "add", by_time):
        yield


@mutant(
    id="two-metadata-writes-at-a-time",
    origin="SPARK-51573",
    breaks="no_leaks",
    summary="the metadata of a checkpoint are written while those of an older one are still under way",
)
def two_metadata_writes_at_a_time(reached: Reached) -> Iterator[None]:
    """If the older write ends last, metadata appear of a checkpoint whose files have been deleted."""
    finalize, stored = CheckpointCoordinator._finalize_next, CheckpointCoordinator.metadata_stored
    failed = CheckpointCoordinator.metadata_failed

    def eager(self: CheckpointCoordinator, effects: list[CoordinatorEffect]) -> None:
        every = self.pending
        busy = {key for key, pending in every.items() if pending.finalizing}
        self.pending = {key: pending for key, pending in every.items() if key not in busy}
        begun = len(effects)
        finalize(self, effects)
        if busy and any(isinstance(effect, StoreMetadata) for effect in effects[begun:]):
            reached()
        left = self.pending
        self.pending = {key: pending for key, pending in every.items() if key in busy or key in left}

    def stored_if_known(self: CheckpointCoordinator, event: MetadataStored) -> Sequence[CoordinatorEffect]:
        return stored(self, event) if event.checkpoint_id in self.pending else ()

    def failed_if_known(self: CheckpointCoordinator, event: MetadataFailed) -> Sequence[CoordinatorEffect]:
        return failed(self, event) if event.checkpoint_id in self.pending else ()

    with (
        replaced(CheckpointCoordinator, "_finalize_next", eager),
        replaced(CheckpointCoordinator, "metadata_stored", stored_if_known),
        replaced(CheckpointCoordinator, "metadata_failed", failed_if_known),
    ):
        yield


@mutant(
    id="files-known-over-an-empty-snapshot",
    origin="SPARK-11979",
    breaks="no_error",
    summary="a database names files of an earlier checkpoint though one of an empty database came between",
    on_databases=True,
    unseen="a database is seldom empty at one checkpoint and not at those before and after it",
)
def files_known_over_an_empty_snapshot(reached: Reached) -> Iterator[None]:
    """That one refers to no file, so they are deleted once it is complete."""

    def all_known(self: RocksDBStateBackend) -> dict[str, Any]:
        if None in self._snapshots.values() and self._stored_files:
            reached()
        return self._stored_files

    with replaced(RocksDBStateBackend, "_known_files", property(all_known)):
        yield
