"""Snapshots of a task's state: isolated copies in memory, and their encoding as one file.

A snapshot has two parts:

- The synchronous part copies tables and lists so that later changes do not reach the snapshot. It runs
  between two calls of a machine and must be short.
- The asynchronous part, ``encode_task_snapshot``, runs in another thread while the task goes on. It reads
  nothing that the task changes: all in a snapshot is a copy, or is replaced instead of changed.
- The asynchronous part checks every value against its declared type, and encodes each table by key group, so
  that a restore at another parallelism decodes only the groups it owns.

Restored state that the job does not register is carried along in its encoded form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import file_digest, sha256
from os.path import getsize
from typing import Any

import msgspec
from msgspec.structs import replace

from onceproof.engine.errors import text_of
from onceproof.engine.java_hashes import InvalidKey
from onceproof.engine.key_identity import value_of
from onceproof.engine.state.file_envelope import (
    LARGEST_NUMBER,
    SNAPSHOT_MAGIC,
    DamagedFile,
    StateError,
    first_part,
    format_version,
    is_database_file,
    seal,
    unseal,
)
from onceproof.engine.state.in_flight import NO_RECORDS, ChannelIndex, ChannelRecords, encode_channels
from onceproof.engine.state.key_blocks import KeyGroupCache, KeySorter, blocks_of
from onceproof.engine.state.raw import RAW, RAW_KIND
from onceproof.engine.state.stored import (
    SPLIT_DISTRIBUTE,
    DecodedSnapshot,
    EncodedList,
    EncodedOperator,
    EncodedTable,
    NativeState,
    SnapshotIndex,
    StateFile,
    TableDescription,
    from_first_format,
)
from onceproof.engine.types import NotDescribable, TypeInformation, WrongValue
from onceproof.engine.types.information import ENCODE
from onceproof.engine.types.wrapped import nullable

_WRONG = (WrongValue, NotDescribable, InvalidKey, UnicodeEncodeError)


class TableSnapshot(msgspec.Struct):
    """The isolated copy of one keyed table."""

    name: str
    kind: str
    value_type: TypeInformation
    entries: dict[Any, Any]
    namespace_type: TypeInformation | None = None


class KeyedSnapshot(msgspec.Struct):
    """The isolated copy of a keyed backend. ``carried`` is restored state that the job has not registered."""

    max_parallelism: int
    key_type: TypeInformation
    tables: list[TableSnapshot]
    carried: Mapping[str, EncodedTable]
    key_groups: KeyGroupCache
    allow_pickle: bool = False


class LocalTable(msgspec.Struct, frozen=True):
    """An SST file of a database to be stored: its local path ``source``, and perhaps its ``earlier`` path.

    ``earlier`` is where a previous checkpoint stored it; ``is_shared``: it is not stored a second time.
    """

    operator_id: str
    name: str
    source: str
    length: int
    sha256: str
    earlier: str | None
    is_shared: bool = False


class NativeSnapshot(msgspec.Struct, eq=False):
    """The database of a keyed backend at the time of the snapshot.

    ``checkpoint`` has its files: ``path``, ``tables`` (names below it) and ``small`` (name -> content). The
    files exist as long as this object. ``known`` are tables that an earlier checkpoint has stored, by name;
    if ``is_incremental``, they are not stored again. The driver that stores the snapshot sets ``stored``.
    ``exported`` reads the database into the canonical form.
    """

    descriptions: dict[str, TableDescription]
    next_sequence: int
    checkpoint: Any
    known: Mapping[str, StateFile]
    exported: Callable[[], dict[str, EncodedTable]]
    is_incremental: bool = False
    merges_equal_keys: bool = False
    stored: dict[str, StateFile] = {}

    def tables(self, operator_id: str) -> list[LocalTable]:
        """List the SST files to store; those that are not ``known`` are read for their checksum."""
        listed = []
        shared = self.is_incremental
        for name in self.checkpoint.tables:
            source = f"{self.checkpoint.path}/{name}"
            known = self.known.get(name)
            if known is None:
                with open(source, "rb") as file:
                    digest = file_digest(file, sha256).hexdigest()
                table = LocalTable(operator_id, name, source, getsize(source), digest, None, shared)
            else:
                table = LocalTable(operator_id, name, source, known.length, known.sha256, known.path, shared)
            listed.append(table)
        return listed


class ListSnapshot(msgspec.Struct):
    """The isolated copy of one operator state."""

    name: str
    mode: str
    element_type: TypeInformation
    elements: list[Any]


class OperatorStateSnapshot(msgspec.Struct):
    """The isolated copy of an operator state store."""

    lists: list[ListSnapshot]
    carried: Mapping[str, EncodedList]
    allow_pickle: bool = False


class OperatorSnapshot(msgspec.Struct):
    """The synchronous part of one operator's snapshot."""

    keyed: KeyedSnapshot | NativeSnapshot | None = None
    operator: OperatorStateSnapshot | None = None
    raw_keyed: dict[int, bytes] = {}
    raw_operator: list[bytes] = []


