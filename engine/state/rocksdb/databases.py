"""What a backend needs of a database, and who opens it.

A backend opens RocksDB (`database.py`), unless its driver gives it other databases: a simulation has a model
of them, because opening a real one costs as much as a small job. Nothing here imports rocksdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

from msgspec import Struct

from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.state.file_envelope import StateError, is_database_file

BATCH: Final = 1000
"""The number of writes in a batch."""
FILES_TOLERATED: Final = 8
FILES_MERGED: Final = 4
"""Each checkpoint adds a small SST file. A database merges at least FILES_MERGED of them once there are
FILES_TOLERATED. Lower numbers double what incremental checkpoints store."""


class DatabaseUnreadable(StateError):
    """A database cannot be opened. The message is one line."""


def check_file_name(name: str) -> None:
    """Raise DatabaseUnreadable unless a name is one of a database's file."""
    if not is_database_file(name):
        raise DatabaseUnreadable(f"it has a file {name!r}, which is not a name of a database's file")


class DatabaseCheckpoint(Struct, eq=False):
    """A checkpoint of a database: its SST files below ``path``, and the content of its small files by name.

    The files exist as long as this object.
    """

    folder: Any
    path: str
    tables: list[str]
    small: dict[str, bytes]


class OpenDatabase(Protocol):
    """An open database: bytes by bytes, in the order of the keys."""

    @property
    def get(self) -> Callable[[bytes], bytes | None]:
        """Return the value of a key, or None."""

    @property
    def put(self) -> Callable[[bytes, bytes], None]:
        """Set the value of a key."""

    @property
    def delete(self) -> Callable[[bytes], None]:
        """Delete a key; one that is not there is fine."""

    @property
    def is_empty(self) -> bool:
        """Whether the database has no key."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over all pairs whose key has a prefix, in order, as of now."""

    def scan_range(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over all pairs from ``begin`` (inclusive) to ``end`` (exclusive), in order, as of now."""

    def first_from(self, begin: bytes) -> Any:
        """Return the first key that is not less than ``begin``, or None."""

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes] = ()) -> None:
        """Apply the deletes, then the puts, in batches."""

    def delete_range(self, begin: bytes, end: bytes) -> None:
        """Delete all keys from ``begin`` (inclusive) to ``end`` (exclusive)."""

    def checkpoint(self) -> DatabaseCheckpoint:
        """Return a checkpoint of the database as of now."""

    def close(self) -> None:
        """Close the database and remove its files."""


class Databases(Protocol):
    """Opens databases. Each method raises DatabaseUnreadable."""

    def fresh(self, settings: StateBackendSettings) -> OpenDatabase:
        """Open a new, empty database."""

    def of_files(
        self, files: Iterable[tuple[str, bytes]], settings: StateBackendSettings, read_only: bool = False
    ) -> OpenDatabase:
        """Open the database that consists of these files, given as (name, content)."""

    def of_checkpoint(self, taken: DatabaseCheckpoint, settings: StateBackendSettings) -> OpenDatabase:
        """Open a checkpoint of a database, read-only."""
