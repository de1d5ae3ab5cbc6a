"""The starting point: the savepoint or checkpoint that the job has restored first, as its folder records it.

The rules this module lives by:

- A job restores the latest checkpoint in its folder. The file says which of them come after the savepoint
  that the user named. Older ones are not restored, and are deleted when the first new checkpoint is complete,
  not sooner.
- A savepoint with which the job stops becomes the starting point before its output is committed. So the next
  run restores it; from anything older, that run would write the output again.
- It stands in the highest record of the job's history (checkpoint_history.py). Earlier versions wrote a file
  ``starting-point``, which is still read where there is no record.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from onceproof.engine.configuration import CLAIM, NO_CLAIM
from onceproof.engine.state.file_envelope import DamagedFile

STARTING_POINT: Final = "starting-point"
FORMAT_VERSION: Final = 1


class StartingPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the job begins; checkpoints in its folder with ids above ``last_id`` come after it."""

    path: str
    """The folder of the savepoint or checkpoint, absolute."""
    last_id: int
    claim_mode: str = NO_CLAIM
    own_checkpoint: int = 0
    """The id of a retained checkpoint in the job's own folder; 0 for any other starting point."""
    incarnation: int = 0
    """That of the process that took it. Later ones must be higher, because sinks name output by attempt."""
    had_finished: bool = False
    """In a file of an earlier version: the job had finished before, and the marker ``finished`` is void."""
    replaces: str = ""
    """The folder of the claimed savepoint from which the job had begun, and which it deletes; "": none."""
    format_version: int = FORMAT_VERSION

    @property
    def spared(self) -> tuple[int, ...]:
        """The id of an unclaimed checkpoint in the job's own folder, which belongs to the user."""
        return (self.own_checkpoint,) if self.own_checkpoint and self.claim_mode != CLAIM else ()


FROM_NOTHING: Final = StartingPoint("", 0)


class PointStorage(Protocol):
    """The part of a storage that the file of an earlier version needs."""

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        ...


_DECODER: Final = msgspec.json.Decoder(StartingPoint)


def read_starting_point(storage: PointStorage) -> StartingPoint:
    """Read the file of an earlier version. Raises DamagedFile."""
    try:
        return _DECODER.decode(storage.read(STARTING_POINT))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFile(
            STARTING_POINT,
            f"it cannot be read ({error})",
            "name the savepoint to resume from in execution.state-recovery.path and delete this file",
        ) from error
