"""The source's side of formats that are read block by block, such as Parquet and Avro (Flink: BulkFormat).

Rules:

- A position is (place of a block, records already read of it), plain numbers. A restore opens the block again
  and leaves out those records. The place of a block does not depend on how much is read at once.
- A block gives its records in batches, so that memory is bounded by a batch where the format can do that.
- What is damaged is a MalformedFile, with the file, the place in it and the mend. An error of the file system
  passes through as it is, because it may pass.
- A position also has the mark of what was read (`file_content.py`): of the file up to the end of the block,
  or of all of it where the format does not say where a block ends. Whether the file is still the one that was
  opened is looked at with each block and batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, NamedTuple

from onceproof.engine.connectors.file_content import (
    ChangedFile,
    CheckedReader,
    Content,
    Mark,
    UnreadableFile,
    unreadable,
)
from onceproof.engine.connectors.formats import FileFormat
from onceproof.engine.connectors.source import Source
from onceproof.engine.elements import Record
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.types import TypeInformation


class InputFormat(ABC):
    """Reads the records at a place that it knows itself (PyFlink: InputFormat)."""

    @abstractmethod
    def create_source(self) -> Source:
        """Return the source that reads the records."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Return the type of the records."""


class MalformedFile(UnrecoverableError, ValueError):
    """A file is none of its format, or damaged. The message is one line."""

    def __init__(self, path: str, place: str, what: object) -> None:
        super().__init__(path, place, " ".join(str(what).split()))
        self.path = path
        self.place = place
        self.what = self.args[2]

    def __str__(self) -> str:
        return f"{self.path}, {self.place}: {self.what}"


class Block(NamedTuple):
    """A block of a file that is open."""

    batches: Iterator[list[Any]]
    """The records in order, without those that are skipped."""
    size: int
    """The number of all records of the block."""
    next_place: int
    """The place of the next block."""
    end: int | None = None
    """The offset behind it; None: a change anywhere in the file, such as in its footer, counts."""


class BulkFile(ABC):
    """A file that is open."""

    first_place: int
    """The place of the first block."""

    @abstractmethod
    def block(self, place: int, skip: int) -> Block | None:
        """Return the block at a place, without its first ``skip`` records; None at the end of the file.

        Raises MalformedFile, also when its batches are read.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class BulkFormat(FileFormat):
    """A format of files that are read block by block (PyFlink: BulkFormat)."""

    @abstractmethod
    def open_file(self, path: str) -> BulkFile:
        """Open a file. Raises MalformedFile, or OSError."""


class BulkFileReader(CheckedReader):
    """Reads one file of a bulk format."""

    __slots__ = (
        "_batch",
        "_batches",
        "_content",
        "_end",
        "_exhausted",
        "_file",
        "_format",
        "_given",
        "_mark",
        "_next",
        "_path",
        "_place",
        "_taken",
        "_whole",
    )

    def __init__(self, bulk_format: BulkFormat, path: str, position: Any) -> None:
        """Open the file with the first read, at a position of an earlier reader; None: at its beginning."""
        super().__init__()
        self._format = bulk_format
        self._path = path
        self._place: int | None = None if position is None else position[0]
        self._given: int = 0 if position is None else position[1]
        self._mark: Mark | None = None if position is None or len(position) < 3 else position[2]
        self._whole: Mark | None = None
        """Of all of the file, where the format does not say where its blocks end."""
        self._end = 0
        """Of the current block."""
        self._file: BulkFile | None = None
        self._content: Content | None = None
        self._batches: Iterator[list[Any]] = iter(())
        self._batch: list[Any] = []
        self._taken = 0
        self._next: int | None = None
        self._exhausted = False

    def __del__(self) -> None:
        # The task may have died without closing.
        for each in (self._file, self._content):
            if each is not None:
                each.close()

    def read(self, limit: int) -> list[Record]:
        """Return records of the current batch, or of the next one."""
        if self._taken == len(self._batch) and (self._exhausted or not self._load()):
            return []
        taken = self._batch[self._taken : self._taken + limit]
        self._taken += len(taken)
        self._given += len(taken)
        return list(zip(taken, repeat(None), strict=False))

    @property
    def position(self) -> Any:
        """The place of the current block, the number of its records already read, and the mark."""
        if self._place is None:
            return None
        if self._mark is None and self._content is not None:
            self._mark = self._content.mark(self._end)
        return (self._place, self._given) if self._mark is None else (self._place, self._given, self._mark)

    @property
    def exhausted(self) -> bool:
        """Whether a read has reached the end."""
        return self._exhausted

    def close(self) -> None:
        file, content = self._file, self._content
        self._file = self._content = None
        if content is not None:
            if self._mark is None and self._place is not None:
                self._mark = content.mark(self._end)
            content.close()
        if file is not None:
            file.close()

    def _load(self) -> bool:
        """Read batches until one has records; return False at the end."""
        while True:
            try:
                return self._load_batch()
            except ChangedFile as change:
                again = self.begins_again(change)
                self.close()
                if not again:
                    self._exhausted = True
                    return False
                self._place, self._given = None, 0
                self._mark = self._first = self._whole = None
                self._batches = iter(())

    def _load_batch(self) -> bool:
        file = self._file
        if file is None:
            file = self._open_file()
            place = file.first_place if self._place is None else self._place
            if not self._open_block(file, place, self._given):
                return self._finish()
        while True:
            for batch in self._checked(lambda: next(self._batches, None)):
                if batch:
                    self._batch, self._taken = batch, 0
                    return True
            assert self._next is not None
            if not self._open_block(file, self._next, 0):
                return self._finish()

    def _open_file(self) -> BulkFile:
        try:
            while True:
                content = self._content = Content(self._path, open(self._path, "rb"))  # noqa: SIM115
                # A file that is another one may be none of the format.
                for mark in (self._first, self._mark):
                    if mark is not None:
                        content.check(mark)
                file = self._file = self._format.open_file(self._path)
                if content.is_at(self._path):
                    return file
                content.close()
                file.close()
        except OSError as error:
            raise error if isinstance(error, UnreadableFile) else unreadable(self._path, error) from error

    def _checked(self, step: Callable[[], Any]) -> Iterator[Any]:
        """Yield what the step returns until it is None; a file that has changed is no malformed one."""
        assert self._content is not None
        while True:
            try:
                found = step()
            except MalformedFile:
                self._content.look()
                raise
            self._content.look()
            if found is None:
                return
            yield found

    def _open_block(self, file: BulkFile, place: int, skip: int) -> bool:
        """Open the block at a place; return False where the file ends there."""
        assert self._content is not None
        self._content.look()
        block = file.block(place, skip)
        if skip > (0 if block is None else block.size):
            raise ChangedFile(self._path, self._end, f"its block at {place} lacks records that were read")
        if block is None:
            return False
        self._batches, self._next = block.batches, block.next_place
        self._place, self._given, self._mark = place, skip, None
        if block.end is not None:
            self._end = block.end
        else:
            self._end = self._content.size()
            if self._whole is None:
                self._whole = self._content.mark(self._end)
            self._mark = self._whole
        self._content.place = self._end
        return True

    def _finish(self) -> bool:
        assert self._content is not None
        if self._whole is not None:
            self._content.check(self._whole)
        self._exhausted = True
        self.close()
        return False
