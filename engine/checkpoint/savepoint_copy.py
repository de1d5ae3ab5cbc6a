"""A completed checkpoint as a savepoint: copied into files that need no others.

For runtimes in which nothing happens between two checkpoints, so that the latest one is the state of the job.
A file without databases is a savepoint's file already. Of one with databases the tables are read, and written
in the form that every backend reads; one file of one subtask is in memory at a time.
"""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
)
from onceproof.engine.key_groups import key_group_range
from onceproof.engine.messages import Kind, checkpoint_folder
from onceproof.engine.state.file_envelope import SNAPSHOT_MAGIC, seal
from onceproof.engine.state.snapshot import decode_task_snapshot
from onceproof.engine.state.stored import DecodedSnapshot, EncodedOperator, NativePart, SnapshotIndex
from onceproof.engine.types.information import ENCODE


class CopyingStorage(Protocol):
    """The part of a checkpoint storage that copying needs."""

    def read(self, path: str) -> bytes:
        """The content of a file."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write a file durably."""
        ...


def copy_as_savepoint(
    storage: CopyingStorage, metadata: CheckpointMetadata, kind: Kind
) -> CheckpointMetadata:
    """Write the files of a savepoint that holds what a checkpoint does; give its metadata, not yet published.

    Raises DamagedFile, and what the storage raises.
    """
    folder = checkpoint_folder(metadata.checkpoint_id, kind)
    by_chain: dict[int, list[OperatorMetadata]] = {}
    for operator in metadata.operators:
        by_chain.setdefault(id(operator.subtasks), []).append(operator)
    copied: dict[int, tuple[SubtaskState, ...]] = {}
    for chain, operators in by_chain.items():
        states: list[SubtaskState] = []
        for subtask, state in enumerate(operators[0].subtasks):
            if state.handle is not None:
                handle = _copied(storage, state.handle, folder, operators, subtask)
                state = replace(state, handle=handle)
            states.append(state)
        copied[chain] = tuple(states)
    together = [replace(operator, subtasks=copied[id(operator.subtasks)]) for operator in metadata.operators]
    return replace(metadata, kind=kind, operators=tuple(together))


def _copied(
    storage: CopyingStorage,
    handle: StateHandle,
    folder: str,
    operators: list[OperatorMetadata],
    subtask: int,
) -> StateHandle:
    path = f"{folder}/{handle.path.rpartition('/')[2]}"
    data = storage.read(handle.path)
    decoded = decode_task_snapshot(data, handle.path, handle.sha256)
    if not handle.files:
        storage.write(path, data)
        return replace(handle, path=path)
    body: DecodedSnapshot = {}
    for operator in operators:
        if operator.operator_id in decoded:
            body[operator.operator_id] = _exported(storage, handle, operator, subtask, decoded)
    data, digest = seal(SNAPSHOT_MAGIC, ENCODE(body))
    storage.write(path, data)
    index = {operator_id: _index(stored) for operator_id, stored in body.items()}
    return StateHandle(path, len(data), digest, index)


def _exported(
    storage: CopyingStorage,
    handle: StateHandle,
    operator: OperatorMetadata,
    subtask: int,
    decoded: DecodedSnapshot,
) -> EncodedOperator:
    stored = decoded[operator.operator_id]
    if stored.native is None:
        return stored
    # The home of databases is dear to import, and most jobs have none.
    from onceproof.engine.state.rocksdb.transfer import export_part

    low, high = key_group_range(operator.max_parallelism, operator.parallelism, subtask)
    tables = {file.name: file for file in handle.files if file.operator_id == operator.operator_id}
    part = NativePart(low, high, handle.path, stored.native, tables, storage.read)
    return replace(stored, keyed={**stored.keyed, **export_part(part, operator.max_parallelism)}, native=None)


def _index(stored: EncodedOperator) -> SnapshotIndex:
    return SnapshotIndex(
        {name: table.counts for name, table in stored.keyed.items()},
        {name: (item.mode, len(item.elements)) for name, item in stored.operator.items()},
    )
