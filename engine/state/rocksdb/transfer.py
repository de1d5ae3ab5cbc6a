"""Converts state between a database and the canonical form that every backend reads.

The canonical form is that of a hashmap backend: by key group, blocks of keys and values. The conversion
decodes only the outer frame of msgpack, because the bytes of keys and values are the same in both. Only keys
whose equal values may have different bytes are decoded and encoded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, repeat
from typing import Any, Final

import msgspec

from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.state.descriptors import LIST, MAP
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.engine.state.restoring import unreadable_group
from onceproof.engine.state.rocksdb.database_tables import ElementNumbers
from onceproof.engine.state.rocksdb.databases import (
    DatabaseCheckpoint,
    Databases,
    DatabaseUnreadable,
    OpenDatabase,
)
from onceproof.engine.state.rocksdb.layout import (
    GROUP_BYTES,
    EntryLayout,
    Keys,
    canonical_form,
    pack_group,
    pack_sequence,
    range_of_groups,
)
from onceproof.engine.state.stored import EncodedTable, NativePart, TableDescription
from onceproof.engine.types import TypeInformation, from_descriptor
from onceproof.engine.types.information import ENCODE

Raw = msgspec.Raw

_PLAIN: Final = msgspec.msgpack.Decoder(list[tuple[list[Raw], list[Raw]]])
_NAMESPACED: Final = msgspec.msgpack.Decoder(list[tuple[list[Raw], list[Raw], list[Raw]]])
_ELEMENTS: Final = msgspec.msgpack.Decoder(list[Raw])
_ITEMS: Final = msgspec.msgpack.Decoder(list[tuple[Raw, Raw]])


def layout_of(name: str, table: TableDescription, max_parallelism: int) -> EntryLayout:
    key_type = from_descriptor(table.key_type)
    namespace = None if table.namespace_type is None else from_descriptor(table.namespace_type)
    return EntryLayout(name, table.kind, Keys(key_type, max_parallelism), namespace)


# From the canonical form into a database.


def import_table(
    database: OpenDatabase, name: str, table: EncodedTable, max_parallelism: int, sequence: ElementNumbers
) -> None:
    """Write a stored table into a database."""
    layout = layout_of(name, table.described(), max_parallelism)
    for group, data in table.groups.items():
        try:
            database.write(_pairs(layout, table, group, data, sequence))
        except (ValueError, RecursionError) as error:
            raise unreadable_group(name, group, error) from error


def _pairs(
    layout: EntryLayout, table: EncodedTable, group: int, data: bytes, sequence: ElementNumbers
) -> Iterator[tuple[bytes, bytes]]:
    beginning = pack_group(group) + layout.prefix
    if table.namespace_type is None:
        blocks: Iterable[tuple[Iterable[Any], ...]] = (
            (keys, repeat(None, len(keys)), values) for keys, values in _PLAIN.decode(data)
        )
        same_namespace: Callable[[Any], bytes] = _unchanged
    else:
        same_namespace = _rewriter(from_descriptor(table.namespace_type))
        blocks = _NAMESPACED.decode(data)
    rest = _rest_writer(table, sequence)
    for columns in blocks:
        for key, namespace, held in zip(*columns, strict=True):
            joined = layout.join(bytes(key), None if namespace is None else same_namespace(namespace))
            for behind, value in rest(held):
                yield beginning + joined + behind, value


def _rest_writer(
    table: EncodedTable, sequence: ElementNumbers
) -> Callable[[Any], Iterable[tuple[bytes, bytes]]]:
    """Return the function from an encoded value to its (rest of the key, value) pairs in the database."""
    if table.kind == LIST:
        return lambda held: [
            (pack_sequence(number), bytes(element))
            for element in _ELEMENTS.decode(held)
            for number in sequence.take(1)
        ]
    if table.kind == MAP:
        same_key = _rewriter(from_descriptor(table.value_type[1]))
        return lambda held: [(same_key(key), bytes(value)) for key, value in _ITEMS.decode(held)]
    return lambda held: [(b"", bytes(held))]


def _unchanged(data: Any) -> bytes:
    return bytes(data)


def _rewriter(kind: TypeInformation) -> Callable[[Any], bytes]:
    """Return a function that maps the bytes of equal keys to the same bytes."""
    canonical = canonical_form(kind)
    if canonical is None:
        return _unchanged
    decode, encode = kind.decoder(), kind.encoder()
    return lambda data: encode(canonical(decode(bytes(data))))


# From a database into the canonical form.


def export_table(
    database: OpenDatabase, name: str, table: TableDescription, key_groups: range, max_parallelism: int
) -> EncodedTable:
    """Read a table out of a database."""
    layout = layout_of(name, table, max_parallelism)
    counts: dict[int, int] = {}
    groups: dict[int, bytes] = {}
    for group in key_groups:
        block = _held(database, layout, table.kind, pack_group(group) + layout.prefix)
        if block[0]:
            counts[group] = len(block[0])
            groups[group] = ENCODE([block])
    return EncodedTable(table.kind, table.key_type, table.value_type, counts, groups, table.namespace_type)


def _held(database: OpenDatabase, layout: EntryLayout, kind: str, prefix: bytes) -> list[list[Any]]:
    """Return a table in one key group as one block."""

    def entry_of(pair: tuple[bytes, bytes]) -> tuple[bytes, bytes | None]:
        key, namespace, _ = layout.split(pair[0])
        return key, namespace

    keys: list[Raw] = []
    namespaces: list[Raw] = []
    values: list[Any] = []
    for (key, namespace), found in groupby(database.scan(prefix), entry_of):
        keys.append(Raw(key))
        if namespace is not None:
            namespaces.append(Raw(namespace))
        if kind == LIST:
            values.append([Raw(value) for _, value in found])
        elif kind == MAP:
            values.append([(Raw(data[layout.split(data)[2] :]), Raw(value)) for data, value in found])
        else:
            ((_, value),) = found
            values.append(Raw(value))
    return [keys, namespaces, values] if namespaces else [keys, values]


# Databases that a checkpoint holds.


def given_or_rocksdb(databases: Databases | None) -> Databases:
    """Return the databases that a driver gives, or those of RocksDB."""
    if databases is not None:
        return databases
    # Imported late: only who opens a real database needs rocksdict.
    from onceproof.engine.state.rocksdb.database import Database

    return Database


def open_part(
    part: NativePart, settings: StateBackendSettings, read_only: bool, databases: Databases | None = None
) -> OpenDatabase:
    """Open a copy of a stored database.

    Raises DamagedFile, and the errors of ``part.read``.
    """
    try:
        return given_or_rocksdb(databases).of_files(_files(part), settings, read_only)
    except DatabaseUnreadable as error:
        raise DamagedFile(part.path, f"the database that it names cannot be opened ({error})") from error


def _files(part: NativePart) -> Iterator[tuple[str, bytes]]:
    yield from part.state.small.items()
    for name, stored in part.files.items():
        data = part.read(stored.path)
        stored.check(data)
        yield name, data


def export_part(
    part: NativePart, max_parallelism: int, databases: Databases | None = None
) -> dict[str, EncodedTable]:
    """Read a part into the canonical form, for a hashmap backend."""
    database = open_part(part, StateBackendSettings(), True, databases)
    try:
        key_groups = range(part.low, part.high + 1)
        return {
            name: export_table(database, name, table, key_groups, max_parallelism)
            for name, table in part.state.tables.items()
        }
    finally:
        database.close()


def export_checkpoint(
    taken: DatabaseCheckpoint,
    tables: Mapping[str, TableDescription],
    own_groups: tuple[int, int],
    max_parallelism: int,
    settings: StateBackendSettings,
    databases: Databases | None = None,
) -> dict[str, EncodedTable]:
    """Read a checkpoint of a database into the canonical form, for a savepoint."""
    database = given_or_rocksdb(databases).of_checkpoint(taken, settings)
    try:
        low, high = own_groups
        key_groups = range(low, high + 1)
        return {
            name: export_table(database, name, table, key_groups, max_parallelism)
            for name, table in tables.items()
        }
    finally:
        database.close()


def clip(database: OpenDatabase, low: int, high: int) -> None:
    """Delete all but an inclusive range of key groups."""
    begin, end = range_of_groups(low, high)
    database.delete_range(b"", begin)
    database.delete_range(end, b"\xff" * (GROUP_BYTES + 1))


def merge(
    target: OpenDatabase,
    part: NativePart,
    settings: StateBackendSettings,
    databases: Databases | None = None,
) -> None:
    """Copy the key groups of a part into a database."""
    source = open_part(part, settings, True, databases)
    try:
        target.write(source.scan_range(*range_of_groups(part.low, part.high)))
    finally:
        source.close()
