"""Raw state: bytes that the user serialises, and the engine only carries and deals out.

Keyed: a stream of bytes for each key group, which goes to whoever owns the group after a restore. Operator:
any number of partitions, dealt out like the elements of a list state. Nothing of it outlives the checkpoint
that wrote it unless the function writes it again. Names are those of Flink's Java API in snake_case.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct

from onceproof.engine.state.files import StateError

if TYPE_CHECKING:
    from onceproof.engine.state.stored import EncodedTable

T = TypeVar("T")

RAW: Final = ""
"""The name under which raw state is stored: one that no descriptor can have."""
RAW_KIND: Final = "raw"


class StatePartition(Struct, frozen=True):
    """A partition of raw operator state as it was written (Flink: StatePartitionStreamProvider)."""

    data: bytes

    def get_stream(self) -> BytesIO:
        """The bytes, to be read from their beginning."""
        return BytesIO(self.data)


class KeyGroupStatePartition(Struct, frozen=True):
    """The raw state of a key group as it was written (Flink: KeyGroupStatePartitionStreamProvider)."""

    key_group_id: int
    data: bytes

    def get_key_group_id(self) -> int:
        """The key group."""
        return self.key_group_id

    def get_stream(self) -> BytesIO:
        """The bytes, to be read from their beginning."""
        return BytesIO(self.data)


class OperatorStateOutput:
    """Takes raw operator state, partition by partition (Flink: OperatorStateCheckpointOutputStream)."""

    def __init__(self) -> None:
        self._partitions: list[bytearray] = []

    def start_new_partition(self) -> None:
        """Begin a partition: what can be dealt out by itself."""
        self._partitions.append(bytearray())

    def write(self, data: bytes) -> None:
        """Append to the partition, to a first one where none was begun."""
        if not self._partitions:
            self.start_new_partition()
        self._partitions[-1] += data

    def get_number_of_partitions(self) -> int:
        """How many were begun."""
        return len(self._partitions)

    def taken(self) -> list[bytes]:
        """The partitions in order."""
        return list(map(bytes, self._partitions))


class KeyedStateOutput:
    """Takes raw keyed state, key group by key group (Flink: KeyedStateCheckpointOutputStream)."""

    def __init__(self, key_group_range: tuple[int, int]) -> None:
        self._range = key_group_range
        self._groups: dict[int, bytearray] = {}
        self._current: bytearray | None = None

    def get_key_group_list(self) -> range:
        """The key groups of this subtask."""
        low, high = self._range
        return range(low, high + 1)

    def start_new_key_group(self, key_group_id: int) -> None:
        """Begin the stream of a key group.

        Raises StateError where the group is not this subtask's, or was begun before.
        """
        low, high = self._range
        if not low <= key_group_id <= high:
            raise StateError(f"raw state of key group {key_group_id}: this subtask owns {low} to {high}")
        if key_group_id in self._groups:
            raise StateError(f"raw state of key group {key_group_id} was begun before: write it in one go")
        self._current = self._groups[key_group_id] = bytearray()

    def is_key_group_already_started(self, key_group_id: int) -> bool:
        """Whether the stream of a key group was begun."""
        return key_group_id in self._groups

    def write(self, data: bytes) -> None:
        """Append to the stream of the key group that was begun last.

        Raises StateError where none was.
        """
        if self._current is None:
            raise StateError("raw keyed state was written before a key group: call start_new_key_group first")
        self._current += data

    def taken(self) -> dict[int, bytes]:
        """The streams by key group."""
        return {group: bytes(self._groups[group]) for group in sorted(self._groups)}


def without_raw(stored: Mapping[str, T]) -> Mapping[str, T]:
    """Give managed state alone: raw state is handed to the function, not to a backend."""
    if RAW not in stored:
        return stored
    return {name: state for name, state in stored.items() if name != RAW}


def partitions_of(stored: EncodedTable) -> list[KeyGroupStatePartition]:
    """Give the raw state of key groups, in their order."""
    return [KeyGroupStatePartition(group, stored.groups[group]) for group in sorted(stored.groups)]
