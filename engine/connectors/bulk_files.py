"""The source's side of formats that are read block by block, such as Parquet and Avro (Flink: BulkFormat).

The rules this module lives by:

- A position is (place of a block, records already read of it), plain numbers. A restore opens the block again
  and leaves out those records. The place of a block does not depend on how much is read at once.
- A block gives its records in batches, so that memory is bounded by a batch where the format can do that.
- What is damaged is a MalformedFile, with the file, the place in it and the mend. An error of the file system
  passes through as it is, because it may pass.
- Files must not change during a job; one with fewer records than a position has read is an UnreadableFile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import repeat
from typing import Any, NamedTuple

from onceproof.engine.connectors.file_source import UnreadableFile, unreadable
from onceproof.engine.connectors.formats import FileFormat
from onceproof.engine.connectors.source import SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.errors import UnrecoverableError


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


class BulkFileReader(SplitReader):
    """Reads one file of a bulk format."""

    __slots__ = (
        "_batch",
        "_batches",
        "_exhausted",
        "_file",
        "_format",
        "_given",
        "_next",
        "_path",
        "_place",
        "_taken",
    )

    def __init__(self, bulk_format: BulkFormat, path: str, position: Any) -> None:
        """Open the file with the first read, at a position of an earlier reader; None: at its beginning."""
        self._format = bulk_format
        self._path = path
        self._place: int | None = None if position is None else position[0]
        self._given: int = 0 if position is None else position[1]
        self._file: BulkFile | None = None
        self._batches: Iterator[list[Any]] = iter(())
        self._batch: list[Any] = []
        self._taken = 0
        self._next: int | None = None
        self._exhausted = False

    def __del__(self) -> None:
        # The task may have died without closing.
        self.close()

    def read(self, limit: int) -> list[Record]:
        """Return records of the current batch, or of the next one."""
        if self._taken == len(self._batch) and (self._exhausted or not self._load()):
            return []
        taken = self._batch[self._taken : self._taken + limit]
        self._taken += len(taken)
        self._given += len(taken)
        return list(zip(taken, repeat(None), strict=False))

    @property
    def position(self) -> tuple[int, int] | None:
        """The place of the current block and the number of its records already read."""
        return None if self._place is None else (self._place, self._given)

    @property
    def exhausted(self) -> bool:
        """Whether a read has reached the end."""
        return self._exhausted

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _load(self) -> bool:
        """Read batches until one has records; return False at the end."""
        file = self._file
        if file is None:
            try:
                file = self._file = self._format.open_file(self._path)
            except OSError as error:
                raise unreadable(self._path, error) from error
            place = file.first_place if self._place is None else self._place
            if not self._open(file, place, self._given):
                return self._finish()
        while True:
            for batch in self._batches:
                if batch:
                    self._batch, self._taken = batch, 0
                    return True
            assert self._next is not None
            if not self._open(file, self._next, 0):
                return self._finish()

    def _open(self, file: BulkFile, place: int, skip: int) -> bool:
        """Open the block at a place; return False where the file ends there."""
        block = file.block(place, skip)
        if skip > (0 if block is None else block.size):
            raise UnreadableFile(
                f"file {self._path} is shorter than when the checkpoint was taken:"
                " restore with the files that it was taken with"
            )
        if block is None:
            return False
        self._batches, self._next = block.batches, block.next_place
        self._place, self._given = place, skip
        return True

    def _finish(self) -> bool:
        self._exhausted = True
        self.close()
        return False
