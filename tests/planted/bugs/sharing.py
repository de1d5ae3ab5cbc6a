"""Mutants of incremental checkpoints: shared files are deleted too early or never.

Later checkpoints refer to files that an earlier one stored. If a file is deleted too early, they cannot be
restored; if it is never deleted, the disk fills up.
"""

from __future__ import annotations

from collections.abc import Iterator

from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import CoordinatorEffect, DiscardSharedFiles
from onceproof.engine.checkpoint.metadata import StateHandle
from onceproof.engine.checkpoint.pending import PendingCheckpoint
from onceproof.engine.checkpoint.shared_registry import SharedStateRegistry
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="abort-discards-shared-files",
    breaks="no_error",
    summary="an aborted checkpoint deletes the files that it shares with others",
    on_databases=True,
)
def abort_discards_shared_files(reached: Reached) -> Iterator[None]:
    """It owns the files that it stored itself, but not the others that it refers to."""
    abort = CheckpointCoordinator.abort

    def with_all_its_files(
        self: CheckpointCoordinator,
        pending: PendingCheckpoint,
        reason: str,
        effects: list[CoordinatorEffect],
    ) -> None:
        abort(self, pending, reason, effects)
        entries = self._shared._entries
        paths = [
            entries[file.sha256].path
            for answer in pending._answers.values()
            if isinstance(answer.handle, StateHandle)
            for file in answer.handle.files
            if file.is_shared and file.sha256 in entries
        ]
        if paths:
            reached()
            effects.append(DiscardSharedFiles(tuple(paths)))

    with replaced(CheckpointCoordinator, "abort", with_all_its_files):
        yield


@mutant(
    id="failed-checkpoint-leaves-shared-files",
    breaks="no_leaks",
    summary="files that an incremental checkpoint stored before it failed are never deleted",
    on_databases=True,
)
def failed_checkpoint_leaves_shared_files(reached: Reached) -> Iterator[None]:
    """When a checkpoint is subsumed, only files of completed checkpoints are considered for deletion."""
    unregister_unused = SharedStateRegistry.unregister_unused

    def of_complete_ones(self: SharedStateRegistry, lowest_checkpoint_id: int) -> list[str]:
        failed = {entry.path for entry in self._entries.values() if not entry.is_confirmed}
        unused = unregister_unused(self, lowest_checkpoint_id)
        if not failed.isdisjoint(unused):
            reached()
        return [path for path in unused if path not in failed]

    with replaced(SharedStateRegistry, "unregister_unused", of_complete_ones):
        yield


@mutant(
    id="shared-files-counted-from-their-first-use",
    breaks="no_error",
    summary="a shared file is deleted with the checkpoint that stored it, although later ones use it",
    on_databases=True,
)
def shared_files_go_with_the_first(reached: Reached) -> Iterator[None]:
    """The registry records the first checkpoint that used a file instead of the last."""
    register = SharedStateRegistry.register

    def first(
        self: SharedStateRegistry, checkpoint_id: int, content: str, path: str
    ) -> tuple[str, str | None]:
        entry = self._entries.get(content)
        if entry is None:
            return register(self, checkpoint_id, content, path)
        before = entry.last_used_by
        answer = register(self, checkpoint_id, content, path)
        if entry.last_used_by != before:
            reached()
            entry.last_used_by = before
        return answer

    with replaced(SharedStateRegistry, "register", first):
        yield
