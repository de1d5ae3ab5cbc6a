"""One database: opened in a folder of its own, written without a log, and gone with its backend.

- A database is this attempt's working copy. Checkpoints are what lasts, so nothing is logged, and the
  folder is removed when the backend is closed, or when it is forgotten because its task died.
- The folders of a process lie below one that it has locked. A process that was killed leaves its folders;
  the next one to begin below the same folder finds them unlocked and removes them.
- A checkpoint of the database is a folder of hard links to its files. The big ones (SSTs) never change;
  what is small and changes is read into memory.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct
from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBCompactionStyle,
    Options,
    Rdict,
    UniversalCompactOptions,
    WriteBatch,
    WriteOptions,
)

from onceproof.engine.configuration.backend_options import UNIVERSAL
from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.state.files import StateError

PREFIX: Final = "onceproof-rocksdb-"
LOCK: Final = "lock"
BATCH: Final = 1000
"""How many writes go together where many are made at once."""
BLOOM_BITS: Final = 10
FILES_TOLERATED: Final = 8
FILES_MERGED: Final = 4
"""Each checkpoint leaves a small file. From how many on some are merged, and how many at least: with fewer of
each, what incremental checkpoints store doubles."""
TABLE_SUFFIX: Final = ".sst"
NEEDED: Final = ("CURRENT", "MANIFEST-")
"""What a database cannot be opened without, besides its tables."""


class Folder:
    """A folder that is removed when nobody refers to it any more."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._finalizer = weakref.finalize(self, _remove, path, os.getpid())

    def remove(self) -> None:
        """Remove it now."""
        self._finalizer()


def _remove(path: str, owner: int) -> None:
    # A forked process has this object, too, but not the folder.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


