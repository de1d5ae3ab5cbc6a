"""What a reader knows of the content of a file, so that it notices when the file is another one.

The rules this module lives by:

- A position in a file carries a mark of the content before it: how much was read, a digest of the first bytes
  and one of the last block. A file may grow; it may not be shorter than its mark, or differ from it.
- Inodes and times are no part of a mark: copies, rsync and new machines change them.
- While a file is read, each block is followed by a look: the file may not have become shorter, and it begins
  as it did. What was read is given on only after the look, so no cut line is ever a record.
- What lies between the first bytes and the last block is not checked: that would be reading all of it again.
- A file whose name ends in .gz, .bz2 or .xz is unpacked (Flink: StandardDeCompressors), and its offsets count
  unpacked bytes. Other compressed names are refused.
"""

from __future__ import annotations

import bz2
import gzip
import logging
import lzma
import os
import zlib
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, BinaryIO, Final, TypeAlias

from onceproof.engine.configuration.options import FAIL, FROM_START, SOURCE_ON_CHANGE
from onceproof.engine.connectors.source import SplitReader
from onceproof.engine.errors import UnrecoverableError

HEAD_BYTES: Final = 1 << 12
TAIL_BYTES: Final = 1 << 16
"""How much of the last block a mark covers at most, where the block is larger."""

Mark: TypeAlias = tuple[int, int, str, int, str]
"""How many bytes were read; of the first and of the last ones, how many were digested, and the digest."""

_DIGEST_BYTES: Final = 16
_UNKNOWN_SIZE: Final = 1 << 62
_UNPACK: Final[Mapping[str, Callable[[BinaryIO], Any]]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".gzip": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
_REFUSED: Final = frozenset({".7z", ".deflate", ".lz4", ".snappy", ".zip", ".zst", ".zstd"})

_logger = logging.getLogger(__name__)


class UnreadableFile(UnrecoverableError, OSError):
    """The job or its checkpoint needs a file that cannot be read. The message is one line."""

    def __str__(self) -> str:
        return str(self.args[0])


class DamagedPack(UnreadableFile):
    """A compressed file ends too early, or is damaged."""


class ChangedFile(UnreadableFile):
    """A file is not the one that a position was taken in. The message is one line."""

    def __init__(self, path: str, place: int, what: str) -> None:
        super().__init__(
            f"file {path} is not the one that was read up to byte {place}: {what}: put the file back as it"
            f" was, or set {SOURCE_ON_CHANGE.key} to from-start or skip"
        )
        self.path = path
        self.place = place
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.place, self.what)


def unreadable(path: str, error: OSError) -> UnreadableFile:
    """Return the error about a file that the system does not read."""
    return UnreadableFile(f"file {path} cannot be read: {error.strerror}: check the path")


