"""Mutants of durability: one sync of the checkpoint storage is left out.

Only a power cut shows that: a process that dies alone leaves the cache of the machine as it is. The sync of
the folder in ``write`` is not here: the metadata of a checkpoint lie beside its snapshots, and their sync
makes all names durable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onceproof.engine.file_calls import FileCalls
from onceproof.engine.runtime import storage
from onceproof.engine.runtime.storage import LocalCheckpointStorage
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import SMALL_JOBS, Reached, mutant


class WithoutSync:
    """File calls of which the syncs of some files or folders do nothing."""

    def __init__(self, calls: Any, is_left_out: Callable[[str, int], bool], reached: Reached) -> None:
        self._calls = calls
        self._is_left_out = is_left_out
        self._reached = reached
        self._left_out: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._calls, name)

    def open(self, path: str, flags: int) -> int:
        """Open a file or folder, and remember whether it is one whose sync is left out."""
        descriptor: int = self._calls.open(path, flags)
        self._left_out.discard(descriptor)
        if self._is_left_out(path, flags):
            self._left_out.add(descriptor)
        return descriptor

    def fsync(self, descriptor: int) -> None:
        """Sync what is not left out."""
        if descriptor in self._left_out:
            self._reached()
        else:
            self._calls.fsync(descriptor)


@contextmanager
def without_sync(
    method: str, is_left_out: Callable[[LocalCheckpointStorage, str, int], bool], reached: Reached
) -> Iterator[None]:
    """Leave syncs out while a method of the storage runs: those of which ``is_left_out`` returns True."""
    sound = getattr(LocalCheckpointStorage, method)

    def careless(self: LocalCheckpointStorage, *arguments: Any) -> Any:
        calls = self._calls
        self._calls = WithoutSync(calls, lambda path, flags: is_left_out(self, path, flags), reached)
        try:
            return sound(self, *arguments)
        finally:
            self._calls = calls

    with replaced(LocalCheckpointStorage, method, careless):
        yield


def _is_file(storage: LocalCheckpointStorage, path: str, flags: int) -> bool:
    return not flags & os.O_DIRECTORY


def _is_root(storage: LocalCheckpointStorage, path: str, flags: int) -> bool:
    return bool(flags & os.O_DIRECTORY) and path == storage.root


def _is_checkpoint_folder(storage: LocalCheckpointStorage, path: str, flags: int) -> bool:
    return bool(flags & os.O_DIRECTORY) and path != storage.root


@mutant(
    id="snapshot-not-synced",
    breaks="liveness",
    summary="the content of a snapshot is not synced before the task acknowledges",
)
def snapshot_is_not_synced(reached: Reached) -> Iterator[None]:
    """After a power cut a complete checkpoint lists a file that is empty or damaged."""
    with without_sync("write", _is_file, reached):
        yield


@mutant(
    id="checkpoint-folder-not-synced",
    breaks="consistent_cut",
    summary="the folder of a checkpoint is made, and its name is not synced",
    families=SMALL_JOBS,
)
def checkpoint_folder_is_not_synced(reached: Reached) -> Iterator[None]:
    """A power cut loses the whole checkpoint, which sinks have committed.

    The name is synced where a snapshot makes the folder, and again where metadata are published or found.
    Either sync makes up for the other, so both are left out.
    """

    def unsynced(calls: FileCalls, folder: str, root: str) -> None:
        if folder != root:
            reached()

    with without_sync("write", _is_root, reached), replaced(storage, "sync_parent", unsynced):
        yield


@mutant(
    id="metadata-not-synced",
    breaks="no_error",
    summary="the content of metadata is not synced before they are published",
)
def metadata_are_not_synced(reached: Reached) -> Iterator[None]:
    """The rename survives a power cut, and the content does not."""
    with without_sync("publish", _is_file, reached):
        yield


@mutant(
    id="published-name-not-synced",
    breaks="consistent_cut",
    summary="the rename that publishes metadata is not synced before sinks commit",
)
def published_name_is_not_synced(reached: Reached) -> Iterator[None]:
    """A power cut undoes it: the job goes on from an older checkpoint than the one that was committed."""
    with without_sync("publish", _is_checkpoint_folder, reached):
        yield


@mutant(
    id="claim-not-synced",
    breaks="no_error",
    summary="the marker with which a process claims the job is not synced",
)
def claim_is_not_synced(reached: Reached) -> Iterator[None]:
    """After a power cut the next process gets the same number, and its attempts the same names."""
    with without_sync("create_exclusive", _is_root, reached):
        yield