class TaskSnapshot(msgspec.Struct):
    """The synchronous part of a task's snapshot: the state by operator id, and the records in flight."""

    operators: dict[str, OperatorSnapshot]
    channels: ChannelRecords = NO_RECORDS
    allow_pickle: bool = False
    """Whether records in flight may be pickled."""

    @property
    def has_tables(self) -> bool:
        """Whether the snapshot stores SST files besides its own file."""
        return any(isinstance(operator.keyed, NativeSnapshot) for operator in self.operators.values())


class EncodedSnapshot(msgspec.Struct, frozen=True):
    """A snapshot as a file: its bytes, the SHA-256 of their body, and an index by operator id.

    ``tables`` are the SST files to store beside it, those of the databases ``natives`` by operator id.
    ``channels`` is the index of the records in flight at the end of the file.
    """

    data: bytes
    sha256: str
    operators: dict[str, SnapshotIndex]
    tables: list[LocalTable] = []
    natives: dict[str, NativeSnapshot] = {}
    channels: ChannelIndex | None = None

    @property
    def has_state(self) -> bool:
        """Whether the file holds anything to restore."""
        return any(index.has_state for index in self.operators.values())


_BODY_DECODER = msgspec.msgpack.Decoder(DecodedSnapshot)


def encode_task_snapshot(snapshot: TaskSnapshot, canonical: bool = False) -> EncodedSnapshot:
    """Check and encode a snapshot: the asynchronous part.

    ``canonical``: write databases in the form of a hashmap backend as well, as savepoints need.
    """
    body: DecodedSnapshot = {}
    indexes: dict[str, SnapshotIndex] = {}
    natives: dict[str, NativeSnapshot] = {}
    tables: list[LocalTable] = []
    for operator_id, operator in snapshot.operators.items():
        keyed: dict[str, EncodedTable] = {}
        lists: dict[str, EncodedList] = {}
        counts: dict[str, dict[int, int]] = {}
        lengths: dict[str, tuple[str, int]] = {}
        native = None
        taken = operator.keyed
        if taken is not None or operator.raw_keyed:
            if type(taken) is KeyedSnapshot:
                keyed = _encode_keyed(taken)
            elif type(taken) is NativeSnapshot and canonical:
                keyed = taken.exported()
            elif type(taken) is NativeSnapshot:
                natives[operator_id] = taken
                tables += taken.tables(operator_id)
                native = NativeState(
                    taken.descriptions,
                    taken.next_sequence,
                    taken.checkpoint.small,
                    taken.merges_equal_keys,
                )
                counts = {name: {} for name in taken.descriptions}
            if operator.raw_keyed:
                keyed[RAW] = _table_of_raw(operator.raw_keyed)
            for name, table in keyed.items():
                counts[name] = table.counts
        if operator.operator is not None:
            lists = _encode_operator(operator.operator)
        if operator.raw_operator:
            lists[RAW] = EncodedList(SPLIT_DISTRIBUTE, RAW_KIND, operator.raw_operator)
        for name, item in lists.items():
            lengths[name] = (item.mode, len(item.elements))
        body[operator_id] = EncodedOperator(keyed, lists, native)
        indexes[operator_id] = SnapshotIndex(counts, lengths, native is not None)
    data, digest = seal(SNAPSHOT_MAGIC, ENCODE(body))
    channels = None
    if snapshot.channels:
        part, channels = encode_channels(snapshot.channels, allow_pickle=snapshot.allow_pickle)
        data += part
    return EncodedSnapshot(data, digest, indexes, tables, natives, channels)


def _table_of_raw(groups: dict[int, bytes]) -> EncodedTable:
    """Return the raw state of key groups as a table, so that it is redistributed like one."""
    return EncodedTable(RAW_KIND, None, None, dict.fromkeys(groups, 1), groups)


