"""The checkpoint storage of a process under trial: a fault can refuse a write, or tear it.

The rules this module lives by:

- A torn write is the death of its writer in the middle of it: half of the file is there, and no process
  learns that the write failed.
- On a disk that is full half of the file is there, too, and the writer gets an error.
- On a disk that can only be read no file can be deleted either.
"""

from __future__ import annotations

import errno
import os

from onceproof.engine.protocol_points import METADATA_WRITTEN, SNAPSHOTTED
from onceproof.engine.runtime.storage import LocalCheckpointStorage, StorageError
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.process.fault_actions import room_for
from onceproof.harness.systems.process.fault_board import FaultBoard


class RefusedByFault(StorageError, InjectedError):
    """The disk refuses a call because of a fault."""


class FaultyStorage(LocalCheckpointStorage):
    """The checkpoint storage that one of the processes under trial sees; ``name`` is that of its task."""

    def __init__(self, root: str, board: FaultBoard, name: str) -> None:
        super().__init__(root)
        self._board = board
        self._name = name

    def write(self, path: str, data: bytes) -> None:
        """Write a snapshot. Raises RefusedByFault where a fault refuses it."""
        self._suffer(SNAPSHOTTED, path, path, data)
        super().write(path, data)

    def publish(self, path: str, data: bytes) -> None:
        """Publish metadata. Raises RefusedByFault where a fault refuses it."""
        folder, _, name = path.rpartition("/")
        self._suffer(METADATA_WRITTEN, path, f"{folder}/.{name}.unpublished", data)
        super().publish(path, data)

    def delete(self, path: str) -> None:
        """Delete a file. Raises RefusedByFault while the disk can only be read."""
        if self._board.refusal(self._name, ("read_only",)) is not None:
            raise RefusedByFault(f"checkpoint file {path} cannot be deleted: {os.strerror(errno.EROFS)}")
        super().delete(path)

    def _suffer(self, point: str, path: str, unfinished: str, data: bytes) -> None:
        """Ask the board about a write that is about to be made; its first half goes to ``unfinished``."""
        checkpoint_id = int(path.partition("/")[0].removeprefix("chk-"))
        fault = self._board.write_fault(point, self._name, checkpoint_id)
        if fault is not None:
            self.carry_out(fault, path, unfinished, data)

    def carry_out(self, fault: Fault, path: str, unfinished: str, data: bytes) -> None:
        """Refuse or tear a write: an error for the writer, or its death."""
        half = data[: len(data) // 2]
        match fault.kind, fault.means:
            case "tear_write", _:
                super().write(unfinished, half)
                self._board.die_of_fault()
            case "fail_write", "full":
                # The write fails in the middle by itself.
                with room_for(len(half)):
                    super().write(unfinished, data)
            case "fail_write", "read_only":
                raise RefusedByFault(f"checkpoint file {path} cannot be written: {os.strerror(errno.EROFS)}")
        raise RefusedByFault(f"checkpoint file {path} cannot be written: the disk refused it, as planned")
