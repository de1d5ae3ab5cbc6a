"""What a process finds of its predecessors in the job's checkpoint directory, and how it leaves it.

The directory alone decides: no other memory of the job survives its process.

- ``incarnation-<n>``: created exclusively by each process at its start, so that no two attempts of the job
  ever share a name; older markers are deleted. So a process that finds its own gone has been taken for dead:
  another one runs the job, and whatever the first would publish, deploy or delete from then on is refused.
- ``chk-<n>/_metadata``: checkpoint n is complete. It is deleted first when the checkpoint is discarded, so
  that a half-deleted checkpoint is none.
- ``finished``: the job has finished. It is written before the checkpoints are deleted, so that a restart in
  between does not begin afresh, but deletes the rest of them.
- ``starting-point``: what the job has begun from, if not from nothing (starting_point.py). Checkpoints from
  before are not restored; they are deleted once one that comes after it is complete.
- Every other file under ``chk-<n>`` or ``shared`` that no complete checkpoint lists was left by a process
  that died, and is deleted. What has another name is not ours, and stays: a copy ``chk-7.bak``, say.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import CheckpointMetadata, decode_metadata
from onceproof.engine.checkpoint.verification import damages_of
from onceproof.engine.messages import CHECKPOINT, Kind, checkpoint_folder
from onceproof.engine.runtime.deletion import deletion_may_fail
from onceproof.engine.runtime.starting_point import (
    FROM_NOTHING,
    STARTING_POINT,
    StartingPoint,
    read_starting_point,
    write_starting_point,
)
from onceproof.engine.state.files import DamagedFile
from onceproof.engine.state.stored import SHARED

_logger = logging.getLogger(__name__)

FINISHED = "finished"
INCARNATION = "incarnation-"
METADATA = "_metadata"

_CHECKPOINT_FILE: Final = re.compile(r"chk-(0|[1-9][0-9]*)/(.+)")
_SHARED_FILE: Final = re.compile(re.escape(SHARED) + r"chk-(0|[1-9][0-9]*)\..+")
_MARKER: Final = re.compile(INCARNATION + "([1-9][0-9]*)")


class Superseded(OSError):
    """Another process has claimed the job since this one did. The message is one line."""


class RecoverableStorage(Protocol):
    """The part of a checkpoint storage that recovery needs; paths are relative to the job's directory."""

    def read(self, path: str) -> bytes:
        """The content of a file."""
        ...

    def list(self, prefix: str) -> list[str]:
        """All files under a prefix, sorted."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        ...

    def publish(self, path: str, data: bytes) -> None:
        """Write a file durably, so that it is seen whole or not at all."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; one that is not there is fine."""
        ...

    def create_exclusive(self, path: str) -> bool:
        """Create an empty file; False where it exists."""
        ...


class Recovered(Struct, frozen=True):
    """What was found: who we are, and the complete checkpoints to go on from, oldest first.

    ``former`` are the ids of those from before the starting point, and of damaged ones that were passed over.
    ``claimed`` are the files of the oldest of ``checkpoints`` where it lies elsewhere and is to be deleted
    all the same.
    """

    incarnation: int
    checkpoints: tuple[CheckpointMetadata, ...]
    finished: bool
    starting_point: StartingPoint = FROM_NOTHING
    former: tuple[int, ...] = ()
    claimed: tuple[str, ...] = ()
    outlived: tuple[str, ...] = ()
    """The same of one that newer ones have taken the place of already."""


def metadata_path(checkpoint_id: int, kind: Kind = CHECKPOINT) -> str:
    """Where the metadata of a checkpoint lies."""
    return f"{checkpoint_folder(checkpoint_id, kind)}/{METADATA}"


def discard_checkpoint(storage: RecoverableStorage, checkpoint_id: int, kind: Kind = CHECKPOINT) -> None:
    """Delete a checkpoint, its metadata first."""
    storage.delete(metadata_path(checkpoint_id, kind))
    for path in storage.list(f"{checkpoint_folder(checkpoint_id, kind)}/"):
        storage.delete(path)


def discard_former(
    storage: RecoverableStorage, checkpoint_id: int, retained: Iterable[CheckpointMetadata]
) -> None:
    """Delete a checkpoint from before the starting point, with what it shares with no retained one.

    What a damaged one shares nobody can say; the end of the job deletes it.
    """
    path = metadata_path(checkpoint_id)
    shared: set[str] = set()
    with suppress(OSError, DamagedFile):
        shared = {
            name for name in files_of(decode_metadata(storage.read(path), path)) if name.startswith(SHARED)
        }
    discard_checkpoint(storage, checkpoint_id)
    for metadata in retained:
        shared -= files_of(metadata)
    for name in sorted(shared):
        storage.delete(name)


def recover(
    storage: RecoverableStorage,
    num_retained: int,
    begins_from: StartingPoint | None = None,
    *,
    skips_damaged: bool = False,
) -> Recovered:
    """Claim an incarnation, read what is complete, delete what nobody needs, as far as that can be done now.

    ``begins_from`` is what the job shall begin from now, whatever it was before. ``skips_damaged``: what is
    damaged is passed over with a warning, if something else is left; it stays until a newer one is complete.

    Raises DamagedFile where the metadata of a retained checkpoint cannot be read: going on from an older one
    would commit again what the damaged one covers.
    """
    paths = storage.list("")
    incarnation = _claim(storage, paths, 0 if begins_from is None else begins_from.incarnation)
    found = [_CHECKPOINT_FILE.fullmatch(path) for path in paths]
    ids = sorted(int(match[1]) for match in found if match is not None and match[2] == METADATA)
    point = _starting_point(storage, paths, ids, begins_from)
    if point.had_finished:
        storage.delete(FINISHED)
        point = replace(point, had_finished=False)
        write_starting_point(storage, point)
    elif FINISHED in paths:
        with deletion_may_fail():
            sweep(storage, (), point.spared)
        return Recovered(incarnation, (), finished=True, starting_point=point)
    retained = [each for each in ids if each > point.last_id][-num_retained:]
    kept = _complete(storage, retained, skips_damaged)
    former = () if kept else tuple(each for each in ids if each <= point.last_id)
    whole = {metadata.checkpoint_id for metadata in kept}
    former = (*former, *[each for each in retained if each not in whole])
    if paths:
        with deletion_may_fail():
            sweep(storage, kept, (*point.spared, *former))
    former = tuple(each for each in former if each not in point.spared)
    return Recovered(incarnation, kept, False, point, former)


