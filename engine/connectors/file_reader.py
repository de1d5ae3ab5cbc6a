"""Reads the records of a file, or of a byte range of it.

The rules this module lives by:

- A record belongs to the range that contains its first byte. A range begins at the first line that starts in
  it and reads its last line to the end, so ranges cover a file exactly, whatever their size.
- A position is (offset of a block, records already read of it, mark of what was read). A restore reads the
  block again and skips those records. It does not depend on the size of blocks.
- That the file is still the one that it was is checked after a restore, with each block, and at the end. The
  position stays before what was read in vain.
- What is appended to a file while it is read is read, too; the last range of a file takes it. A last line
  without an end that grows after it was read is a change.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from onceproof.engine.configuration.options import FROM_START
from onceproof.engine.connectors.file_content import ChangedFile, CheckedReader, Content, Mark, mark_of
from onceproof.engine.connectors.formats import Format, MalformedRow, Parser, Unfinished
from onceproof.engine.elements import Record

LONGEST_RECORD_BYTES: Final = 1 << 26

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_GROWN_LINE: Final = "its last line, which had no end, has grown since it was read"


class FileRange(NamedTuple):
    """The part of a file that a reader reads."""

    begin: int = 0
    end: int | None = None
    """None: the end of the file."""
    is_last: bool = False
    """Whether what is appended behind ``end`` belongs to it."""


WHOLE: Final = FileRange()


class FileReader(CheckedReader):
    """Reads the records that begin in a part of a file."""

    __slots__ = (
        "_block_bytes",
        "_content",
        "_data",
        "_exhausted",
        "_format",
        "_given",
        "_holds_back",
        "_mark",
        "_next_offset",
        "_offset",
        "_parser",
        "_part",
        "_path",
        "_records",
        "_resume",
    )

    def __init__(
        self,
        file_format: Format,
        path: str,
        part: FileRange,
        position: Any,
        block_bytes: int,
        holds_back: bool = False,
    ) -> None:
        super().__init__()
        self._format = file_format
        self._path = path
        self._part = part
        self._block_bytes = block_bytes
        self._holds_back = holds_back
        self._resume: Any = position
        self._content: Content | None = None
        self._parser: Parser | None = None
        self._records: list[Record] = []
        self._given = 0
        self._offset = 0
        self._next_offset = 0
        self._data = b""
        """The current block."""
        self._mark: Mark | None = None
        """Of what was read, once it is needed."""
        self._exhausted = False

    def __del__(self) -> None:
        # The task may have died without closing.
        if self._content is not None:
            self._content.close()

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
        if self._given == len(records):
            self._finish_at_end()
        return taken

    @property
    def position(self) -> Any:
        """The offset of the current block, the number of its records already read, and the mark."""
        if self._parser is None:
            return self._resume
        if self._mark is None:
            assert self._content is not None
            self._mark = mark_of(self._content.head(), self._data, self._next_offset)
        return self._offset, self._given, self._mark

    @property
    def exhausted(self) -> bool:
        """Whether a read has reached the end."""
        return self._exhausted

    def close(self) -> None:
        content = self._content
        if content is not None:
            if self._parser is not None and self._mark is None:
                self._mark = mark_of(content.head(), self._data, self._next_offset)
            self._content = None
            content.close()

    def _limit(self) -> int:
        """Return where the part ends. Raises ChangedFile."""
        assert self._content is not None
        size = self._content.look()
        end, is_last = self._part.end, self._part.is_last
        if end is None:
            return size
        if size < end:
            raise ChangedFile(self._path, self._next_offset, f"it had {end} bytes and has {size}")
        return size if is_last else end

    def _is_before_end(self) -> bool:
        """Return whether more is to be read. Raises ChangedFile.

        A look costs two calls of the system, so what the last one saw counts until it is reached.
        """
        return self._next_offset < self._known_limit() or self._next_offset < self._limit()

    def _known_limit(self) -> int:
        """Return where the part ended at the last look."""
        end, is_last = self._part.end, self._part.is_last
        if end is not None and not is_last:
            return end
        assert self._content is not None
        return self._content.known_size

    def _finish_at_end(self) -> None:
        """End at the end of the part; if the file has changed, the next read says so."""
        try:
            if not self._is_before_end():
                self._finish()
        except ChangedFile:
            return

    def _finish(self) -> None:
        """End, if the last block is still in the file. Raises ChangedFile."""
        content = self._content
        assert content is not None
        if not content.holds(self._offset, self._data):
            raise ChangedFile(self._path, self._next_offset, "its last bytes have been overwritten")
        self._end()

    def _end(self) -> None:
        self._exhausted = True
        self.close()
        self._data = b""

    def _load(self) -> bool:
        """Read blocks until one has records; return False at the end."""
        while True:
            try:
                return self._load_block()
            except ChangedFile as change:
                if self._reaction == FROM_START and self._part.end is not None:
                    raise ChangedFile(
                        self._path,
                        change.place,
                        f"{change.what}, and byte ranges that were read before would not be read again",
                    ) from change
                if not self.begins_again(change):
                    self._end()
                    return False
                self._parser = self._resume = self._first = None
                self._records = []
                self._given = 0
                self.close()

    def _load_block(self) -> bool:
        if self._parser is None:
            self._open()
            if self._given < len(self._records):
                return True
        while self._is_before_end():
            if self._data and not self._data.endswith(b"\n"):
                raise ChangedFile(self._path, self._next_offset, _GROWN_LINE)
            if not self._read_block():
                break
            if self._records:
                return True
        self._finish()
        return False

    def _open(self) -> None:
        """Open the file, find the first line of the part, and skip records that were read before."""
        content = self._content = Content(self._path)
        self._data, self._mark = b"", None
        mark = self._resume[2] if self._resume is not None and len(self._resume) > 2 else None
        if mark is not None:
            self._next_offset = mark[0]
        self._limit()
        if self._first is not None:
            content.check(self._first)
        if mark is not None:
            self._check(content, mark)
        start = len(_BYTE_ORDER_MARK) if content.bytes_at(0, 3) == _BYTE_ORDER_MARK else 0
        header = b""
        content.seek(start)
        for _ in range(self._format.header_lines):
            header += content.readline(LONGEST_RECORD_BYTES)
        start += len(header)
        part = self._part
        self._parser = self._format.parser(self._path, header, single_lines=part.end is not None)
        if self._resume is not None:
            try:
                self._skip(self._resume[0], self._resume[1])
            except ChangedFile:
                # Until records can be read, the position is the one that was given.
                self._parser = None
                raise
            return
        if part.begin > start:
            content.seek(part.begin - 1)
            content.readline(LONGEST_RECORD_BYTES)
            start = content.tell()
        self._offset = self._next_offset = start

    def _check(self, content: Content, mark: Mark) -> None:
        """Check that the file still has what a mark was taken of, and that its last line did not grow."""
        last = content.check(mark)
        end = mark[0]
        if last and not last.endswith(b"\n") and content.bytes_at(end, 1):
            raise ChangedFile(self._path, end, _GROWN_LINE)
        if self._resume[0] == end:
            # Nothing will be read again, so the mark stands for what was read.
            self._mark = mark

    def _skip(self, offset: int, given: int) -> None:
        """Read again from the block of a position to its record."""
        self._offset = self._next_offset = offset
        self._records, self._given = [], 0
        while self._is_before_end() and self._read_block():
            if given <= len(self._records):
                self._given = given
                return
            given -= len(self._records)
        size = self._limit()
        if given or size < self._next_offset:
            raise ChangedFile(self._path, self._next_offset, f"it has {size} bytes, which lack records")

    def _read_block(self) -> bool:
        """Parse the next block: whole lines, and more of them until its last record is complete.

        Returns whether there is one: not at the end of a compressed file, whose size is known only then, and
        not if there is but an unfinished record, which is held back.
        """
        content, parser = self._content, self._parser
        assert content is not None
        assert parser is not None
        begin = self._next_offset
        content.seek(begin)
        data = self._read_lines(min(self._block_bytes, self._known_limit() - begin))
        while True:
            # Only the look tells that what was read is of the file.
            at_end = begin + len(data) >= content.look()
            held = at_end and self._holds_back
            if held:
                data = data[: data.rfind(b"\n") + 1]
            try:
                records = parser.parse(data)
                break
            except Unfinished:
                if held:
                    data = data[: data.rfind(b"\n", 0, len(data) - 1) + 1]
                    continue
                if at_end or len(data) > LONGEST_RECORD_BYTES:
                    raise self._malformed(data) from None
                data += self._read_lines(len(data))
            except ValueError as error:
                raise self._malformed(data, error) from error
        if not data:
            return False
        self._offset, self._next_offset = begin, begin + len(data)
        self._records, self._given = records, 0
        self._data, self._mark = data, None
        content.place = self._next_offset
        return True

    def _read_lines(self, wanted: int) -> bytes:
        assert self._content is not None
        data = self._content.read(wanted)
        if not data.endswith(b"\n"):
            rest = self._content.readline(LONGEST_RECORD_BYTES)
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
        content = self._content
        assert content is not None
        lines = 1
        content.seek(0)
        while offset > 0:
            block = content.read(min(offset, 1 << 20))
            if not block:
                break
            lines += block.count(b"\n")
            offset -= len(block)
        return lines
