"""Reading container files of Avro (PyFlink: AvroInputFormat).

The rules this module lives by:

- A record is a dict, with the values that Avro stores: a timestamp is a number, a decimal bytes, as in Flink.
- The records of a file have the schema that the job's program gives, whatever the file was written with:
  Avro's rules of resolution fill in defaults and leave out fields.
- The file's own header and blocks are read here, with bounds for each length in them, and only the records
  by the package. A block is at most ``MOST_BLOCK_BYTES``, compressed and not.
- The place of a block is its offset.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, Final

from onceproof.engine.connectors.bulk_files import Block, BulkFile, BulkFormat, InputFormat, MalformedFile
from onceproof.engine.connectors.file_content import unreadable
from onceproof.engine.connectors.folder_source import FileSource
from onceproof.engine.connectors.source import Source
from onceproof.engine.formats.avro_schema import (
    LONGEST_SCHEMA_BYTES,
    AvroSchema,
    GenericRecordAvroTypeInfo,
    InvalidAvroSchema,
)
from onceproof.engine.formats.avro_types import avro_field_of
from onceproof.engine.types import TypeInformation

MOST_BLOCK_BYTES: Final = 1 << 26
BATCH_RECORDS: Final = 1000

_MAGIC: Final = b"Obj\x01"
_MARKER_BYTES: Final = 16
_MOST_ENTRIES: Final = 1000
_MEND: Final = "write the file again, or leave it out"


class AvroInputFormat(InputFormat):
    """Reads the container files of Avro at a path (PyFlink: AvroInputFormat).

    Args:
        path: a file, or a folder, which is read with all folders below it.
        schema: the schema of the records.

    Raises:
        TypeError: it is not an AvroSchema.
        InvalidAvroSchema: the schema contains itself.
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        self._path = os.fspath(path)
        self._type = GenericRecordAvroTypeInfo(schema)
        self._format = AvroFileFormat(schema)

    def create_source(self) -> Source:
        """Return the source of the files. Raises UnreadableFile if the path does not exist."""
        return FileSource.for_bulk_file_format(self._format, self._path).build()

    def get_produced_type(self) -> TypeInformation:
        """Return DYNAMIC: a record is a dict of plain data."""
        return self._type


class AvroFileFormat(BulkFormat):
    """Container files whose records are read with one schema."""

    def __init__(self, schema: AvroSchema) -> None:
        import fastavro

        self._schema = schema
        self._stored = fastavro.parse_schema(avro_field_of(schema).stored)

    def open_file(self, path: str) -> AvroFile:
        """Open a file. Raises MalformedFile, or OSError."""
        return AvroFile(path, self._stored)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._schema,)


