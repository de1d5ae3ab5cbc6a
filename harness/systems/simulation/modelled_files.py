"""The files of modelled databases, and what is wrong with those that cannot be opened.

Rules:

- A file begins with what it holds, and is as long as RocksDB's, about: which files are merged, and which of
  several databases a restore opens, follows from their lengths.
- A file has the number of its database, so that no two files have equal content, as those of RocksDB.
- Errors are those of RocksDB, one line each. Only a manifest that ends early differs: RocksDB reads as much
  of it as there is. No checkpoint has such a manifest, because its file has a checksum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final
from zlib import compress, crc32, decompress

import msgspec

from onceproof.engine.state.rocksdb.databases import DatabaseUnreadable

CURRENT: Final = "CURRENT"
MANIFEST: Final = "MANIFEST-"
FRAME: Final = 1105
"""The bytes of a file without entries; it has deleted ranges then."""
FRAME_OF_ENTRIES: Final = 90
FRAME_OF_RANGES: Final = 70
FRAME_OF_ENTRY: Final = 3
COMPRESSION: Final = 0.68

_MAGIC: Final = b"onceproof model of RocksDB\n"
_CHECKSUM: Final = 4
_HEAD: Final = Struct(">?I")
"""Of an SST file: whether its content is compressed, and how long it is."""

Entries = dict[bytes, bytes | None]
"""The value of each key; None: it is deleted."""
Range = tuple[bytes, bytes]
"""Deleted keys, from the first (inclusive) to the second (exclusive), before the entries were written."""


class Content(msgspec.Struct, frozen=True, array_like=True):
    """The content of an SST file."""

    database: str
    number: int
    is_flushed: bool
    """Whether it is in the level of the files that memory was written to."""
    entries: Entries
    ranges: Sequence[Range]


class ListedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file as the manifest lists it."""

    number: int
    length: int
    checksum: int


class Manifest(msgspec.Struct, frozen=True, array_like=True):
    """The files of a database, from the oldest to the newest, and the number that an opening begins with."""

    database: str
    next_number: int
    files: Sequence[ListedFile]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_content: Final = msgspec.msgpack.Decoder(Content).decode
_decode_manifest: Final = msgspec.msgpack.Decoder(Manifest).decode


class TableFile:
    """An SST file: what it holds, and its bytes."""

    __slots__ = ("content", "data", "listed", "name")

    def __init__(self, content: Content, data: bytes) -> None:
        self.content = content
        self.data = data
        self.listed = ListedFile(content.number, len(data), crc32(data))
        self.name = _table_name(content.number)

    @classmethod
    def of(cls, content: Content) -> TableFile:
        """Return a new file, about as large as that of RocksDB."""
        body = _encode(content)
        length = FRAME
        if content.entries:
            raw = sum(
                [len(key) + len(value or b"") + FRAME_OF_ENTRY for key, value in content.entries.items()]
            )
            length += FRAME_OF_ENTRIES + len(next(reversed(content.entries))) + int(COMPRESSION * raw)
            length += FRAME_OF_RANGES if content.ranges else 0
        is_compressed = len(body) > length
        if is_compressed:
            body = compress(body, 1)
        return cls(content, (_HEAD.pack(is_compressed, len(body)) + body).ljust(length, b"\0"))


def _table_name(number: int) -> str:
    return f"{number:06}.sst"


def _no_file(what: str, name: str) -> str:
    return f"IO error: No such file or directory: While {what}: /{name}: No such file or directory"


def small_files(name: str, manifest: Manifest) -> dict[str, bytes]:
    """Return the files, by name, that a database needs besides its SST files."""
    body = _encode(manifest)
    return {CURRENT: f"{name}\n".encode(), name: _MAGIC + crc32(body).to_bytes(_CHECKSUM) + body}


def manifest_of(contents: Mapping[str, bytes]) -> Manifest:
    """Return the manifest among these files. Raises DatabaseUnreadable."""
    if CURRENT not in contents:
        raise DatabaseUnreadable(_no_file("opening a file for sequentially reading", CURRENT))
    current = contents[CURRENT].decode(errors="replace")
    if not current.endswith("\n"):
        raise DatabaseUnreadable("Corruption: CURRENT file does not end with newline")
    name = current[:-1]
    if not name.startswith(MANIFEST) or not name[len(MANIFEST) :].isdecimal():
        raise DatabaseUnreadable("Corruption: CURRENT file corrupted")
    if name not in contents:
        raise DatabaseUnreadable(_no_file("opening a file for sequentially reading", name))
    held = contents[name].removeprefix(_MAGIC)
    body = held[_CHECKSUM:]
    if int.from_bytes(held[:_CHECKSUM]) != crc32(body) or not body:
        raise DatabaseUnreadable(f"Corruption: checksum mismatch The file /{name} may be corrupted.")
    return _decode_manifest(body)


def table_of(contents: Mapping[str, bytes], listed: ListedFile) -> TableFile:
    """Return a file that the manifest lists, out of these. Raises DatabaseUnreadable."""
    name = _table_name(listed.number)
    data = contents.get(name)
    if data is None:
        raise DatabaseUnreadable(f"Corruption: {_no_file('open a file for random read', name)}")
    if len(data) != listed.length:
        raise DatabaseUnreadable(
            f"Corruption: Sst file size mismatch: /{name}. Expected {listed.length}, actual size {len(data)}"
        )
    if crc32(data) != listed.checksum:
        raise DatabaseUnreadable(f"Corruption: block checksum mismatch in /{name}")
    is_compressed, length = _HEAD.unpack_from(data)
    body = data[_HEAD.size : _HEAD.size + length]
    return TableFile(_decode_content(decompress(body) if is_compressed else body), data)
