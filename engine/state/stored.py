"""The stored form of state: the structs that the files of a checkpoint hold, still encoded.

Keyed state is stored in tables by key group, and operator state by element, so that both can be redistributed
without being decoded. Or keyed state is the database of its backend, whose files are files of the checkpoint.
Every state carries the descriptors of its types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from onceproof.engine.state.file_envelope import DamagedFile, StateError

SPLIT_DISTRIBUTE = "SPLIT_DISTRIBUTE"
UNION = "UNION"
BROADCAST = "BROADCAST"


class TableDescription(msgspec.Struct, frozen=True, array_like=True):
    """The kind and the types of a keyed state, as descriptors."""

    kind: str
    key_type: Any
    value_type: Any
    namespace_type: Any = None


class EncodedTable(msgspec.Struct, frozen=True, array_like=True):
    """A keyed state in its stored form: by key group, the number of entries and the encoded entries.

    Each group is an encoded list of blocks. A block has a column of keys, one of namespaces if the state has
    namespaces, and one of values.
    """

    kind: str
    key_type: Any
    value_type: Any
    counts: dict[int, int]
    groups: dict[int, bytes]
    namespace_type: Any = None

    def described(self) -> TableDescription:
        """Return the kind and the types."""
        return TableDescription(self.kind, self.key_type, self.value_type, self.namespace_type)

    def pairs(self, group: int) -> list[tuple[Any, Any]]:
        """Return the (entry, value) pairs of a key group in their wire forms.

        An entry is the key, or (key, namespace) if the state has namespaces.
        """
        found: list[tuple[Any, Any]] = []
        for *entry, values in msgspec.msgpack.decode(self.groups[group]):
            entries = entry[0] if self.namespace_type is None else zip(*entry, strict=True)
            found += zip(entries, values, strict=True)
        return found

    def joined(self, name: str, other: EncodedTable) -> EncodedTable:
        """Return both parts of a state as one; they have no key group in common.

        Raises StateError if their kinds or types differ.
        """
        if self.described() != other.described():
            raise StateError(
                f"state {name!r} has another type in one file of the checkpoint than in another: "
                "restore another checkpoint"
            )
        return replace(self, counts=self.counts | other.counts, groups=self.groups | other.groups)

    def within(self, low: int, high: int) -> EncodedTable:
        """Return the part in an inclusive range of key groups."""
        if not self.groups or (low <= min(self.groups) and max(self.groups) <= high):
            return self
        groups = {group: data for group, data in self.groups.items() if low <= group <= high}
        counts = {group: self.counts[group] for group in groups}
        return replace(self, counts=counts, groups=groups)


_PLAIN = msgspec.msgpack.Decoder(list[tuple[msgspec.Raw, msgspec.Raw]])
_NAMESPACED = msgspec.msgpack.Decoder(list[tuple[tuple[msgspec.Raw, msgspec.Raw], msgspec.Raw]])


def from_first_format(table: EncodedTable) -> EncodedTable:
    """Return a table whose groups are lists of (entry, value), as in files of format version 1, in blocks.

    Raises msgspec.DecodeError.
    """
    groups: dict[int, bytes] = {}
    for group, data in table.groups.items():
        columns: list[Any]
        if table.namespace_type is None:
            columns = list(zip(*_PLAIN.decode(data), strict=True))
        else:
            columns = list(zip(*[(*entry, value) for entry, value in _NAMESPACED.decode(data)], strict=True))
        groups[group] = msgspec.msgpack.encode([columns])
    return replace(table, groups=groups)


class EncodedList(msgspec.Struct, frozen=True, array_like=True):
    """An operator state in its stored form, by element, so that it can be redistributed."""

    mode: str
    type: Any
    elements: list[bytes]


class NativeState(msgspec.Struct, frozen=True, array_like=True):
    """The keyed state of an operator as a database of its backend.

    The metadata of the checkpoint lists its SST files; ``small`` are the other files of the database, by
    name. ``next_sequence`` is the number of the next element of any list. ``merges_equal_keys``: the database
    was begun by a version that took keys which Python finds equal for one.
    """

    tables: dict[str, TableDescription]
    next_sequence: int
    small: dict[str, bytes]
    merges_equal_keys: bool = True


class EncodedOperator(msgspec.Struct, frozen=True, array_like=True):
    """All state of one operator in one subtask, in its stored form."""

    keyed: dict[str, EncodedTable]
    operator: dict[str, EncodedList]
    native: NativeState | None = None


SHARED = "shared/"
"""The folder of files that several checkpoints share."""


class StateFile(msgspec.Struct, frozen=True, array_like=True):
    """An SST file of an operator's database in a checkpoint; it never changes.

    ``path`` is "" only in an acknowledgement, for a file that is stored already (Flink:
    PlaceholderStreamStateHandle). The metadata of a checkpoint has the path of every file.
    """

    operator_id: str
    name: str
    path: str
    length: int
    sha256: str

    @property
    def is_shared(self) -> bool:
        """Whether other checkpoints may refer to the file."""
        return not self.path or self.path.startswith(SHARED)

    def check(self, data: bytes) -> None:
        """Raise DamagedFile unless ``data`` is the content that was stored."""
        if len(data) != self.length:
            kind = "truncated" if len(data) < self.length else "overlong"
            raise DamagedFile(
                self.path, f"{kind}: {len(data)} bytes where the checkpoint lists {self.length}"
            )
        if sha256(data).hexdigest() != self.sha256:
            raise DamagedFile(self.path, "damaged: its content does not match its checksum")


class NativePart(msgspec.Struct, frozen=True):
    """The inclusive range of key groups that a restore takes from one stored database.

    ``path`` is the file that names the database, ``files`` are its SST files by name, ``read`` reads a path.
    """

    low: int
    high: int
    path: str
    state: NativeState
    files: Mapping[str, StateFile]
    read: Callable[[str], bytes]

    def length(self) -> int:
        """Return the total size of the SST files in bytes."""
        return sum(file.length for file in self.files.values())


class SnapshotIndex(msgspec.Struct, frozen=True, array_like=True):
    """An index of one operator's state in a file, kept in the metadata.

    ``keyed``: state name -> key group -> number of entries; ``operator``: state name -> (mode, number of
    elements); ``is_native``: keyed state is a database, and ``keyed`` has only the names of its states.
    """

    keyed: dict[str, dict[int, int]]
    operator: dict[str, tuple[str, int]]
    is_native: bool = False

    @property
    def has_state(self) -> bool:
        """Whether there is anything to restore."""
        if self.is_native or any(self.keyed.values()):
            return True
        for _, count in self.operator.values():  # noqa: SIM110 (asked for every subtask of every restore)
            if count:
                return True
        return False


DecodedSnapshot: TypeAlias = dict[str, EncodedOperator]
"""The content of a file: operator id -> its state, still encoded by key group and element."""