def is_packed(path: str) -> bool:
    """Return whether a file is unpacked while it is read. Raises UnreadableFile for what is not unpacked."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix in _REFUSED:
        raise UnreadableFile(
            f"file {path} is compressed in a way that is not read: unpack it, or pack it as .gz, .bz2 or .xz"
        )
    return suffix in _UNPACK


def digest_of(data: bytes) -> str:
    """Return the digest that marks are made of."""
    return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def mark_of(head: bytes, tail: bytes, end: int) -> Mark:
    """Return the mark of what begins with ``head`` and ends, at byte ``end``, with ``tail``."""
    head, tail = head[:end], tail[-TAIL_BYTES:]
    return end, len(head), digest_of(head), len(tail), digest_of(tail)


class Content:
    """A file that is open: its bytes, unpacked, and whether it is still the file that it was.

    Args:
        path: names the file.
        file: the file, if it is open already; it is then read as it is.

    Raises:
        UnreadableFile: it cannot be opened.
    """

    __slots__ = ("_descriptor", "_end", "_file", "_head", "_raw", "_raw_head", "_raw_size", "path", "place")

    def __init__(self, path: str, file: BinaryIO | None = None) -> None:
        self.path = path
        self.place = 0
        """Up to where the file was read; its reader moves it."""
        packed = file is None and is_packed(path)
        try:
            self._raw = open(path, "rb") if file is None else file  # noqa: SIM115
        except OSError as error:
            raise unreadable(path, error) from error
        self._descriptor = self._raw.fileno()
        self._file = _UNPACK[os.path.splitext(path)[1].lower()](self._raw) if packed else self._raw
        self._end: int | None = _UNKNOWN_SIZE if packed else None
        """Where the unpacked bytes end, as far as it is known; None: the file is not compressed."""
        self._head: bytes | None = None
        self._raw_head = b""
        self._raw_size = 0
        self.look()

    def look(self) -> int:
        """Return how many bytes the file has; a very large number while only unpacking can tell.

        Raises:
            ChangedFile: it has become shorter, or begins with other bytes.
        """
        size = os.fstat(self._descriptor).st_size
        if size < self._raw_size:
            raise self._changed(f"it had {self._raw_size} bytes and has {size}")
        head = os.pread(self._descriptor, HEAD_BYTES, 0)
        if not head.startswith(self._raw_head):
            raise self._changed("its first bytes have been overwritten")
        self._raw_head = head
        self._raw_size = size
        return self.known_size

    @property
    def known_size(self) -> int:
        """What the last look returned."""
        return self._raw_size if self._end is None else self._end

    def head(self) -> bytes:
        """Return the first bytes."""
        if self._end is None:
            return self._raw_head
        if self._head is None:
            # Asked again at the end of the file, it would be unpacked once more.
            self._head = self.bytes_at(0, HEAD_BYTES)
        return self._head

    @property
    def identity(self) -> tuple[int, int]:
        """What all names of the file share while it exists: its device and inode."""
        status = os.fstat(self._descriptor)
        return status.st_dev, status.st_ino

    def is_at(self, path: str) -> bool:
        """Return whether a path names this file now."""
        there = os.stat(path)
        return self.identity == (there.st_dev, there.st_ino)

    def size(self) -> int:
        """Return how many bytes the file had at the last look, packed as they are."""
        return self._raw_size

    def holds(self, offset: int, data: bytes) -> bool:
        """Return whether bytes that were read are still there; of a file that is compressed, look() tells."""
        return self._end is not None or self.bytes_at(offset, len(data)) == data

    def bytes_at(self, offset: int, length: int) -> bytes:
        """Return bytes from an offset; fewer at the end. A compressed file is at another place then."""
        if self._end is None:
            return os.pread(self._descriptor, length, offset)
        self.seek(offset)
        return self.read(length)

    def mark(self, end: int) -> Mark:
        """Return the mark of the bytes before ``end``."""
        begin = max(0, end - TAIL_BYTES)
        return mark_of(self.head(), self.bytes_at(begin, end - begin), end)

    def check(self, mark: Mark) -> bytes:
        """Check that the file still has what a mark was taken of; return the last bytes of that.

        Raises:
            ChangedFile: it has not.
        """
        end, head_length, head_digest, tail_length, tail_digest = mark
        size = self.look()
        if size < end:
            raise ChangedFile(self.path, end, f"it has {size} bytes")
        head = self.head()[:head_length]
        if digest_of(head) != head_digest:
            raise ChangedFile(self.path, end, f"its first {head_length} bytes differ")
        tail = self.bytes_at(end - tail_length, tail_length)
        if digest_of(tail) != tail_digest:
            raise ChangedFile(self.path, end, f"its {tail_length} bytes before that differ")
        return tail

    def seek(self, offset: int) -> None:
        """Go to an offset of the unpacked bytes."""
        self._unpacked(lambda: self._file.seek(offset))

    def read(self, length: int) -> bytes:
        """Return the next bytes; fewer at the end."""
        if self._end is None:
            return self._raw.read(length)
        data: bytes = self._unpacked(lambda: self._file.read(length))
        if len(data) < length:
            self._end = self._file.tell()
        return data

    def readline(self, most: int) -> bytes:
        """Return the rest of the line, ``most`` bytes at most."""
        if self._end is None:
            return self._raw.readline(most)
        line: bytes = self._unpacked(lambda: self._file.readline(most))
        if len(line) < most and not line.endswith(b"\n"):
            self._end = self._file.tell()
        return line

    def tell(self) -> int:
        """Return the offset in the unpacked bytes."""
        place: int = self._file.tell()
        return place

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()

    def _unpacked(self, step: Callable[[], Any]) -> Any:
        if self._end is None:
            return step()
        try:
            return step()
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise DamagedPack(
                f"file {self.path} cannot be unpacked ({error}): it must be whole before it is read"
            ) from error

    def _changed(self, what: str) -> ChangedFile:
        return ChangedFile(self.path, self.place, what)


class CheckedReader(SplitReader):
    """Base of the readers of files: what they do when a file is another one (option ``source.on-change``)."""

    __slots__ = ("_first", "_reaction")

    def __init__(self) -> None:
        self._reaction = FAIL
        self._first: Mark | None = None

    def expect(self, mark: Mark | None) -> None:
        """Keep what the file begins with, as the position does not say it; before the first read."""
        self._first = mark

    def react_to_change(self, reaction: str) -> None:
        """Keep the choice of the job."""
        self._reaction = reaction

    def begins_again(self, change: ChangedFile) -> bool:
        """Return whether the file is read from its beginning; if not, the rest of it is left out.

        Raises:
            ChangedFile: the job is to fail.
        """
        if self._reaction == FAIL:
            raise change
        again = self._reaction == FROM_START
        what = "the new content is read from its beginning" if again else "the rest of the file is left out"
        _logger.warning(
            "file %s is not the one that was read up to byte %s: %s: %s",
            change.path,
            change.place,
            change.what,
            what,
        )
        return again
