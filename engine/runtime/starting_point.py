"""Which savepoint or checkpoint a job has begun from: a small file in the job's folder, in JSON.

The rules this module lives by:

- A job finds its own checkpoints without being told. So it must be known which of them come after the point
  that its user had it begin from, and which belong to what the job was before: those count no more, and are
  deleted when the first new checkpoint is complete, not sooner.
- Before the output of a savepoint is committed, with which the job ends, the savepoint is the starting point.
  Whoever runs the job again goes on from there; from anything older he would write that output again.
- The file is replaced as a whole. What must follow from it is noted in it, and done by whoever finds it.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from onceproof.engine.configuration import CLAIM, NO_CLAIM
from onceproof.engine.state.files import DamagedFile

STARTING_POINT: Final = "starting-point"
FORMAT_VERSION: Final = 1


class StartingPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the job begins; of the checkpoints in its folder those above ``last_id`` come after it."""

    path: str
    """The folder of the savepoint or checkpoint, absolute."""
    last_id: int
    claim_mode: str = NO_CLAIM
    own_checkpoint: int = 0
    """Its id where it is a retained checkpoint in the job's own folder; 0 where it is not."""
    incarnation: int = 0
    """Of the process that took it: those of this job are higher, since sinks name output by attempts."""
    had_finished: bool = False
    """The job had: that must be forgotten."""
    format_version: int = FORMAT_VERSION

    @property
    def spared(self) -> tuple[int, ...]:
        """The checkpoint of the job's folder that belongs to the user, if it is one."""
        return (self.own_checkpoint,) if self.own_checkpoint and self.claim_mode != CLAIM else ()


FROM_NOTHING: Final = StartingPoint("", 0)


class PointStorage(Protocol):
    """The part of a storage that the file needs."""

    def read(self, path: str) -> bytes:
        """The content of a file."""
        ...

    def publish(self, path: str, data: bytes) -> None:
        """Write a file durably, so that it is seen whole or not at all."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; one that is not there is fine."""
        ...


_DECODER: Final = msgspec.json.Decoder(StartingPoint)


def read_starting_point(storage: PointStorage) -> StartingPoint:
    """Read the file.

    Raises DamagedFile.
    """
    try:
        return _DECODER.decode(storage.read(STARTING_POINT))
    except msgspec.DecodeError as error:
        raise DamagedFile(
            STARTING_POINT,
            f"it cannot be read ({error})",
            "name the savepoint to go on from in execution.state-recovery.path and delete this file",
        ) from error


def write_starting_point(storage: PointStorage, point: StartingPoint) -> None:
    """Replace the file."""
    storage.publish(STARTING_POINT, msgspec.json.encode(point))


def put_back(storage: PointStorage, before: StartingPoint) -> None:
    """Undo a replacement that failed, or may have."""
    if before.path:
        write_starting_point(storage, before)
    else:
        storage.delete(STARTING_POINT)
