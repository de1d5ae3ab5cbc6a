"""One RocksDB database in a folder of its own.

The rules this module lives by:

- A database is the working copy of one attempt. Only checkpoints are durable, so the database writes no log,
  and its folder is removed when the backend is closed or garbage-collected because its task died.
- A checkpoint of the database is a folder of hard links to its SST files, which never change. The small files
  that do change are read into memory.
- The databases of a process share one block cache, because they share its memory. It ends with the last of
  them: otherwise it would fill up with the blocks of databases whose attempts are dead.
- What the operating system refuses while a database is opened, written in batches or checkpointed, such as a
  full disk or too many open files, is an OSError with its number and the folder, as it is for Python's own
  files. It does not mean that the checkpoint is damaged.
"""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any, Final

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
from onceproof.engine.state.rocksdb.databases import (
    BATCH,
    FILES_MERGED,
    FILES_TOLERATED,
    DatabaseCheckpoint,
    DatabaseUnreadable,
    check_file_name,
)
from onceproof.engine.state.rocksdb.working_folders import Folder, WorkingFolders, note_opened

BLOOM_BITS: Final = 10
TABLE_SUFFIX: Final = ".sst"
FEW_TABLES: Final = 16
"""Up to so many one thread opens the files of tables. To start the 16 threads of RocksDB takes longer."""
NEEDED: Final = ("CURRENT", "MANIFEST-")
"""The files that opening a database needs, besides its SST files."""

_REFUSALS: Final = {
    os.strerror(number): number
    for number in (
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM),
        *(errno.EACCES, errno.EROFS, errno.ESTALE, errno.ETIMEDOUT),
    )
}
"""By their words, the errors of the operating system. A missing file is not among them: it is damage."""
_OF_THE_SYSTEM: Final = "IO error: "
"""What the binding's message has before them; for some files it begins with "Corruption"."""


class BlockCache:
    """The block cache that all databases of this process with one setting share."""

    __slots__ = ("__weakref__", "native")

    def __init__(self, size: int) -> None:
        self.native = Cache(size)

    @classmethod
    def of(cls, size: int) -> BlockCache:
        """Return the cache of a size; it lasts as long as a database holds it."""
        found = BLOCK_CACHES.get(size)
        if found is None:
            found = BLOCK_CACHES[size] = cls(size)
        return found


BLOCK_CACHES: Final[MutableMapping[int, BlockCache]] = weakref.WeakValueDictionary()
"""By size."""


def _options(settings: StateBackendSettings, tables: int, cache: BlockCache) -> Options:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache.native)
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
    if tables <= FEW_TABLES:
        options.set_max_file_opening_threads(1)
    if settings.compaction == UNIVERSAL:
        style = UniversalCompactOptions()
        style.min_merge_width = FILES_MERGED
        options.set_compaction_style(DBCompactionStyle.universal())
        options.set_universal_compaction_options(style)
        options.set_level_zero_file_num_compaction_trigger(FILES_TOLERATED)
    return options


