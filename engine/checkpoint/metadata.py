"""What a completed checkpoint consists of, and its form as the file ``_metadata``.

The metadata is written last and published atomically: a checkpoint whose metadata can be read is complete,
any other is nothing. It lists every file with its length and SHA-256, and knows what each file holds, so
that state can be dealt out to a new parallelism before a single state file is opened.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import astuple, replace

from onceproof.engine.key_groups import MAX_PARALLELISM_LIMIT
from onceproof.engine.messages import Kind
from onceproof.engine.state.file_envelope import (
    LARGEST_NUMBER,
    METADATA_MAGIC,
    DamagedFile,
    is_database_file,
    leads_out,
    seal,
    unseal,
)
from onceproof.engine.state.in_flight import ChannelIndex
from onceproof.engine.state.snapshot import EncodedSnapshot, LocalTable
from onceproof.engine.state.stored import SHARED, SnapshotIndex, StateFile
from onceproof.engine.types.information import ENCODER


class StateHandle(msgspec.Struct, frozen=True, array_like=True):
    """One stored file of one subtask. ``path`` is relative to the job's checkpoint directory.

    ``sha256`` is that of the file's body, as its header has it too; ``index`` is by operator id; ``files``
    are the tables of databases that belong to it.
    """

    path: str
    length: int
    sha256: str
    index: dict[str, SnapshotIndex]
    files: tuple[StateFile, ...] = ()
    channels: ChannelIndex | None = None
    """What is at the end of the file of records in flight."""

    @property
    def paths(self) -> Sequence[str]:
        """Where everything is that was stored for it, or that its metadata list."""
        return (self.path, *[file.path for file in self.files if file.path]) if self.files else (self.path,)

    @property
    def total_length(self) -> int:
        """How many bytes all of it has."""
        return self.length + sum([file.length for file in self.files])

    @property
    def stored_length(self) -> int:
        """Return how many bytes were stored for it, as its task reported."""
        return self.length + sum([file.length for file in self.files if file.path])


class SubtaskState(msgspec.Struct, frozen=True, array_like=True):
    """What a subtask contributed; ``finished``: it had processed all its input."""

    handle: StateHandle | None
    finished: bool


class OperatorMetadata(msgspec.Struct, frozen=True, array_like=True):
    """One operator of the job as it was, and the state of each of its subtasks."""

    operator_id: str
    uid: str | None
    name: str
    parallelism: int
    max_parallelism: int
    subtasks: tuple[SubtaskState, ...]

    @property
    def has_state(self) -> bool:
        """Whether any subtask has something to restore."""
        for subtask in self.subtasks:
            if subtask.handle is not None:
                index = subtask.handle.index.get(self.operator_id)
                if index is not None and index.has_state:
                    return True
        return False

    @property
    def is_finished(self) -> bool:
        """Whether all subtasks had processed all their input."""
        return all(subtask.finished for subtask in self.subtasks)


class CheckpointMetadata(msgspec.Struct, frozen=True, array_like=True):
    """A completed checkpoint. ``timestamp`` is that of its trigger, in milliseconds."""

    checkpoint_id: int
    job_id: str
    job_name: str
    timestamp: int
    kind: Kind
    attempt: str
    operators: tuple[OperatorMetadata, ...]

    @property
    def records_in_flight(self) -> int:
        """How many records were under way between two tasks."""
        found: dict[str, int] = {}
        for operator in self.operators:
            for subtask in operator.subtasks:
                handle = subtask.handle
                if handle is not None and handle.channels is not None:
                    found[handle.path] = handle.channels.records
        return sum(found.values())


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """The body of the file: the operators of a chain share the states of their subtasks, which stand once."""

    checkpoint: CheckpointMetadata
    chains: list[tuple[SubtaskState, ...]]
    places: list[int]
    """By operator, where in ``chains`` the states of its subtasks are."""


_DECODER = msgspec.msgpack.Decoder(_Stored)


def handle_of(path: str, encoded: EncodedSnapshot) -> StateHandle:
    """Describe a snapshot that is stored under ``path``, its tables under names that follow from it."""
    files = tuple(
        [
            StateFile(table.operator_id, table.name, table_path(path, table), table.length, table.sha256)
            for table in encoded.tables
        ]
    )
    return StateHandle(path, len(encoded.data), encoded.sha256, encoded.operators, files, encoded.channels)


def table_path(path: str, table: LocalTable) -> str:
    """Where a table is stored that belongs to a snapshot; "" where that has been done before."""
    name = f"{table.operator_id[:12]}.{table.name}"
    if not table.is_shared:
        return f"{path}.{name}"
    return "" if table.earlier is not None else shared_beginning(path) + name


def shared_beginning(path: str) -> str:
    """What the paths of shared files begin with that are stored for a snapshot."""
    return f"{SHARED}{path.replace('/', '.')}."


def encode_metadata(metadata: CheckpointMetadata) -> bytes:
    """Give the content of the file ``_metadata``."""
    known: dict[int, int] = {}
    chains: list[tuple[SubtaskState, ...]] = []
    places: list[int] = []
    operators: list[tuple[object, ...]] = []
    for operator in metadata.operators:
        *described, subtasks = astuple(operator)
        place = known.setdefault(id(subtasks), len(chains))
        if place == len(chains):
            chains.append(subtasks)
        places.append(place)
        operators.append((*described, ()))
    # As ``_Stored`` is written, whose fields stand in an array: the structs themselves need not be made.
    checkpoint = (*astuple(metadata)[:-1], operators)
    return seal(METADATA_MAGIC, ENCODER.encode((checkpoint, chains, places)))[0]


def decode_metadata(data: bytes, path: str) -> CheckpointMetadata:
    """Read a file ``_metadata``; ``path`` is for the messages.

    Raises DamagedFile.
    """
    body, _ = unseal(METADATA_MAGIC, data, path)
    try:
        stored = _DECODER.decode(body)
        if any(place < 0 for place in stored.places):
            raise DamagedFile(path, "forged or damaged: an operator's place is negative")
        for chain in stored.chains:
            for subtask in chain:
                if subtask.handle is not None:
                    _check_handle(subtask.handle, path)
        _check_numbers(stored.checkpoint, path)
        operators = [
            replace(operator, subtasks=stored.chains[place])
            for operator, place in zip(stored.checkpoint.operators, stored.places, strict=True)
        ]
        for operator in operators:
            if len(operator.subtasks) != operator.parallelism:
                raise DamagedFile(
                    path,
                    f"forged or damaged: operator {operator.name!r} has {len(operator.subtasks)} subtasks of"
                    f" {operator.parallelism}",
                )
        return replace(stored.checkpoint, operators=tuple(operators))
    except (msgspec.DecodeError, RecursionError, IndexError, ValueError) as error:
        raise DamagedFile(path, f"its content cannot be read ({error})") from error


def _check_handle(handle: StateHandle, path: str) -> None:
    """Raise DamagedFile for names, lengths and counts that no checkpoint has."""
    for name in (handle.path, *[file.path for file in handle.files]):
        if leads_out(name):
            raise DamagedFile(path, f"forged or damaged: it names {name!r}, which leads out of its folder")
    for file in handle.files:
        if not is_database_file(file.name):
            raise DamagedFile(path, f"forged or damaged: {file.name!r} is not a name of a database's file")
        if not 0 <= file.length < LARGEST_NUMBER:
            raise DamagedFile(path, f"forged or damaged: file {file.path} has {file.length} bytes")
    channels = handle.channels
    if channels is not None and not 0 <= channels.length <= handle.length:
        raise DamagedFile(
            path, f"forged or damaged: {channels.length} of {handle.length} bytes are records in flight"
        )
    for index in handle.index.values():
        for _, count in index.operator.values():
            # Each element takes a byte at least.
            if not 0 <= count <= handle.length:
                raise DamagedFile(path, f"forged or damaged: {count} elements in {handle.length} bytes")


def _check_numbers(metadata: CheckpointMetadata, path: str) -> None:
    """Raise DamagedFile for ids and parallelisms that no job has."""
    if not 0 <= metadata.checkpoint_id < LARGEST_NUMBER:
        raise DamagedFile(path, f"forged or damaged: {metadata.checkpoint_id} is not an id of a checkpoint")
    for operator in metadata.operators:
        if not (0 < operator.parallelism <= MAX_PARALLELISM_LIMIT) or not (
            0 < operator.max_parallelism <= MAX_PARALLELISM_LIMIT
        ):
            raise DamagedFile(
                path,
                f"forged or damaged: operator {operator.name!r} has parallelism {operator.parallelism} of"
                f" {operator.max_parallelism}",
            )
