"""What a process finds of its predecessors in the job's checkpoint directory, and how it leaves it.

The directory alone decides: no other memory of the job survives its process.

- ``incarnation-<n>``: created exclusively by each process at its start, so that no two attempts of the job
  ever share a name; older markers are deleted.
- ``chk-<n>/_metadata``: checkpoint n is complete. It is deleted first when the checkpoint is discarded, so
  that a half-deleted checkpoint is none.
- ``finished``: the job has finished. It is written before the checkpoints are deleted, so that a restart in
  between does not begin afresh, but deletes the rest of them.
- Every other file under ``chk-<n>`` that no complete checkpoint lists was left by a process that died, and is
  deleted. What has another name is not ours, and stays: a copy ``chk-7.bak``, say.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from msgspec import Struct

from engine.checkpoint.metadata import CheckpointMetadata, decode_metadata
from engine.checkpoint.store import CompletedCheckpointStore

FINISHED = "finished"
INCARNATION = "incarnation-"
METADATA = "_metadata"

_CHECKPOINT_FILE: Final = re.compile(r"chk-(0|[1-9][0-9]*)/(.+)")
_MARKER: Final = re.compile(INCARNATION + "([1-9][0-9]*)")


class RecoverableStorage(Protocol):
    """The part of a checkpoint storage that recovery needs; paths are relative to the job's directory."""

    def read(self, path: str) -> bytes:
        """The content of a file."""
        ...

    def list(self, prefix: str) -> list[str]:
        """All files under a prefix, sorted."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; one that is not there is fine."""
        ...

    def create_exclusive(self, path: str) -> bool:
        """Create an empty file; False where it exists."""
        ...


class Recovered(Struct, frozen=True):
    """What was found: who we are, and the complete checkpoints, oldest first."""

    incarnation: int
    checkpoints: tuple[CheckpointMetadata, ...]
    finished: bool


def metadata_path(checkpoint_id: int) -> str:
    """Where the metadata of a checkpoint lies."""
    return f"chk-{checkpoint_id}/{METADATA}"


def discard_checkpoint(storage: RecoverableStorage, checkpoint_id: int) -> None:
    """Delete a checkpoint, its metadata first."""
    storage.delete(metadata_path(checkpoint_id))
    for path in storage.list(f"chk-{checkpoint_id}/"):
        storage.delete(path)


def recover(storage: RecoverableStorage, num_retained: int) -> Recovered:
    """Claim an incarnation, read what is complete, delete what nobody needs.

    Raises DamagedFile where the metadata of a retained checkpoint cannot be read: going on from an older one
    would commit again what the damaged one covers.
    """
    paths = storage.list("")
    incarnation = _claim(storage, paths)
    if not paths:
        return Recovered(incarnation, (), finished=False)
    if FINISHED in paths:
        sweep(storage, ())
        return Recovered(incarnation, (), finished=True)
    found = [_CHECKPOINT_FILE.fullmatch(path) for path in paths]
    ids = sorted(int(match[1]) for match in found if match is not None and match[2] == METADATA)
    store = CompletedCheckpointStore(num_retained)
    for checkpoint_id in ids[-num_retained:]:
        path = metadata_path(checkpoint_id)
        store.add(decode_metadata(storage.read(path), path))
    kept = tuple(store.retained)
    sweep(storage, kept)
    return Recovered(incarnation, kept, finished=False)


def sweep(storage: RecoverableStorage, kept: tuple[CheckpointMetadata, ...]) -> None:
    """Delete every file under ``chk-*`` that no kept checkpoint lists, metadata first."""
    listed = {metadata_path(metadata.checkpoint_id) for metadata in kept}
    for metadata in kept:
        listed.update(files_of(metadata))
    unlisted = [
        path for path in storage.list("chk-") if path not in listed and _CHECKPOINT_FILE.fullmatch(path)
    ]
    for path in sorted(unlisted, key=lambda path: not path.endswith("/" + METADATA)):
        storage.delete(path)


def retire(storage: RecoverableStorage) -> None:
    """The job has finished: say so durably, then delete all its checkpoints."""
    storage.create_exclusive(FINISHED)
    sweep(storage, ())


def files_of(metadata: CheckpointMetadata) -> set[str]:
    """The files that a checkpoint's metadata refers to."""
    return {
        path
        for operator in metadata.operators
        for subtask in operator.subtasks
        if subtask.handle is not None
        for path in subtask.handle.paths
    }


def _claim(storage: RecoverableStorage, paths: list[str]) -> int:
    claimed = [int(match[1]) for path in paths if (match := _MARKER.fullmatch(path)) is not None]
    incarnation = max(claimed, default=0) + 1
    while not storage.create_exclusive(f"{INCARNATION}{incarnation}"):
        incarnation += 1
    for earlier in claimed:
        storage.delete(f"{INCARNATION}{earlier}")
    return incarnation
