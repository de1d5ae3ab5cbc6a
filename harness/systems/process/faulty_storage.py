"""A checkpoint storage in which faults refuse or tear writes.

The rules this module lives by:

- A torn write leaves the first half of the file and kills its writer, so no process learns that it failed.
- A full disk also leaves the first half of the file, and the writer gets an error.
- A read-only disk refuses to write and to delete files.
"""

from __future__ import annotations

import errno
import os

from onceproof.engine.protocol_points import METADATA_WRITTEN, SNAPSHOTTED
from onceproof.engine.runtime.recovery import METADATA
from onceproof.engine.runtime.storage import LocalCheckpointStorage, StorageError
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.process.fault_actions import room_for
from onceproof.harness.systems.process.fault_board import FaultBoard


class RefusedByFault(StorageError, InjectedError):
    """The disk refuses a call because of a fault."""


class FaultyStorage(LocalCheckpointStorage):
    """The checkpoint storage of one task under trial; ``name`` is the task's."""

    def __init__(self, root: str, board: FaultBoard, name: str) -> None:
        super().__init__(root)
        self._board = board
        self._name = name

    def write(self, path: str, data: bytes) -> None:
        """Write a snapshot. Raises RefusedByFault where a fault refuses it."""
        self._suffer(SNAPSHOTTED, path, path, data)
        super().write(path, data)

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Publish metadata. Raises RefusedByFault where a fault refuses it."""
        folder, _, name = path.rpartition("/")
        if name == METADATA:
            self._suffer(METADATA_WRITTEN, path, f"{folder}/.{name}.unpublished", data)
        return super().create_exclusive(path, data)

    def delete(self, path: str) -> None:
        """Delete a file. Raises RefusedByFault while the disk is read-only."""
        if self._board.refusal(self._name, ("read_only",)) is not None:
            raise RefusedByFault(f"checkpoint file {path} cannot be deleted: {os.strerror(errno.EROFS)}")
        super().delete(path)

    def _suffer(self, point: str, path: str, unfinished: str, data: bytes) -> None:
        """Ask the board for a write's fault; ``unfinished`` is the path of a half-written file."""
        checkpoint_id = int(path.partition("/")[0].removeprefix("chk-"))
        fault = self._board.write_fault(point, self._name, checkpoint_id)
        if fault is not None:
            self.carry_out(fault, path, unfinished, data)

    def carry_out(self, fault: Fault, path: str, unfinished: str, data: bytes) -> None:
        """Refuse a write by raising RefusedByFault or StorageError, or tear it and kill this process."""
        half = data[: len(data) // 2]
        if fault.kind == "tear_write":
            super().write(unfinished, half)
            self._board.die_of_fault()
        match fault.means:
            case "full":
                # The file size limit makes the write fail in the middle.
                with room_for(len(half)):
                    super().write(unfinished, data)
            case "read_only":
                raise RefusedByFault(f"checkpoint file {path} cannot be written: {os.strerror(errno.EROFS)}")
        raise RefusedByFault(f"checkpoint file {path} cannot be written: the disk refused it, as planned")
