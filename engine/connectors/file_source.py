"""Sources that read CSV and JSON lines files, with a split for each file or each byte range of a file.

The rules this module lives by:

- A record belongs to the range that contains its first byte. A range begins at the first line that starts in
  it and reads its last line to the end, so ranges cover a file exactly, whatever their size.
- A position is (offset of a block, records already read of it): a restore reads the block again and skips
  those records. It does not depend on the size of blocks.
- Byte ranges need one record for each line. A CSV file with a quoted field that spans lines is refused when
  it is to be read by ranges; read whole, it is accepted.
- A malformed row is an error that names the file and the line. The line number is computed only then.
- Files must not change during a job; a file that is shorter than a position is an error.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, Final

from onceproof.engine.connectors.formats import (
    CsvFormat,
    FileFormat,
    Format,
    JsonLinesFormat,
    MalformedRow,
    Parser,
    Schema,
    Unfinished,
)
from onceproof.engine.connectors.source import Source, SourceIdentity, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.locations import folder_of_relative

__all__ = ["CsvSource", "JsonLinesSource", "MalformedRow"]

BLOCK_BYTES: Final = 1 << 16
"""The size of a block; its rows fit a processor's cache."""

LONGEST_RECORD_BYTES: Final = 1 << 26

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_RANGE: Final = re.compile(r"(.*)@([0-9]{15})-([0-9]{15})", re.DOTALL)


class UnreadableFile(UnrecoverableError, OSError):
    """The job or its checkpoint needs a file that cannot be read. The message is one line."""

    def __str__(self) -> str:
        return str(self.args[0])


class FormattedFileSource(Source):
    """Base of the sources that read files in a format, from their paths."""

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        file_format: FileFormat,
        bytes_per_split: int | None,
        block_bytes: int,
    ) -> None:
        given = [paths] if isinstance(paths, str | os.PathLike) else paths
        self._paths = [os.fspath(path) for path in given]
        for path in self._paths:
            if self._paths.count(path) > 1:
                raise ValueError(f"file {path} is given twice: its records would be read twice")
        if bytes_per_split is not None and bytes_per_split < 1:
            raise ValueError(f"bytes_per_split is {bytes_per_split}: give at least 1, or leave it out")
        self._folder = folder_of_relative(self._paths)
        self._format = file_format
        self._bytes_per_split = bytes_per_split
        self._block_bytes = block_bytes

    def splits(self) -> Sequence[str]:
        """Return the paths, or ``path@begin-end`` for each byte range."""
        splits: list[str] = []
        for path in self._paths:
            size = _size(self._place_of(path))
            step = self._bytes_per_split
            if step is None:
                splits.append(path)
                continue
            self.check_ranges(self._place_of(path))
            for begin in range(0, max(size, 1), step):
                splits.append(f"{path}@{begin:015d}-{min(begin + step, size):015d}")
        return splits

    def check_ranges(self, path: str) -> None:
        """Raise MalformedRow if the file cannot be read by byte ranges."""

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        """Return a reader of one file or range; its first read opens the file.

        Raises:
            UnreadableFile: the source has no such split.
        """
        path, begin, end = split, 0, None
        if path not in self._paths:
            match = _RANGE.fullmatch(split)
            if match is None or match[1] not in self._paths:
                raise UnreadableFile(
                    f"split {split!r} is not of this source, which reads {', '.join(self._paths)}:"
                    " restore with the files that the checkpoint was taken with"
                )
            path, begin, end = match[1], int(match[2]), int(match[3])
        if end is None:
            return self.open_file(path, position)
        return self._lines(path, begin, end, position)

    def _place_of(self, path: str) -> str:
        """Return the absolute path of a file; splits and positions name it as it was given."""
        return os.path.join(self._folder, path)

    def open_file(self, path: str, position: Any | None) -> SplitReader:
        """Return a reader of a whole file, from a position of an earlier reader on."""
        return self._lines(path, 0, None, position)

    def _lines(self, path: str, begin: int, end: int | None, position: Any | None) -> FileReader:
        assert isinstance(self._format, Format)
        return FileReader(self._format, self._place_of(path), begin, end, position, self._block_bytes)

    def identity(self) -> SourceIdentity:
        """Return the format and the paths as they were given: columns and byte ranges may change."""
        return SourceIdentity(f"{type(self._format).__name__} files {', '.join(sorted(self._paths))}")


