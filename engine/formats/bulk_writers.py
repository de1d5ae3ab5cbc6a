"""Writers of files that are whole only at their end, such as Parquet (Flink: BulkWriter).

The rules this module lives by:

- The file sink makes a writer for each part file, gives it rows, and lets it finish before the sync.
- A writer writes into the file it is given and nothing else; it does not close that file.
- A file is complete with each checkpoint, and only then: what a writer has gathered cannot be cut in two.
- A row that the format does not take is a WrongRow, with the row and the reason.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol


class OutputFile(Protocol):
    """The part file that a writer writes into."""

    @property
    def length(self) -> int:
        """The bytes that were written to it."""

    def write(self, data: bytes) -> object:
        """Write bytes."""


class FileObject(io.RawIOBase):
    """A part file as packages want it. It stays open when they close it, because the sink has to sync it."""

    def __init__(self, file: OutputFile) -> None:
        super().__init__()
        self._file = file
        self._write: Callable[[bytes], object] = file.write

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.length

    def write(self, data: Any) -> int:
        copied = bytes(data)
        self._write(copied)
        return len(copied)


class WrongRow(ValueError):
    """The format of a file does not take ``row``. The message is the reason, in one line."""

    def __init__(self, row: Any, reason: object) -> None:
        super().__init__(" ".join(str(reason).split()))
        self.row = row


class BulkWriter(ABC):
    """Writes the rows of one part file (Flink: BulkWriter)."""

    @abstractmethod
    def add_elements(self, elements: Sequence[Any]) -> None:
        """Add rows to the file. Raises WrongRow for one that the format does not take."""

    @abstractmethod
    def finish(self) -> None:
        """Write the end of the file. Nothing is added any more."""


class BulkWriterFactory(ABC):
    """Makes the writer of each part file (PyFlink: BulkWriterFactory)."""

    @abstractmethod
    def create(self, file: OutputFile) -> BulkWriter:
        """Return a writer into a new part file."""