def _read(storage: RecoverableStorage, checkpoint_id: int) -> CheckpointMetadata:
    path = metadata_path(checkpoint_id)
    return decode_metadata(storage.read(path), path)


def _complete(
    storage: RecoverableStorage, checkpoint_ids: Collection[int], skips_damaged: bool
) -> tuple[CheckpointMetadata, ...]:
    """Read complete checkpoints: all of them, or those that are whole."""
    if skips_damaged:
        return _whole(storage, checkpoint_ids)
    return tuple(_read(storage, each) for each in checkpoint_ids)


def _whole(storage: RecoverableStorage, checkpoint_ids: Collection[int]) -> tuple[CheckpointMetadata, ...]:
    """Read those of which every file is whole, and say of the others why they are passed over.

    Raises the DamagedFile of the newest where none is whole.
    """
    whole: list[CheckpointMetadata] = []
    newest: DamagedFile | None = None
    for checkpoint_id in checkpoint_ids:
        try:
            metadata = _read(storage, checkpoint_id)
            for damage in damages_of(metadata, storage.read):
                raise DamagedFile(damage.path, damage.what)
        except DamagedFile as error:
            newest = error
            _logger.warning("checkpoint %d is passed over: %s: %s", checkpoint_id, error.path, error.what)
        else:
            whole.append(metadata)
    if newest is not None:
        if not whole:
            raise newest
        _logger.warning(
            "the job goes on from checkpoint %d: what was committed since then may be committed again",
            whole[-1].checkpoint_id,
        )
    return tuple(whole)


def _starting_point(
    storage: RecoverableStorage, paths: list[str], ids: list[int], begins_from: StartingPoint | None
) -> StartingPoint:
    """What is on record, or what replaces it."""
    if begins_from is None:
        return read_starting_point(storage) if STARTING_POINT in paths else FROM_NOTHING
    last_id = max([begins_from.last_id, *ids])
    point = replace(begins_from, last_id=last_id, had_finished=FINISHED in paths)
    write_starting_point(storage, point)
    return point


def sweep(
    storage: RecoverableStorage, kept: tuple[CheckpointMetadata, ...], spared: Collection[int] = ()
) -> None:
    """Delete every file under ``chk-*`` and ``shared`` that no kept checkpoint lists, metadata first.

    ``spared`` are the ids of checkpoints of which nothing is deleted.
    """
    listed = {metadata_path(metadata.checkpoint_id) for metadata in kept}
    for metadata in kept:
        listed.update(files_of(metadata))
    folders = {checkpoint_folder(checkpoint_id) for checkpoint_id in spared}
    unlisted = [
        path
        for path in storage.list("chk-")
        if path not in listed and _CHECKPOINT_FILE.fullmatch(path) and path.partition("/")[0] not in folders
    ]
    for path in sorted(unlisted, key=lambda path: not path.endswith("/" + METADATA)):
        storage.delete(path)
    _sweep_shared(storage, listed, spared)


def _sweep_shared(storage: RecoverableStorage, listed: Collection[str], spared: Collection[int]) -> None:
    """Delete what checkpoints have shared and none refers to any more."""
    shared = [path for path in storage.list(SHARED) if path not in listed and _SHARED_FILE.fullmatch(path)]
    if not shared:
        return
    needed: set[str] = set()
    for checkpoint_id in spared:
        path = metadata_path(checkpoint_id)
        if not storage.list(path):
            continue
        try:
            needed |= files_of(decode_metadata(storage.read(path), path))
        except DamagedFile:
            # Nobody can say any more what it needs, and it is not ours to delete.
            return
    for path in shared:
        if path not in needed:
            storage.delete(path)


def retire(storage: RecoverableStorage, spared: Collection[int] = ()) -> None:
    """The job has finished: say so durably, then delete all its checkpoints."""
    storage.create_exclusive(FINISHED)
    sweep(storage, (), spared)


def files_of(metadata: CheckpointMetadata) -> set[str]:
    """The files that a checkpoint's metadata refers to."""
    return {
        path
        for operator in metadata.operators
        for subtask in operator.subtasks
        if subtask.handle is not None
        for path in subtask.handle.paths
    }


def is_claimed_by(storage: RecoverableStorage, incarnation: int) -> bool:
    """Whether the job is still that process's own."""
    return storage.exists(f"{INCARNATION}{incarnation}")


def _claim(storage: RecoverableStorage, paths: list[str], above: int) -> int:
    claimed = [int(match[1]) for path in paths if (match := _MARKER.fullmatch(path)) is not None]
    incarnation = max([above, *claimed]) + 1
    while not storage.create_exclusive(f"{INCARNATION}{incarnation}"):
        incarnation += 1
    for earlier in claimed:
        storage.delete(f"{INCARNATION}{earlier}")
    return incarnation