class CsvSource(FormattedFileSource):
    """Reads CSV files as in RFC 4180; a value is a tuple of the columns in ``schema`` (ours).

    With a header, the schema may name some of the columns, in any order. In the columns ``nullable``, a field
    that is one of ``null_values`` is None. ``timestamp_column`` has the timestamp of a record in
    milliseconds. ``bytes_per_split`` makes a split for each range of that size; then no quoted field may span
    lines.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        schema: Schema,
        *,
        timestamp_column: str | None = None,
        delimiter: str = ",",
        header: bool = True,
        nullable: Iterable[str] = (),
        null_values: Iterable[str] = ("",),
        bytes_per_split: int | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        csv_format = CsvFormat(
            schema,
            timestamp_column=timestamp_column,
            delimiter=delimiter,
            header=header,
            nullable=tuple(nullable),
            null_values=tuple(null_values),
        )
        super().__init__(paths, csv_format, bytes_per_split, block_bytes)
        self._delimiter = delimiter
        self._checked: dict[str, tuple[int, int]] = {}

    def check_ranges(self, path: str) -> None:
        """Search for a quoted field that spans lines, once for each version of a file."""
        status = os.stat(path)
        key = (status.st_size, status.st_mtime_ns)
        if self._checked.get(path) == key:
            return
        with open(path, "rb") as file:
            has_quotes = any(b'"' in block for block in iter(lambda: file.read(1 << 20), b""))
        if has_quotes:
            with open(path, encoding="utf-8", errors="replace", newline="\n") as text:
                reader = csv.reader(text, delimiter=self._delimiter)
                for count, _ in enumerate(reader, 1):
                    if reader.line_num != count:
                        raise MalformedRow(
                            path,
                            count,
                            "a quoted field spans lines, so the file cannot be read by byte ranges:"
                            " leave out bytes_per_split",
                        )
        self._checked[path] = key


class JsonLinesSource(FormattedFileSource):
    """Reads files with one JSON document for each line (ours).

    With a schema, each document must be an object, and a value is the tuple of the fields in ``schema``;
    other fields are ignored, those in ``nullable`` may be null or missing. Without a schema, a value is the
    document.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        schema: Schema | None = None,
        *,
        timestamp_column: str | None = None,
        nullable: Iterable[str] = (),
        bytes_per_split: int | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        json_format = JsonLinesFormat(schema, timestamp_column=timestamp_column, nullable=tuple(nullable))
        super().__init__(paths, json_format, bytes_per_split, block_bytes)


