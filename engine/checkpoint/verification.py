"""Whether every file that a checkpoint refers to is there and is what was written, without loading state.

Metadata that can be read are whole: their envelope says so. They list every file with its length and SHA-256,
so each is compared with that; a state file is compared with its own envelope, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from msgspec import Struct

from onceproof.engine.checkpoint.metadata import CheckpointMetadata, StateHandle
from onceproof.engine.state.file_envelope import (
    CHANNELS_MAGIC,
    SNAPSHOT_MAGIC,
    DamagedFile,
    StateError,
    first_part,
    unseal,
)


class Damage(Struct, frozen=True):
    """What is wrong with a file; both in one line."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def handles_of(metadata: CheckpointMetadata) -> list[StateHandle]:
    """Give what subtasks have stored, each once, by path."""
    handles = {
        subtask.handle.path: subtask.handle
        for operator in metadata.operators
        for subtask in operator.subtasks
        if subtask.handle is not None
    }
    return [handles[path] for path in sorted(handles)]


def damages_of(metadata: CheckpointMetadata, read: Callable[[str], bytes]) -> Iterator[Damage]:
    """Look at every file of a checkpoint; ``read`` gives the content of a path, or raises OSError."""
    seen: set[str] = set()
    for handle in handles_of(metadata):
        checks: list[tuple[str, Callable[[bytes], None]]] = [(handle.path, partial(_check_state, handle))]
        checks += [(file.path, file.check) for file in handle.files]
        for path, check in checks:
            if path in seen:
                continue
            seen.add(path)
            try:
                check(read(path))
            except DamagedFile as error:
                yield Damage(path, error.what)
            except (OSError, StateError) as error:
                yield Damage(path, f"cannot be read: {getattr(error, 'strerror', None) or error}")


def _check_state(handle: StateHandle, data: bytes) -> None:
    """Compare a state file with its metadata. Raises DamagedFile."""
    path = handle.path
    if len(data) != handle.length:
        kind = "truncated" if len(data) < handle.length else "overlong"
        raise DamagedFile(path, f"{kind}: {len(data)} bytes where the checkpoint lists {handle.length}")
    if unseal(SNAPSHOT_MAGIC, first_part(data), path)[1] != handle.sha256:
        raise DamagedFile(path, "another file than the one that the checkpoint's metadata lists")
    channels = handle.channels
    if channels is not None:
        _, digest = unseal(CHANNELS_MAGIC, data[len(data) - channels.length :], path)
        if digest != channels.sha256:
            raise DamagedFile(path, "its records in flight are others than those that the metadata lists")
