"""Recovery: what a process finds in the job's checkpoint directory, and how it cleans that up.

The files of the directory decide; no other memory of the job survives its process:

- ``incarnation-<n>``: each process creates one exclusively at its start and deletes older ones, so that no
  two attempts of the job share a name. A process whose marker is gone is superseded: another process runs the
  job, and the first must not publish, deploy or delete from then on.
- ``chk-<n>/_metadata``: checkpoint n is complete. Discarding a checkpoint deletes this file first, so a
  half-deleted checkpoint is not restored.
- ``finished``: the job has finished. It is written before the checkpoints are deleted, so a restart in
  between does not begin the job again, but deletes the rest of the checkpoints.
- ``starting-point``: the savepoint or checkpoint that the job has restored first (starting_point.py).
  Checkpoints from before it are not restored; they are deleted once a later one is complete.
- Any other file under ``chk-<n>`` or ``shared`` that no complete checkpoint lists was left by a dead process,
  and is deleted. Files with other names, such as a copy ``chk-7.bak``, are not touched.
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
from onceproof.engine.runtime.deletion import NEXT_START, deletion_may_fail
from onceproof.engine.runtime.starting_point import (
    FROM_NOTHING,
    STARTING_POINT,
    StartingPoint,
    read_starting_point,
    write_starting_point,
)
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.engine.state.stored import SHARED

_logger = logging.getLogger(__name__)

FINISHED = "finished"
INCARNATION = "incarnation-"
METADATA = "_metadata"

_CHECKPOINT_FILE: Final = re.compile(r"chk-(0|[1-9][0-9]{0,17})/(.+)")
_SHARED_FILE: Final = re.compile(re.escape(SHARED) + r"chk-(0|[1-9][0-9]{0,17})\..+")
_MARKER: Final = re.compile(INCARNATION + "([1-9][0-9]{0,17})")


class Superseded(OSError):
    """Another process has claimed the job since this one did. The message is one line."""


class RecoverableStorage(Protocol):
    """The part of a checkpoint storage that recovery needs; paths are relative to the job's directory."""

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        ...

    def list(self, prefix: str) -> list[str]:
        """Return the sorted paths that begin with a prefix."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether the file exists."""
        ...

    def publish(self, path: str, data: bytes) -> None:
        """Write a file durably and atomically."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; do nothing if it is not there."""
        ...

    def create_exclusive(self, path: str) -> bool:
        """Create an empty file; return False if it exists."""
        ...


class Recovered(Struct, frozen=True):
    """The incarnation of this process, and the complete checkpoints to restore from, oldest first.

    ``former`` are the ids of checkpoints from before the starting point, and of damaged ones that were
    skipped. ``claimed`` are the files of the oldest of ``checkpoints``, if the job has claimed it from
    another place and must delete it.
    """

    incarnation: int
    checkpoints: tuple[CheckpointMetadata, ...]
    finished: bool
    starting_point: StartingPoint = FROM_NOTHING
    former: tuple[int, ...] = ()
    claimed: tuple[str, ...] = ()
    outlived: tuple[str, ...] = ()
    """The files of a claimed checkpoint that newer ones have subsumed already."""


def metadata_path(checkpoint_id: int, kind: Kind = CHECKPOINT) -> str:
    """Return the path of the metadata of a checkpoint."""
    return f"{checkpoint_folder(checkpoint_id, kind)}/{METADATA}"


def discard_checkpoint(storage: RecoverableStorage, checkpoint_id: int, kind: Kind = CHECKPOINT) -> None:
    """Delete a checkpoint, its metadata first."""
    storage.delete(metadata_path(checkpoint_id, kind))
    for path in storage.list(f"{checkpoint_folder(checkpoint_id, kind)}/"):
        storage.delete(path)


def discard_former(
    storage: RecoverableStorage, checkpoint_id: int, retained: Iterable[CheckpointMetadata]
) -> None:
    """Delete a checkpoint from before the starting point, with the shared files that no retained one needs.

    The shared files of a damaged checkpoint are unknown; the end of the job deletes them.
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
    """Claim an incarnation, read the complete checkpoints, and delete files that no checkpoint needs.

    Args:
        storage: the job's storage.
        num_retained: how many of the latest complete checkpoints to read.
        begins_from: a new starting point; None keeps the recorded one.
        skips_damaged: skip damaged checkpoints with a warning if an intact one is left. The damaged ones stay
            until a newer one is complete.

    Raises:
        DamagedFile: the metadata of a retained checkpoint cannot be read. Restoring an older one would commit
            again what the damaged one covers.
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
    """Read the complete checkpoints, all or only the intact ones."""
    if skips_damaged:
        return _whole(storage, checkpoint_ids)
    return tuple(_read(storage, each) for each in checkpoint_ids)


def _whole(storage: RecoverableStorage, checkpoint_ids: Collection[int]) -> tuple[CheckpointMetadata, ...]:
    """Read the checkpoints whose files are all intact, and log why the others are skipped.

    Raises the DamagedFile of the newest one if none is intact.
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
    """Return the recorded starting point, or record the new one."""
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
    """Delete shared files that no checkpoint refers to."""
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
            # The spared checkpoint is damaged: which shared files it needs is unknown, so all stay.
            return
    for path in shared:
        if path not in needed:
            storage.delete(path)


def retire(storage: RecoverableStorage, spared: Collection[int] = ()) -> None:
    """Record durably that the job has finished, then delete all its checkpoints.

    The output is complete: a storage that refuses to delete does not fail the job. The next start deletes.
    """
    storage.create_exclusive(FINISHED)
    with deletion_may_fail(NEXT_START):
        sweep(storage, (), spared)


def files_of(metadata: CheckpointMetadata) -> set[str]:
    """Return the files that a checkpoint's metadata refers to."""
    return {
        path
        for operator in metadata.operators
        for subtask in operator.subtasks
        if subtask.handle is not None
        for path in subtask.handle.paths
    }


def is_claimed_by(storage: RecoverableStorage, incarnation: int) -> bool:
    """Return whether the process of that incarnation still holds the job."""
    return storage.exists(f"{INCARNATION}{incarnation}")


def _claim(storage: RecoverableStorage, paths: list[str], above: int) -> int:
    claimed = [int(match[1]) for path in paths if (match := _MARKER.fullmatch(path)) is not None]
    incarnation = max([above, *claimed]) + 1
    while not storage.create_exclusive(f"{INCARNATION}{incarnation}"):
        incarnation += 1
    for earlier in claimed:
        storage.delete(f"{INCARNATION}{earlier}")
    return incarnation