class WorkingFolders:
    """The folders of this process below one base folder."""

    _of_base: Final[dict[tuple[int, str], WorkingFolders]] = {}

    def __init__(self, base: str) -> None:
        os.makedirs(base, exist_ok=True)
        _remove_abandoned(base)
        self._root = Folder(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        self._lock = _locked(os.path.join(self._root.path, LOCK))

    @classmethod
    def below(cls, base: str | None) -> WorkingFolders:
        """Give this process's folders below a base folder; made when they are first asked for."""
        key = (os.getpid(), base or tempfile.gettempdir())
        found = cls._of_base.get(key)
        if found is None:
            found = cls._of_base[key] = cls(key[1])
        return found

    def make(self) -> Folder:
        """Make a folder."""
        return Folder(tempfile.mkdtemp(dir=self._root.path))

    def close(self) -> None:
        """Remove them all, whatever they hold."""
        self._root.remove()
        os.close(self._lock)


def remove_working_folders() -> None:
    """Remove the folders of this process, for one that ends without a word to its objects."""
    for key in [key for key in WorkingFolders._of_base if key[0] == os.getpid()]:
        WorkingFolders._of_base.pop(key).close()


def _locked(path: str) -> int:
    """Make a file that is locked from the moment it can be found under its name; return its descriptor."""
    # Between the making of a file and its locking another process could lock it, and take it for abandoned.
    unnamed = path + ".new"
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.rename(unnamed, path)
    return descriptor


def _remove_abandoned(base: str) -> None:
    """Remove what processes left behind that no longer live; whoever lives holds his lock."""
    for name in os.listdir(base):
        path = os.path.join(base, name)
        if not name.startswith(PREFIX):
            continue
        try:
            descriptor = os.open(os.path.join(path, LOCK), os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            # Not ours, just being made, or just being removed.
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)


_caches: Final[dict[int, Cache]] = {}


def _options(settings: StateBackendSettings) -> Options:
    cache = _caches.get(settings.block_cache_bytes)
    if cache is None:
        cache = _caches[settings.block_cache_bytes] = Cache(settings.block_cache_bytes)
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    blocks.set_bloom_filter(BLOOM_BITS, False)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(settings.write_buffer_bytes)
    options.set_max_write_buffer_number(settings.write_buffers)
    options.set_keep_log_file_num(1)
    options.set_is_fd_close_on_exec(True)
    if settings.compaction == UNIVERSAL:
        style = UniversalCompactOptions()
        style.min_merge_width = FILES_MERGED
        options.set_compaction_style(DBCompactionStyle.universal())
        options.set_universal_compaction_options(style)
        options.set_level_zero_file_num_compaction_trigger(FILES_TOLERATED)
    return options


class DatabaseUnreadable(StateError):
    """A database cannot be opened. The message is one line."""


class Database:
    """One open database. ``get``, ``put`` and ``delete`` are those of rocksdict, bound once."""

    __slots__ = ("__weakref__", "_finalizer", "_folders", "_rdict", "delete", "get", "put")

    def __init__(
        self, folders: WorkingFolders, folder: Folder, settings: StateBackendSettings, read_only: bool = False
    ) -> None:
        self._folders = folders
        access = AccessType.read_only(False) if read_only else AccessType.read_write()
        path = os.path.join(folder.path, "db")
        try:
            self._rdict = Rdict(path, _options(settings), access_type=access)
        except Exception as error:
            # The binding raises what every error is: the message alone tells them apart.
            reason = " ".join(str(error).replace(path, "").split())
            raise DatabaseUnreadable(reason) from error
        self._finalizer = weakref.finalize(self, _shut, self._rdict, folder, os.getpid())
        without_log = WriteOptions()
        without_log.disable_wal = True  # type: ignore[method-assign, assignment]
        self._rdict.set_write_options(without_log)
        self.get: Callable[[bytes], bytes | None] = self._rdict.get
        self.put: Callable[[bytes, bytes], None] = self._rdict.__setitem__
        self.delete: Callable[[bytes], None] = self._rdict.__delitem__

    @classmethod
    def fresh(cls, settings: StateBackendSettings) -> Database:
        """Make an empty database."""
        folders = WorkingFolders.below(settings.local_directory)
        return cls(folders, folders.make(), settings)

    @classmethod
    def of_files(
        cls, files: Iterable[tuple[str, bytes]], settings: StateBackendSettings, read_only: bool = False
    ) -> Database:
        """Open the database that consists of files, given one after the other as (name, content)."""
        folders = WorkingFolders.below(settings.local_directory)
        folder = folders.make()
        path = os.path.join(folder.path, "db")
        os.mkdir(path)
        for name, content in files:
            with open(os.path.join(path, name), "wb") as file:
                file.write(content)
        return cls(folders, folder, settings, read_only)

    @classmethod
    def of_checkpoint(cls, taken: DatabaseCheckpoint, settings: StateBackendSettings) -> Database:
        """Open a database as it was taken, to be read."""
        folders = WorkingFolders.below(settings.local_directory)
        folder = folders.make()
        path = os.path.join(folder.path, "db")
        os.mkdir(path)
        for name in taken.tables:
            os.link(os.path.join(taken.path, name), os.path.join(path, name))
        for name, content in taken.small.items():
            with open(os.path.join(path, name), "wb") as file:
                file.write(content)
        return cls(folders, folder, settings, read_only=True)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Go through all that begins with a prefix, in order, as of now."""
        # Bounds of ReadOptions are only heeded for as long as somebody holds the options: better none.
        items: Any = self._rdict.items(from_key=prefix)
        for pair in items:
            if not pair[0].startswith(prefix):
                return
            yield pair

    def scan_range(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Go through all from one key up to another, in order, as of now."""
        items: Any = self._rdict.items(from_key=begin)
        for pair in items:
            if pair[0] >= end:
                return
            yield pair

    def first_from(self, begin: bytes) -> Any:
        """Give the first key that is not before ``begin``."""
        keys: Any = self._rdict.keys(from_key=begin)
        return next(keys, None)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing."""
        return self.first_from(b"") is None

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes] = ()) -> None:
        """Delete, then put, in batches."""
        batch = WriteBatch(raw_mode=True)
        for key in deletes:
            batch.delete(key)
            if len(batch) >= BATCH:
                self._rdict.write(batch)
                batch = WriteBatch(raw_mode=True)
        for key, value in puts:
            batch.put(key, value)
            if len(batch) >= BATCH:
                self._rdict.write(batch)
                batch = WriteBatch(raw_mode=True)
        if len(batch):
            self._rdict.write(batch)

    def delete_range(self, begin: bytes, end: bytes) -> None:
        """Delete all from one key up to another."""
        self._rdict.delete_range(begin, end)

    def checkpoint(self) -> DatabaseCheckpoint:
        """Take the database as of now."""
        folder = self._folders.make()
        path = os.path.join(folder.path, "checkpoint")
        Checkpoint(self._rdict).create_checkpoint(path)
        tables: list[str] = []
        small: dict[str, bytes] = {}
        for name in sorted(os.listdir(path)):
            if name.endswith(TABLE_SUFFIX):
                tables.append(name)
            elif name.startswith(NEEDED):
                with open(os.path.join(path, name), "rb") as file:
                    small[name] = file.read()
        return DatabaseCheckpoint(folder, path, tables, small)

    def close(self) -> None:
        """Close the database and remove its folder."""
        self._finalizer()


def _shut(rdict: Rdict, folder: Folder, owner: int) -> None:
    """Close first: a database whose folder is gone waits for its last writes for ever."""
    # A forked process has the object, but neither its threads nor its folder.
    if os.getpid() == owner:
        # What cannot be written any more is of no use to anybody.
        with suppress(Exception):
            rdict.close()
        folder.remove()


class DatabaseCheckpoint(Struct, eq=False):
    """A database as it was: its tables, as files below ``path``, and the small files it needs besides.

    The files are there for as long as the object is.
    """

    folder: Any
    path: str
    tables: list[str]
    small: dict[str, bytes]
