"""Mutants of retention: what the job must keep is deleted before a newer checkpoint replaces it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onceproof.engine.checkpoint.completed_store import CompletedCheckpointStore
from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import (
    CoordinatorEffect,
    DiscardCheckpoint,
    DiscardSharedFiles,
    MetadataStored,
)
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.messages import CHECKPOINT, SAVEPOINT
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="oldest-retained-loses-shared-files",
    breaks="restore_anywhere",
    summary="shared files that only the oldest retained checkpoint uses are deleted",
    on_databases=True,
)
def oldest_retained_loses_shared_files(reached: Reached) -> Iterator[None]:
    """The latest checkpoint is whole, so no restart notices."""
    stored = CheckpointCoordinator.metadata_stored

    def one_too_many(self: CheckpointCoordinator, event: MetadataStored) -> Sequence[CoordinatorEffect]:
        effects = stored(self, event)
        retained = self.store.retained
        unused = self._shared.unregister_unused(retained[1].checkpoint_id) if len(retained) > 1 else []
        if not unused:
            return effects
        reached()
        return (*effects, DiscardSharedFiles(tuple(unused)))

    with replaced(CheckpointCoordinator, "metadata_stored", one_too_many):
        yield


@mutant(
    id="retained-checkpoint-deleted-early",
    breaks="restore_anywhere",
    summary="the job keeps one checkpoint fewer than its setting says",
)
def retained_checkpoint_deleted_early(reached: Reached) -> Iterator[None]:
    """A restart takes the latest one, so only a user who restores an older one notices."""
    add = CompletedCheckpointStore.add

    def fewer(self: CompletedCheckpointStore, completed: CheckpointMetadata) -> list[CheckpointMetadata]:
        subsumed = add(self, completed)
        if subsumed and len(self._retained) > 1:
            reached()
            subsumed.append(self._retained.pop(0))
        return subsumed

    with replaced(CompletedCheckpointStore, "add", fewer):
        yield


@mutant(
    id="subsumed-with-its-savepoints",
    breaks="no_leaks",
    summary="with the checkpoint that a new one replaces, older savepoints are deleted",
)
def subsumed_with_its_savepoints(reached: Reached) -> Iterator[None]:
    """A savepoint belongs to its user."""
    stored = CheckpointCoordinator.metadata_stored
    savepoints: dict[int, list[int]] = {}

    def with_savepoints(self: CheckpointCoordinator, event: MetadataStored) -> Sequence[CoordinatorEffect]:
        kind = self.pending[event.checkpoint_id].kind
        effects = list(stored(self, event))
        taken = savepoints.setdefault(id(self), [])
        if kind == SAVEPOINT:
            taken.append(event.checkpoint_id)
        elif kind == CHECKPOINT:
            while taken and any(isinstance(effect, DiscardCheckpoint) for effect in effects):
                reached()
                effects.append(DiscardCheckpoint(taken.pop(), SAVEPOINT))
        return effects

    with replaced(CheckpointCoordinator, "metadata_stored", with_savepoints):
        yield
