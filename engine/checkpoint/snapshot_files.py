"""How the snapshot of a subtask becomes files, and how they are deleted again: the same for all drivers.

A snapshot is one file, named by the task, and beside it the tables of a database where a backend keeps its
state in one; their names begin with the name of that file. Tables that other checkpoints may have, too, lie
in the folder ``shared``, and those that earlier ones have are not stored again. The tables are stored first:
when a file is reported stored, all that it needs is stored, too.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from onceproof.engine.checkpoint.metadata import StateHandle, handle_of, shared_beginning
from onceproof.engine.state.snapshot import EncodedSnapshot, TaskSnapshot, encode_task_snapshot


class SnapshotStorage(Protocol):
    """The part of a checkpoint storage that snapshots need; paths are relative to the job's directory."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file durably."""
        ...

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Store a local file that never changes, durably.

        ``earlier`` is where a file of the same content was stored before; it may be gone.
        """
        ...

    def list(self, prefix: str) -> list[str]:
        """The paths of all files that begin with ``prefix``."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; one that is not there is fine."""
        ...


def store_snapshot(storage: SnapshotStorage, path: str, snapshot: TaskSnapshot) -> StateHandle:
    """Encode and store a snapshot.

    Raises StateError where it cannot be encoded, and what the storage raises.
    """
    return store_encoded(storage, path, encode_task_snapshot(snapshot))


def store_encoded(storage: SnapshotStorage, path: str, encoded: EncodedSnapshot) -> StateHandle:
    """Store a snapshot that is encoded."""
    if not encoded.tables:
        # Nearly always, and of what happens for every checkpoint of every task the most often.
        storage.write(path, encoded.data)
        return StateHandle(path, len(encoded.data), encoded.sha256, encoded.operators, (), encoded.channels)
    handle = handle_of(path, encoded)
    for table, file in zip(encoded.tables, handle.files, strict=True):
        if file.path:
            storage.adopt(file.path, table.source, table.earlier)
    storage.write(path, encoded.data)
    for operator_id, native in encoded.natives.items():
        native.stored = {file.name: file for file in handle.files if file.operator_id == operator_id}
    return handle


def delete_unstored(storage: SnapshotStorage, path: str, snapshot: TaskSnapshot) -> None:
    """Delete what there may be of a snapshot that could not be stored; what cannot be deleted is left."""
    with suppress(OSError):
        storage.delete(path)
        if snapshot.has_tables:
            for beginning in (f"{path}.", shared_beginning(path)):
                for table in storage.list(beginning):
                    storage.delete(table)