class Database:
    """One open database. ``get``, ``put`` and ``delete`` are those of rocksdict, bound once."""

    __slots__ = ("__weakref__", "_finalizer", "_folders", "_path", "_rdict", "delete", "get", "put")

    def __init__(
        self,
        folders: WorkingFolders,
        folder: Folder,
        settings: StateBackendSettings,
        read_only: bool = False,
        *,
        tables: int = 0,
    ) -> None:
        self._folders = folders
        access = AccessType.read_only(False) if read_only else AccessType.read_write()
        path = os.path.join(folder.path, "db")
        note_opened()
        self._path = path
        cache = BlockCache.of(settings.block_cache_bytes)
        try:
            with _refusals_named(path):
                self._rdict = Rdict(path, _options(settings, tables, cache), access_type=access)
        except OSError:
            raise
        except Exception as error:
            # The binding raises plain Exception for every error; only the message differs.
            reason = " ".join(str(error).replace(path, "").split())
            raise DatabaseUnreadable(reason) from error
        self._finalizer = weakref.finalize(self, _close_and_remove, self._rdict, folder, os.getpid(), cache)
        without_log = WriteOptions()
        without_log.disable_wal = True  # type: ignore[method-assign, assignment]
        self._rdict.set_write_options(without_log)
        self.get: Callable[[bytes], bytes | None] = self._rdict.get
        self.put: Callable[[bytes, bytes], None] = self._rdict.__setitem__
        self.delete: Callable[[bytes], None] = self._rdict.__delitem__

    @classmethod
    def fresh(cls, settings: StateBackendSettings) -> Database:
        """Open a new, empty database."""
        folders = WorkingFolders.below(settings.local_directory)
        return cls(folders, folders.make(), settings)

    @classmethod
    def of_files(
        cls, files: Iterable[tuple[str, bytes]], settings: StateBackendSettings, read_only: bool = False
    ) -> Database:
        """Open the database that consists of these files, given as (name, content)."""
        folders = WorkingFolders.below(settings.local_directory)
        folder = folders.make()
        path = os.path.join(folder.path, "db")
        os.mkdir(path)
        tables = 0
        for name, content in files:
            check_file_name(name)
            tables += name.endswith(TABLE_SUFFIX)
            with open(os.path.join(path, name), "wb") as file:
                file.write(content)
        return cls(folders, folder, settings, read_only, tables=tables)

    @classmethod
    def of_checkpoint(cls, taken: DatabaseCheckpoint, settings: StateBackendSettings) -> Database:
        """Open a checkpoint of a database, read-only."""
        folders = WorkingFolders.below(settings.local_directory)
        folder = folders.make()
        path = os.path.join(folder.path, "db")
        os.mkdir(path)
        for name in taken.tables:
            os.link(os.path.join(taken.path, name), os.path.join(path, name))
        for name, content in taken.small.items():
            with open(os.path.join(path, name), "wb") as file:
                file.write(content)
        return cls(folders, folder, settings, read_only=True, tables=len(taken.tables))

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over all pairs whose key has a prefix, in order, as of now."""
        # The binding ignores the bounds of ReadOptions once the options are garbage-collected: use none.
        items: Any = self._rdict.items(from_key=prefix)
        for pair in items:
            if not pair[0].startswith(prefix):
                return
            yield pair

    def scan_range(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over all pairs from ``begin`` (inclusive) to ``end`` (exclusive), in order, as of now."""
        items: Any = self._rdict.items(from_key=begin)
        for pair in items:
            if pair[0] >= end:
                return
            yield pair

    def first_from(self, begin: bytes) -> Any:
        """Return the first key that is not less than ``begin``, or None."""
        keys: Any = self._rdict.keys(from_key=begin)
        return next(keys, None)

    @property
    def is_empty(self) -> bool:
        """Whether the database has no key."""
        return self.first_from(b"") is None

    def write(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes] = ()) -> None:
        """Apply the deletes, then the puts, in batches."""
        batch = WriteBatch(raw_mode=True)
        with _refusals_named(self._path):
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
        """Delete all keys from ``begin`` (inclusive) to ``end`` (exclusive)."""
        self._rdict.delete_range(begin, end)

    def checkpoint(self) -> DatabaseCheckpoint:
        """Return a checkpoint of the database as of now."""
        folder = self._folders.make()
        path = os.path.join(folder.path, "checkpoint")
        with _refusals_named(path):
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


@contextmanager
def _refusals_named(path: str) -> Iterator[None]:
    """Raise what the operating system has refused as an OSError. The binding gives only a message."""
    try:
        yield
    except Exception as error:
        said = str(error)
        if _OF_THE_SYSTEM in said:
            for text, number in _REFUSALS.items():
                if text in said:
                    raise OSError(number, text, path) from error
        raise


def _close_and_remove(rdict: Rdict, folder: Folder, owner: int, cache: BlockCache) -> None:
    """Close the database, then remove its folder: in the other order closing never returns.

    ``cache`` is held until then.
    """
    # A forked process has a copy of the object, but not its threads, and the folder belongs to its parent.
    if os.getpid() == owner:
        # A write that fails now is no loss: the database is deleted.
        with suppress(Exception):
            rdict.close()
        folder.remove()
