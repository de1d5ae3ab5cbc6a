"""A model of RocksDB's databases: opening a real one costs as much as a scenario with a small state.

Rules:

- To the engine it is a database like another: the same answers, errors and names of files, and the same
  merging of files. Calls drawn at random are made on it and on RocksDB, and compared
  (`tests/simulation/test_modelled_databases.py`).
- The seeds of some scenarios choose the real one all the same, and so do scenarios without a seed: what the
  shrinker reports, the real one shows. A scenario in which a disk fails always has the model, because the
  disk of a real database does not fail.
- Numbers of files are RocksDB's: opening takes four of them, a flush and the result of a merge one each.
- What RocksDB's threads decide, whether files are merged before a checkpoint looks for them or behind it, the
  checksum of the newest file decides.
- A fault of the disk is raised where files are written or read: when a checkpoint is taken, and when a
  database is opened.
- Memory is never full: a scenario writes less than fits into a write buffer.
- Files are written when a checkpoint names them. They lie in the working folders of the engine, and are
  removed with the database and its checkpoints.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.protocol_points import RESTORING, SNAPSHOTTED
from onceproof.engine.state.rocksdb.databases import (
    BATCH,
    FILES_TOLERATED,
    DatabaseCheckpoint,
    Databases,
    check_file_name,
)
from onceproof.engine.state.rocksdb.working_folders import Folder, WorkingFolders
from onceproof.harness.model.chance import derived_seed
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.systems.simulation.modelled_files import (
    CURRENT,
    MANIFEST,
    Content,
    Entries,
    Manifest,
    Range,
    TableFile,
    manifest_of,
    small_files,
    table_of,
)
from onceproof.harness.systems.simulation.modelled_merges import (
    apply,
    files_to_merge,
    merged,
)

FIRST_NUMBER: Final = 4
REAL_DATABASES: Final = 16
"""One scenario in this many keeps its databases in RocksDB; the others have a model of it."""


class DatabaseClosed(Exception):
    """The database was closed before the call."""


class _Closed:
    """Stands for what a closed database had."""

    def _refuse(self, *_: object) -> Any:
        raise DatabaseClosed("DB instance already closed")

    __getattr__ = __len__ = __contains__ = _refuse


_CLOSED: Final[Any] = _Closed()
_READ_ONLY: Final = "Not implemented: Not supported operation in read only mode."


class ModelledDatabase:
    """One open database (`engine/state/rocksdb/database.py`)."""

    __slots__ = (
        "_files",
        "_folder",
        "_is_read_only",
        "_manifest",
        "_memory",
        "_name",
        "_next",
        "_order",
        "_ranges",
        "_recorded",
        "_refusal",
        "_settings",
        "_values",
        "_write",
        "_written",
    )

    def __init__(
        self,
        settings: StateBackendSettings,
        name: str,
        number: int = FIRST_NUMBER,
        files: Iterable[TableFile] = (),
        is_read_only: bool = False,
        write: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._write = write
        """Called before files are written; raises where the disk fails."""
        self._name = name
        self._is_read_only = is_read_only
        self._refusal = _READ_ONLY if is_read_only else ""
        """Why the database takes no writes; RocksDB takes none after one that was wrong."""
        # The number itself is that of a log; the one behind the manifest's is for a name that does not last.
        self._manifest = f"{MANIFEST}{number + 1:06}"
        self._next = number + 4
        self._recorded = self._next
        """The number that the next opening begins with, as the manifest has it."""
        self._files = list(files)
        """From the oldest to the newest."""
        self._values: dict[bytes, bytes] = {}
        for file in self._files:
            apply(file.content, self._values)
        self._order = sorted(self._values)
        self._memory: Entries = {}
        self._ranges: list[Range] = []
        self._folder: Folder | None = None
        self._written: set[str] = set()
        self._merge()

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        return self._values.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        if self._refusal:
            raise Exception(self._refusal)
        if key not in self._values:
            insort(self._order, key)
        self._values[key] = self._memory[key] = value

    def delete(self, key: bytes) -> None:
        """Delete a key; one that is not there is fine."""
        if self._refusal:
            raise Exception(self._refusal)
        if self._values.pop(key, None) is not None:
            del self._order[bisect_left(self._order, key)]
        self._memory[key] = None

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over all pairs whose key has a prefix, in order, as of now."""
        order, values = self._order, self._values
        found = []
        for place in range(bisect_left(order, prefix), len(order)):
            key = order[place]
            if not key.startswith(prefix):
                break
            found.append((key, values[key]))
        yield from found

    def scan_range(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over all pairs from ``begin`` (inclusive) to ``end`` (exclusive), in order, as of now."""
        order, values = self._order, self._values
        yield from [(key, values[key]) for key in order[bisect_left(order, begin) : bisect_left(order, end)]]

    def first_from(self, begin: bytes) -> Any:
        """Return the first key that is not less than ``begin``, or None."""
        place = bisect_left(self._order, begin)
        return self._order[place] if place < len(self._order) else None

    @property
    def is_empty(self) -> bool:
        """Whether the database has no key."""
        return self.first_from(b"") is None

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes] = ()) -> None:
        """Apply the deletes, then the puts, in batches."""
        changes: Iterator[tuple[bytes, bytes | None]] = chain(((key, None) for key in deletes), puts)
        while batch := list(islice(changes, BATCH)):
            for key, value in batch:
                if value is None:
                    self.delete(key)
                else:
                    self.put(key, value)

    def delete_range(self, begin: bytes, end: bytes) -> None:
        """Delete all keys from ``begin`` (inclusive) to ``end`` (exclusive)."""
        if not self._refusal and begin > end:
            self._refusal = "Invalid argument: end key comes before start key"
        if self._refusal:
            raise Exception(self._refusal)
        if begin == end:
            return
        order = self._order
        first, last = bisect_left(order, begin), bisect_left(order, end)
        for key in order[first:last]:
            del self._values[key]
        del order[first:last]
        self._memory = {key: value for key, value in self._memory.items() if not begin <= key < end}
        self._ranges.append((begin, end))

    def checkpoint(self) -> DatabaseCheckpoint:
        """Return a checkpoint of the database as of now."""
        if self._refusal and not self._is_read_only:
            raise Exception(self._refusal)
        self._write()
        is_merged_at_once = self._flush()
        if is_merged_at_once:
            self._merge()
        folder, path = self._write_files()
        manifest = Manifest(self._name, self._recorded, [file.listed for file in self._files])
        small = small_files(self._manifest, manifest)
        taken = DatabaseCheckpoint(folder, path, sorted([file.name for file in self._files]), small)
        self._merge()
        return taken

    def close(self) -> None:
        """Close the database; its files stay until its checkpoints are gone."""
        self._values = self._order = self._memory = self._files = _CLOSED
        self._refusal = ""
        self._folder = None

    def _flush(self) -> bool:
        """Make a file of what is in memory; return whether it is merged before anyone looks for files."""
        if not self._memory and not self._ranges:
            return False
        file = self._new_file(dict(sorted(self._memory.items())), self._ranges, is_flushed=True)
        self._memory, self._ranges = {}, []
        self._files.append(file)
        return file.listed.checksum % 2 == 0

    def _new_file(self, entries: Entries, ranges: Sequence[Range], is_flushed: bool) -> TableFile:
        file = TableFile.of(Content(self._name, self._next, is_flushed, entries, ranges))
        self._next += 1
        self._recorded = self._next + 2
        return file

    def _merge(self) -> None:
        """Merge files as long as there are enough, as universal compaction does."""
        while not self._is_read_only and len(self._files) >= FILES_TOLERATED:
            picked = files_to_merge(self._files)
            if picked is None:
                return
            entries, ranges = merged(self._files[picked], has_oldest=picked.start == 0)
            # It is in the level of the next older file, or in one above it; that of flushed files is the top.
            is_flushed = picked.start > 0 and self._files[picked.start - 1].content.is_flushed
            self._files[picked] = [self._new_file(entries, ranges, is_flushed)] if entries or ranges else []

    def _write_files(self) -> tuple[Folder, str]:
        """Write the files that are not written yet; return their folder."""
        if self._folder is None:
            self._folder = WorkingFolders.below(self._settings.local_directory).make()
        path = self._folder.path
        for file in self._files:
            if file.name not in self._written:
                self._written.add(file.name)
                with open(os.path.join(path, file.name), "wb") as opened:
                    opened.write(file.data)
        return self._folder, path


class ModelledDatabases:
    """Opens the modelled databases of one run, and numbers them."""

    __slots__ = ("_opened", "fault_at")

    def __init__(self) -> None:
        self._opened = 0
        self.fault_at: Callable[[str], Fault | None] = lambda point: None
        """Returns the fault of the disk, if any, where a database uses files at a protocol point."""

    def fresh(self, settings: StateBackendSettings) -> ModelledDatabase:
        """Open a new, empty database."""
        self._use_disk(RESTORING)
        self._opened += 1
        return ModelledDatabase(settings, str(self._opened), write=self._write)

    def of_files(
        self, files: Iterable[tuple[str, bytes]], settings: StateBackendSettings, read_only: bool = False
    ) -> ModelledDatabase:
        """Open the database that consists of these files, given as (name, content).

        Raises DatabaseUnreadable.
        """
        contents: dict[str, bytes] = {}
        for name, content in files:
            check_file_name(name)
            contents[name] = content
        if CURRENT not in contents and not read_only:
            # It is made where there is none.
            return self.fresh(settings)
        self._use_disk(RESTORING)
        manifest = manifest_of(contents)
        tables = [table_of(contents, listed) for listed in manifest.files]
        self._opened += 1
        name = f"{manifest.database}.{self._opened}"
        return ModelledDatabase(settings, name, manifest.next_number, tables, read_only, self._write)

    def of_checkpoint(self, taken: DatabaseCheckpoint, settings: StateBackendSettings) -> ModelledDatabase:
        """Open a checkpoint of a database, read-only. Raises DatabaseUnreadable."""
        tables = []
        for name in taken.tables:
            with open(os.path.join(taken.path, name), "rb") as file:
                tables.append((name, file.read()))
        return self.of_files((*taken.small.items(), *tables), settings, read_only=True)

    def _write(self) -> None:
        self._use_disk(SNAPSHOTTED)

    def _use_disk(self, point: str) -> None:
        fault = self.fault_at(point)
        if fault is not None:
            raise OSError(errno.EIO, os.strerror(errno.EIO)) from InjectedError(fault.kind)


def has_real_databases(seed: int | None) -> bool:
    """Return whether a scenario's databases are those of RocksDB, by its seed; they are if it has none.

    The bits of the seed decide other things, which are to come with either kind.
    """
    return seed is None or derived_seed("databases of RocksDB", seed) % REAL_DATABASES == 0


def databases_for(scenario: Scenario) -> Databases | None:
    """Return what opens the databases of a scenario; None: RocksDB does."""
    is_struck = any(FAULTS[fault.kind].strikes == "database" for fault in scenario.faults)
    return ModelledDatabases() if is_struck or not has_real_databases(scenario.seed) else None