def decode_task_snapshot(data: bytes, path: str, expected_sha256: str | None = None) -> DecodedSnapshot:
    """Read a file that ``encode_task_snapshot`` wrote; ``expected_sha256`` comes from the metadata.

    Raises DamagedFile.
    """
    body, digest = unseal(SNAPSHOT_MAGIC, first_part(data), path)
    if expected_sha256 is not None and digest != expected_sha256:
        raise DamagedFile(path, "another file than the one that the checkpoint's metadata lists")
    try:
        decoded = _BODY_DECODER.decode(body)
        if format_version(data) == 1:
            decoded = {operator_id: _from_first_format(stored) for operator_id, stored in decoded.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFile(path, f"its content cannot be read ({error})") from error
    for operator in decoded.values():
        _check_operator(operator, path)
    return decoded


def _from_first_format(operator: EncodedOperator) -> EncodedOperator:
    """Return the state of an operator as a file of the present format has it."""
    keyed = {
        name: table if table.kind == RAW_KIND else from_first_format(table)
        for name, table in operator.keyed.items()
    }
    return replace(operator, keyed=keyed)


def _check_operator(operator: EncodedOperator, path: str) -> None:
    """Raise DamagedFile for names and numbers that no snapshot has."""
    native = operator.native
    if native is not None:
        for name in native.small:
            if not is_database_file(name):
                raise DamagedFile(path, f"forged or damaged: {name!r} is not a name of a database's file")
        if not 0 <= native.next_sequence < LARGEST_NUMBER:
            raise DamagedFile(path, f"forged or damaged: a list continues at {native.next_sequence}")
    for state, table in operator.keyed.items():
        if table.counts.keys() != table.groups.keys():
            raise DamagedFile(path, f"forged or damaged: state {state!r} counts other key groups than it has")


def _encode_keyed(snapshot: KeyedSnapshot) -> dict[str, EncodedTable]:
    encoded: dict[str, EncodedTable] = {}
    for table in snapshot.tables:
        encoded[table.name] = _encode_table(table, snapshot)
    if snapshot.carried:
        encoded.update(snapshot.carried)
    return encoded


def _encode_table(table: TableSnapshot, snapshot: KeyedSnapshot) -> EncodedTable:
    """Encode a table block by block: see ``key_blocks``, which also has the reason."""
    key_type, value_type, namespace_type = snapshot.key_type, table.value_type, table.namespace_type
    namespace = None if namespace_type is None else namespace_type.descriptor
    counts: dict[int, int] = {}
    parts: dict[int, list[msgspec.Raw]] = {}
    sorter = KeySorter(snapshot.key_groups.blocks.get(table.name, []), key_type, snapshot.max_parallelism)
    blocks = blocks_of(table.entries, namespace_type is not None, snapshot.max_parallelism)
    try:
        for keys, namespaces, values in blocks:
            runs = sorter.next_runs(keys)
            held = _packed(values, value_type, snapshot.allow_pickle)
            named = None
            if namespaces is not None:
                assert namespace_type is not None
                named = _packed(namespaces, namespace_type, allow_pickle=False)
            for run in runs:
                group, positions = run.group, run.positions
                columns: list[Any] = [run.keys]
                if named is not None:
                    columns.append(list(map(named.__getitem__, positions)))
                columns.append(list(map(held.__getitem__, positions)))
                part = msgspec.Raw(ENCODE(columns))
                try:
                    counts[group] += len(positions)
                    parts[group].append(part)
                except KeyError:
                    counts[group] = len(positions)
                    parts[group] = [part]
    except _WRONG as error:
        raise wrong_entry(table, key_type, error, snapshot.allow_pickle) from error
    snapshot.key_groups.blocks[table.name] = sorter.blocks
    in_order = sorted(counts)
    return EncodedTable(
        table.kind,
        key_type.descriptor,
        value_type.descriptor,
        {group: counts[group] for group in in_order},
        {group: ENCODE(parts[group]) for group in in_order},
        namespace,
    )


def _packed(values: list[Any], kind: TypeInformation, allow_pickle: bool) -> list[Any]:
    """Return the wire forms of a column; raises WrongValue, and NotDescribable."""
    pack = kind.prepare(values, allow_pickle)
    return values if pack is None else [pack(value) for value in values]


def wrong_entry(
    table: TableSnapshot, key_type: TypeInformation, error: Exception, allow_pickle: bool
) -> StateError:
    """Return an error that names the first entry whose key, namespace or value is not of its type."""
    namespace_type = table.namespace_type
    for entry, value in table.entries.items():
        key = value_of(entry if namespace_type is None else entry[0])
        try:
            nullable(key_type).encode(key)
            if key is not None:
                key_type.java_hash(key)
        except _WRONG as found:
            return StateError(f"state {table.name!r}, key {key!r}: not a {key_type.name} key: {found}")
        try:
            if namespace_type is not None:
                namespace_type.encode(entry[1])
        except _WRONG as found:
            return StateError(f"state {table.name!r}, key {key!r}: its namespace: {found}")
        try:
            table.value_type.encode(value, allow_pickle)
        except _WRONG as found:
            return StateError(f"state {table.name!r}, key {key!r}: {found}")
    return StateError(f"state {table.name!r}: {text_of(error) or type(error).__name__}")


def _encode_operator(snapshot: OperatorStateSnapshot) -> dict[str, EncodedList]:
    encoded: dict[str, EncodedList] = {}
    for item in snapshot.lists:
        try:
            pack = item.element_type.prepare(item.elements, snapshot.allow_pickle)
            if pack is None:
                elements = [ENCODE(element) for element in item.elements]
            else:
                elements = [ENCODE(pack(element)) for element in item.elements]
        except _WRONG as error:
            raise wrong_element(item, error, snapshot.allow_pickle) from error
        encoded[item.name] = EncodedList(item.mode, item.element_type.descriptor, elements)
    if snapshot.carried:
        encoded.update(snapshot.carried)
    return encoded


def wrong_element(snapshot: ListSnapshot, error: Exception, allow_pickle: bool) -> StateError:
    """Return an error that names the first element that is not of its type."""
    for element in snapshot.elements:
        try:
            snapshot.element_type.encode(element, allow_pickle)
        except _WRONG as found:
            error = found
            break
    return StateError(f"operator state {snapshot.name!r}: {error}")