class FileReader(SplitReader):
    """Reads the records that begin at ``begin`` or later and before ``end`` (None: the end of the file)."""

    __slots__ = (
        "_begin",
        "_block_bytes",
        "_end",
        "_exhausted",
        "_file",
        "_format",
        "_given",
        "_next_offset",
        "_offset",
        "_parser",
        "_path",
        "_records",
        "_resume",
    )

    def __init__(
        self, file_format: Format, path: str, begin: int, end: int | None, position: Any, block_bytes: int
    ) -> None:
        self._format = file_format
        self._path = path
        self._begin = begin
        self._end = end
        self._block_bytes = block_bytes
        self._resume: tuple[int, int] | None = position
        self._file: BinaryIO | None = None
        self._parser: Parser | None = None
        self._records: list[Record] = []
        self._given = 0
        self._offset = 0
        self._next_offset = 0
        self._exhausted = False

    def __del__(self) -> None:
        # The task may have died without closing.
        self.close()

    def read(self, limit: int) -> list[Record]:
        """Return records of the current block, or of the next one."""
        records = self._records
        given = self._given
        if given == len(records):
            if self._exhausted or not self._load():
                return []
            records = self._records
            given = self._given
        taken = records[given : given + limit]
        self._given = given + len(taken)
        if self._given == len(records) and self._next_offset >= self._limit():
            self._finish()
        return taken

    @property
    def position(self) -> tuple[int, int] | None:
        """The offset of the current block and the number of its records already read."""
        if self._parser is None:
            return self._resume
        return self._offset, self._given

    @property
    def exhausted(self) -> bool:
        """Whether a read has reached the end."""
        return self._exhausted

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _limit(self) -> int:
        if self._end is not None:
            return self._end
        assert self._file is not None
        return os.fstat(self._file.fileno()).st_size

    def _finish(self) -> None:
        self._exhausted = True
        self.close()

    def _load(self) -> bool:
        """Read blocks until one has records; return False at the end."""
        if self._parser is None:
            self._open()
            if self._given < len(self._records):
                return True
        while True:
            if self._next_offset >= self._limit():
                self._finish()
                return False
            self._offset = self._next_offset
            self._records = self._block()
            self._given = 0
            if self._records:
                return True

    def _open(self) -> None:
        """Open the file, find the first line of the range, and skip records that were read before."""
        try:
            file = self._file = open(self._path, "rb")  # noqa: SIM115
        except OSError as error:
            raise unreadable(self._path, error) from error
        start = len(_BYTE_ORDER_MARK) if file.read(3) == _BYTE_ORDER_MARK else 0
        header = b""
        file.seek(start)
        for _ in range(self._format.header_lines):
            header += file.readline(LONGEST_RECORD_BYTES)
        start += len(header)
        self._parser = self._format.parser(self._path, header, single_lines=self._end is not None)
        if self._resume is not None:
            self._skip(*self._resume)
            return
        if self._begin > start:
            file.seek(self._begin - 1)
            file.readline()
            start = file.tell()
        self._offset = self._next_offset = start

    def _skip(self, offset: int, given: int) -> None:
        """Read again from the block of a position to its record."""
        self._offset = self._next_offset = offset
        while True:
            if self._next_offset >= self._limit():
                self._records = []
                self._given = 0
                if given or self._next_offset > _size(self._path):
                    raise UnreadableFile(
                        f"file {self._path} is shorter than when the checkpoint was taken:"
                        " restore with the files that it was taken with"
                    )
                return
            self._offset = self._next_offset
            self._records = self._block()
            if given <= len(self._records):
                self._given = given
                return
            given -= len(self._records)

    def _block(self) -> list[Record]:
        """Parse the next block: whole lines, and more of them until its last record is complete."""
        assert self._file is not None
        assert self._parser is not None
        self._file.seek(self._next_offset)
        wanted = min(self._block_bytes, self._limit() - self._next_offset)
        data = self._read_lines(wanted)
        while True:
            at_end = self._file.tell() >= os.fstat(self._file.fileno()).st_size
            try:
                records = self._parser.parse(data)
                break
            except Unfinished:
                if at_end or len(data) > LONGEST_RECORD_BYTES:
                    raise self._malformed(data) from None
                data += self._read_lines(len(data))
            except ValueError as error:
                raise self._malformed(data, error) from error
        self._next_offset = self._file.tell()
        return records

    def _read_lines(self, wanted: int) -> bytes:
        assert self._file is not None
        data = self._file.read(wanted)
        if not data.endswith(b"\n"):
            rest = self._file.readline(LONGEST_RECORD_BYTES)
            if len(rest) == LONGEST_RECORD_BYTES:
                line = self._line(self._next_offset) + data.count(b"\n")
                raise MalformedRow(self._path, line, f"a line is longer than {LONGEST_RECORD_BYTES} bytes")
            data += rest
        return data

    def _malformed(self, data: bytes, error: ValueError | None = None) -> MalformedRow:
        assert self._parser is not None
        line, what = self._parser.explain(data) or (1, str(error))
        return MalformedRow(self._path, self._line(self._next_offset) + line - 1, what)

    def _line(self, offset: int) -> int:
        """Return the number, from 1, of the line that begins at ``offset``."""
        lines = 1
        with open(self._path, "rb") as file:
            while offset > 0:
                block = file.read(min(offset, 1 << 20))
                if not block:
                    break
                lines += block.count(b"\n")
                offset -= len(block)
        return lines


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: OSError) -> UnreadableFile:
    """Return the error about a file that the system does not read."""
    return UnreadableFile(f"file {path} cannot be read: {error.strerror}: check the path")
