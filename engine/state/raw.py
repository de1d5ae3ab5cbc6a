"""Raw state: bytes that the function serialises; the engine stores and redistributes them.

- Raw keyed state is a stream of bytes for each key group. After a restore, the subtask that owns the key
  group gets it.
- Raw operator state is any number of partitions, redistributed like the elements of a list state.
- A function must write its raw state again in every checkpoint.
- Names are those of Flink's Java API in snake_case.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct

from onceproof.engine.state.file_envelope import StateError

if TYPE_CHECKING:
    from onceproof.engine.state.stored import EncodedTable

T = TypeVar("T")

RAW: Final = ""
"""The name of raw state in a snapshot; no descriptor can have an empty name."""
RAW_KIND: Final = "raw"


class StatePartition(Struct, frozen=True):
    """A partition of raw operator state as it was written (Flink: StatePartitionStreamProvider)."""

    data: bytes

    def get_stream(self) -> BytesIO:
        """Return the bytes as a stream."""
        return BytesIO(self.data)


class KeyGroupStatePartition(Struct, frozen=True):
    """The raw state of a key group as it was written (Flink: KeyGroupStatePartitionStreamProvider)."""

    key_group_id: int
    data: bytes

    def get_key_group_id(self) -> int:
        """Return the key group to which the bytes belong."""
        return self.key_group_id

    def get_stream(self) -> BytesIO:
        """Return the bytes as a stream."""
        return BytesIO(self.data)


class OperatorStateOutput:
    """Collects raw operator state by partition (Flink: OperatorStateCheckpointOutputStream)."""

    def __init__(self) -> None:
        self._partitions: list[bytearray] = []

    def start_new_partition(self) -> None:
        """Begin a partition: the unit of redistribution."""
        self._partitions.append(bytearray())

    def write(self, data: bytes) -> None:
        """Append to the current partition; the first call begins one if there is none."""
        if not self._partitions:
            self.start_new_partition()
        self._partitions[-1] += data

    def get_number_of_partitions(self) -> int:
        """Return how many partitions were begun."""
        return len(self._partitions)

    def partitions(self) -> list[bytes]:
        """Return the partitions in order; the operator calls this after ``snapshot_state``."""
        return list(map(bytes, self._partitions))


class KeyedStateOutput:
    """Collects raw keyed state by key group (Flink: KeyedStateCheckpointOutputStream)."""

    def __init__(self, key_group_range: tuple[int, int]) -> None:
        self._range = key_group_range
        self._groups: dict[int, bytearray] = {}
        self._current: bytearray | None = None

    def get_key_group_list(self) -> range:
        """Return the key groups of this subtask."""
        low, high = self._range
        return range(low, high + 1)

    def start_new_key_group(self, key_group_id: int) -> None:
        """Begin the stream of a key group.

        Raises:
            StateError: another subtask owns the key group, or its stream was begun before.
        """
        low, high = self._range
        if not low <= key_group_id <= high:
            raise StateError(f"raw state of key group {key_group_id}: this subtask owns {low} to {high}")
        if key_group_id in self._groups:
            raise StateError(f"raw state of key group {key_group_id} was begun before: write it in one go")
        self._current = self._groups[key_group_id] = bytearray()

    def is_key_group_already_started(self, key_group_id: int) -> bool:
        """Return whether the stream of a key group was begun."""
        return key_group_id in self._groups

    def write(self, data: bytes) -> None:
        """Append to the stream of the key group that was begun last.

        Raises:
            StateError: no key group was begun.
        """
        if self._current is None:
            raise StateError("raw keyed state was written before a key group: call start_new_key_group first")
        self._current += data

    def streams(self) -> dict[int, bytes]:
        """Return the bytes by key group; the operator calls this after ``snapshot_state``."""
        return {group: bytes(self._groups[group]) for group in sorted(self._groups)}


def without_raw(stored: Mapping[str, T]) -> Mapping[str, T]:
    """Return managed state alone: raw state goes to the function, not to a backend."""
    if RAW not in stored:
        return stored
    return {name: state for name, state in stored.items() if name != RAW}


def partitions_of(stored: EncodedTable) -> list[KeyGroupStatePartition]:
    """Return the raw state by key group, in ascending order."""
    return [KeyGroupStatePartition(group, stored.groups[group]) for group in sorted(stored.groups)]
