"""What a reader finds outside once a process is dead: part files in a folder, or a database.

The rules this module lives by:

- Both are asked the same: what is visible, what tells it from something else under its name, its rows, and
  what was left unfinished.
- A name says where it belongs: those in the database have slashes, and those of files cannot.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Protocol

import msgspec

from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.systems.process.job_specification import HIDDEN
from onceproof.harness.systems.process.transactional_database import BATCH, Database, writer_of

ReadRows = Callable[[Path], list[Row]]


def read_json_rows(path: Path) -> list[Row]:
    """Return the rows of a part file of JSON lines."""
    with path.open("rb") as lines:
        return [as_tuple(msgspec.json.decode(line)) for line in lines]


class Output(Protocol):
    """Where transactions become visible."""

    def names(self) -> list[str]:
        """What can be read."""

    def identity(self, name: str) -> Hashable | None:
        """What tells a transaction from another one under its name, and from itself after a change."""

    def rows(self, name: str) -> list[Row]:
        """The rows of one that can be read."""

    def writer(self, name: str) -> tuple[int, int, str]:
        """The subtask, the epoch and the attempt in which it was begun, as its name says."""

    def waits(self, name: str) -> bool:
        """Whether it is a batch of a write-ahead sink, which a restore does not send."""

    def unfinished(self) -> list[str]:
        """What nobody will ever commit or throw away."""


class PartFiles:
    """The files of the engine's file sink."""

    def __init__(self, folder: Path, suffix: str, read_rows: ReadRows) -> None:
        self._folder = folder
        self._name = re.compile(rf"part-([0-9]+)-([0-9]+)-([0-9]+\.[0-9]+){re.escape(suffix)}")
        self._read_rows = read_rows

    def names(self) -> list[str]:
        """All that are not hidden."""
        return sorted(name for name in os.listdir(self._folder) if not name.startswith(HIDDEN))

    def identity(self, name: str) -> Hashable | None:
        """The file's number and its length."""
        try:
            status = (self._folder / name).stat()
        except FileNotFoundError:
            return None
        return (status.st_ino, status.st_size) if stat.S_ISREG(status.st_mode) else None

    def rows(self, name: str) -> list[Row]:
        """The rows of a file."""
        return self._read_rows(self._folder / name)

    def writer(self, name: str) -> tuple[int, int, str]:
        """Nobody we know, where the name is none of the engine's."""
        match = self._name.fullmatch(name)
        return (0, 0, "unknown") if match is None else (int(match[1]), int(match[2]), match[3])

    def waits(self, name: str) -> bool:
        """A file has been written before it is committed."""
        return False

    def unfinished(self) -> list[str]:
        """Those that are hidden."""
        return sorted(name for name in os.listdir(self._folder) if name.startswith(HIDDEN))


class DatabaseOutput:
    """The transactions in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def names(self) -> list[str]:
        """In the order in which they became visible."""
        return self._database.visible()

    def identity(self, name: str) -> Hashable | None:
        """Its rows, as they are shown."""
        rows = self._database.rows(name)
        return None if rows is None else repr(rows)

    def rows(self, name: str) -> list[Row]:
        """The rows of a transaction."""
        return self._database.rows(name) or []

    def writer(self, name: str) -> tuple[int, int, str]:
        """As it is named."""
        return writer_of(name)

    def waits(self, name: str) -> bool:
        """Those that are taken whole."""
        return name.startswith(BATCH)

    def unfinished(self) -> list[str]:
        """Those that are prepared."""
        return self._database.prepared()
