"""Savepoints and retained checkpoints from which a user restores a job.

The rules this module lives by:

- A savepoint is self-contained: its metadata name files relative to its folder, so it can be moved or copied.
- A retained checkpoint names files relative to its job's folder: its own below ``chk-<n>/``, and those that
  checkpoints share below ``shared/``. Its folder may have another name or place now: its own files are looked
  for where its metadata are, the shared ones beside that folder.
- The restoring job reads the files under the mount RESTORED_FROM, and no checkpoint of the job refers to
  them. So the user may delete an unclaimed savepoint as soon as the job has a checkpoint of its own.
- A claimed checkpoint is deleted with the files that lie directly in its own folder, its metadata first.
  Shared files stay with the other checkpoints of its job, and files in folders below belong to the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
)
from onceproof.engine.checkpoint.metadata import decode_metadata as decode
from onceproof.engine.checkpoint.metadata import encode_metadata as encode
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.locations import is_same, location, name_of, parent_of
from onceproof.engine.messages import CHECKPOINT, SAVEPOINT, checkpoint_folder
from onceproof.engine.runtime.mounted_storage import open_storage
from onceproof.engine.runtime.recovery import METADATA, files_of
from onceproof.engine.state.file_envelope import is_plain_name

RESTORED_FROM: Final = "restored-from"
OWN: Final = re.compile(r"chk-([1-9][0-9]*)")


class NoRestorePoint(UnrecoverableError):
    """The path that the user named holds no savepoint or checkpoint. The message is one line."""


class RestorePoint(Struct, frozen=True):
    """A savepoint or checkpoint that was read; the names in its metadata are relative to ``base``."""

    folder: str
    base: str
    metadata: CheckpointMetadata

    @property
    def mounted(self) -> CheckpointMetadata:
        """The metadata with file names below the mount RESTORED_FROM."""
        return moved(self.metadata, lambda path: f"{RESTORED_FROM}/{path}")

    @property
    def own_files(self) -> list[str]:
        """The files in its own folder below the mount RESTORED_FROM, its metadata first."""
        beginning = "" if self.folder == self.base else f"{name_of(self.folder)}/"
        paths = [
            path
            for path in files_of(self.metadata)
            if path.startswith(beginning) and is_plain_name(path.removeprefix(beginning))
        ]
        return [f"{RESTORED_FROM}/{path}" for path in (f"{beginning}{METADATA}", *sorted(paths))]


def moved(metadata: CheckpointMetadata, rename: Callable[[str], str]) -> CheckpointMetadata:
    """Return the metadata with renamed files; operators of a chain still share their subtasks."""
    known: dict[int, tuple[SubtaskState, ...]] = {}
    operators: list[OperatorMetadata] = []
    for operator in metadata.operators:
        subtasks = known.get(id(operator.subtasks))
        if subtasks is None:
            subtasks = tuple([_moved_subtask(subtask, rename) for subtask in operator.subtasks])
            known[id(operator.subtasks)] = subtasks
        operators.append(replace(operator, subtasks=subtasks))
    return replace(metadata, operators=tuple(operators))


def _moved_subtask(subtask: SubtaskState, rename: Callable[[str], str]) -> SubtaskState:
    handle = subtask.handle
    return subtask if handle is None else replace(subtask, handle=moved_handle(handle, rename))


def moved_handle(handle: StateHandle, rename: Callable[[str], str]) -> StateHandle:
    """Return the handle with renamed files."""
    files = tuple([replace(file, path=rename(file.path)) for file in handle.files])
    return replace(handle, path=rename(handle.path), files=files)


def published_form(metadata: CheckpointMetadata) -> bytes:
    """Return the metadata file; in that of a savepoint, file names are relative to its own folder."""
    if metadata.kind == CHECKPOINT:
        return encode(metadata)
    beginning = checkpoint_folder(metadata.checkpoint_id, metadata.kind) + "/"
    return encode(moved(metadata, lambda path: path.removeprefix(beginning)))


def place_of(path: str) -> str:
    """Return the folder of a savepoint for a user's path, which may name the metadata file in it."""
    folder = location(path)
    return parent_of(folder) if name_of(folder) == METADATA else folder


def read_restore_point(path: str) -> RestorePoint:
    """Read the metadata of a savepoint or of a retained checkpoint.

    Raises NoRestorePoint if there is none, and DamagedFile.
    """
    folder = place_of(path)
    try:
        storage = open_storage(folder, stands_in=True)
        if not storage.exists(METADATA):
            raise NoRestorePoint(
                f"{folder}: there is no savepoint and no checkpoint here (no file {METADATA}): name its"
                " folder, as `onceproof checkpoints list` does"
            )
        data = storage.read(METADATA)
    except OSError as error:
        raise NoRestorePoint(str(error)) from error
    metadata = decode(data, storage.place_of(METADATA))
    base = parent_of(folder) if metadata.kind == CHECKPOINT else folder
    return RestorePoint(folder, base, as_found(metadata, folder))


def as_found(metadata: CheckpointMetadata, folder: str) -> CheckpointMetadata:
    """Return the metadata of a checkpoint with its own files in the folder where it was found."""
    written = checkpoint_folder(metadata.checkpoint_id, CHECKPOINT) + "/"
    found = name_of(folder) + "/"
    if metadata.kind != CHECKPOINT or written == found:
        return metadata
    return moved(
        metadata, lambda path: found + path.removeprefix(written) if path.startswith(written) else path
    )


def own_checkpoint(point: RestorePoint, root: str) -> int:
    """Return the id of a checkpoint in the job's own folder; 0 for any other restore point."""
    match = OWN.fullmatch(name_of(point.folder))
    is_own = point.metadata.kind == CHECKPOINT and is_same(point.base, root)
    # Under another name it is a copy, which the job does not count among its checkpoints.
    is_in_place = match is not None and int(match[1]) == point.metadata.checkpoint_id
    return point.metadata.checkpoint_id if is_own and is_in_place else 0


def as_users(metadata: CheckpointMetadata) -> CheckpointMetadata:
    """Return the metadata as those of a savepoint, which the job never deletes."""
    return replace(metadata, kind=SAVEPOINT)


def as_own(metadata: CheckpointMetadata) -> CheckpointMetadata:
    """Return the metadata as those of a checkpoint, which newer ones subsume."""
    return replace(metadata, kind=CHECKPOINT)