class AvroFile(BulkFile):
    """A container file that is open."""

    def __init__(self, path: str, reader_schema: Any) -> None:
        import fastavro

        self._path = path
        self._reader_schema = reader_schema
        self._read: Any = fastavro.schemaless_reader
        self._file: BinaryIO = open(path, "rb")  # noqa: SIM115
        try:
            self._length = os.fstat(self._file.fileno()).st_size
            entries = self._header()
            self._writer_schema = self._schema_of(entries.get("avro.schema", b""))
            codec = entries.get("avro.codec", b"null").decode("utf-8", "replace")
            if codec not in _DECOMPRESS:
                raise self._malformed(
                    "header", f"the codec {codec[:40]!r} is not read: write with {', '.join(_DECOMPRESS)}"
                )
            self._decompress = _DECOMPRESS[codec]
            self._marker = self._exactly(_MARKER_BYTES, "header")
            self.first_place = self._file.tell()
        except BaseException:
            self._file.close()
            raise

    def block(self, place: int, skip: int) -> Block | None:
        if place >= self._length:
            return None
        self._file.seek(place)
        where = f"block at byte {place}"
        count = self._long(where)
        size = self._long(where)
        if count < 0 or not 0 <= size <= MOST_BLOCK_BYTES:
            raise self._malformed(where, f"it has {count} records and {size} bytes: {_MEND}")
        data = self._exactly(size, where)
        if self._exactly(_MARKER_BYTES, where) != self._marker:
            raise self._malformed(where, f"it does not end in the marker of the file: {_MEND}")
        try:
            plain = self._decompress(data)
        except (ValueError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise self._malformed(where, f"it cannot be unpacked ({error}): {_MEND}") from None
        end = self._file.tell()
        return Block(self._batches(plain, count, skip, where), count, end, end)

    def close(self) -> None:
        self._file.close()

    def _batches(self, data: bytes, count: int, skip: int, where: str) -> Iterator[list[Any]]:
        stream = io.BytesIO(data)
        read, writer, reader = self._read, self._writer_schema, self._reader_schema
        batch: list[Any] = []
        for number in range(count):
            try:
                record = read(stream, writer, reader)
            except Exception as error:
                # The binding raises EOFError, IndexError and others, as the bytes have it.
                raise self._malformed(
                    f"{where}, record {number + 1}", f"{type(error).__name__}: {error}: {_MEND}"
                ) from None
            if number >= skip:
                batch.append(record)
                if len(batch) == BATCH_RECORDS:
                    yield batch
                    batch = []
        if stream.tell() < len(data):
            raise self._malformed(where, f"{len(data) - stream.tell()} bytes are left over: {_MEND}")
        yield batch

    def _header(self) -> Mapping[str, bytes]:
        if self._file.read(len(_MAGIC)) != _MAGIC:
            raise self._malformed("header", "it is not a container file of Avro: read it with its own format")
        entries: dict[str, bytes] = {}
        while count := self._long("header"):
            if count < 0:
                count = -count
                self._long("header")
            if count + len(entries) > _MOST_ENTRIES:
                raise self._malformed("header", f"it has more than {_MOST_ENTRIES} entries: {_MEND}")
            for _ in range(count):
                name = self._bytes("header").decode("utf-8", "replace")
                entries[name] = self._bytes("header")
        return entries

    def _schema_of(self, data: bytes) -> Any:
        import fastavro

        try:
            schema = AvroSchema.parse_string(data.decode())
            return fastavro.parse_schema(avro_field_of(schema).stored)
        except (
            InvalidAvroSchema,
            UnicodeDecodeError,
            RecursionError,
            ValueError,
            KeyError,
            TypeError,
        ) as error:
            raise self._malformed("header", f"{error}: {_MEND}") from None

    def _bytes(self, where: str) -> bytes:
        length = self._long(where)
        if not 0 <= length <= LONGEST_SCHEMA_BYTES:
            raise self._malformed(where, f"an entry has {length} bytes: {_MEND}")
        return self._exactly(length, where)

    def _long(self, where: str) -> int:
        """Read a whole number in Avro's zigzag form."""
        number = shift = 0
        while True:
            byte = self._exactly(1, where)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7
            if shift > 63:
                raise self._malformed(where, f"a number has too many bytes: {_MEND}")

    def _exactly(self, length: int, where: str) -> bytes:
        try:
            data = self._file.read(length)
        except OSError as error:
            raise unreadable(self._path, error) from error
        if len(data) < length:
            raise self._malformed(where, f"the file ends within it: {_MEND}")
        return data

    def _malformed(self, where: str, what: str) -> MalformedFile:
        return MalformedFile(self._path, where, what)


def _bounded(decompressor: Any, data: bytes) -> bytes:
    plain: bytes = decompressor.decompress(data, MOST_BLOCK_BYTES + 1)
    if len(plain) > MOST_BLOCK_BYTES:
        raise ValueError(f"it is larger than {MOST_BLOCK_BYTES} bytes")
    if not decompressor.eof:
        raise ValueError("it ends too early")
    return plain


_DECOMPRESS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": lambda data: _bounded(zlib.decompressobj(-zlib.MAX_WBITS), data),
    "bzip2": lambda data: _bounded(bz2.BZ2Decompressor(), data),
    "xz": lambda data: _bounded(lzma.LZMADecompressor(memlimit=MOST_BLOCK_BYTES * 2), data),
}
