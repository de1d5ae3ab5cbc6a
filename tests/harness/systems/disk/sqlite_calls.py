"""Records the file calls of SQLite beside those of the engine, in the library that Python's sqlite3 uses.

The rules this module lives by:

- A VFS is laid over SQLite's own for the operating system. All its calls are SQLite's own, but those that
  change a file or its name, which are done and then recorded. So `sqlite3` and what uses it run as they are.
- SQLite syncs a folder in the middle of a sync or a deletion. It asks for the folder by a system call of its
  own (``openDirectory``), which tells that it does.
- Readers see a commit as soon as its writer gives its lock back, which is recorded as ``publish``: what was
  committed by then, some reader may have seen. What a killed writer has left in a write-ahead log becomes
  visible too, when the next process recovers the log, which SQLite does without a sync. That counts from the
  next commit or checkpoint on, which both make it durable: before, no one has reported it done.
- The shared memory of a write-ahead log (``-shm``) is not recorded. It holds an index of the log, is never
  synced, and is made anew by the first process that opens the database.
- SQLite's structures are those of its C interface (https://sqlite.org/c3ref/vfs.html and io_methods.html),
  which may grow and never changes.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p
from itertools import count
from typing import Any, Final

from tests.harness.systems.disk.recorded_calls import PUBLISH, CallLog

DATABASE: Final = "database"
JOURNAL: Final = "rollback journal"
WRITE_AHEAD_LOG: Final = "write-ahead log"
AFTER_DELETION: Final = "folder after SQLite's deletion of the {}"
"""The site of the sync of a folder, from which the file of a kind was removed."""
WITH_FILE: Final = "folder with SQLite's {}"
"""Likewise, in which it was made."""
FILE: Final = "file of SQLite's {}"

_KINDS: Final = {0x100: DATABASE, 0x800: JOURNAL, 0x4000: JOURNAL, 0x80000: WRITE_AHEAD_LOG}
"""By the flags of SQLITE_OPEN_MAIN_DB, MAIN_JOURNAL, SUPER_JOURNAL and WAL."""
_ENDINGS: Final = {"-journal": JOURNAL, "-wal": WRITE_AHEAD_LOG}
_OPEN_CREATE: Final = 0x4
_OK: Final = 0
_IOERR: Final = 10
_RESERVED_LOCK: Final = 2
_SHARED_LOCK: Final = 1
_SHM_UNLOCK: Final = 1
_SHM_EXCLUSIVE: Final = 8
_WRITER: Final = 0
_RECOVERER: Final = 2
"""The numbers of two locks of a write-ahead log. Who writes has the first; who makes the index of the log
anew has both, and the one of checkpoints between them."""
_OPEN_DIRECTORY: Final = b"openDirectory"
_NAME: Final = b"onceproof-recorded"

_Open: Final = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_Delete: Final = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_Close: Final = CFUNCTYPE(c_int, c_void_p)
_Write: Final = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate: Final = CFUNCTYPE(c_int, c_void_p, c_int64)
_WithNumber: Final = CFUNCTYPE(c_int, c_void_p, c_int)
"""The type of xSync, xLock and xUnlock."""
_SharedLock: Final = CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int)
_OpenDirectory: Final = CFUNCTYPE(c_int, c_char_p, c_void_p)
_SetSystemCall: Final = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p)
_GetSystemCall: Final = CFUNCTYPE(c_void_p, c_void_p, c_char_p)


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        ("pNext", c_void_p),
        ("zName", c_char_p),
        ("pAppData", c_void_p),
        ("xOpen", c_void_p),
        ("xDelete", c_void_p),
        ("others", c_void_p * 10),
        ("xCurrentTimeInt64", c_void_p),
        ("xSetSystemCall", c_void_p),
        ("xGetSystemCall", c_void_p),
        ("xNextSystemCall", c_void_p),
    )


class _Methods(ctypes.Structure):
    _fields_ = (
        ("iVersion", c_int),
        ("xClose", c_void_p),
        ("xRead", c_void_p),
        ("xWrite", c_void_p),
        ("xTruncate", c_void_p),
        ("xSync", c_void_p),
        ("xFileSize", c_void_p),
        ("xLock", c_void_p),
        ("xUnlock", c_void_p),
        ("others", c_void_p * 4),
        ("xShmMap", c_void_p),
        ("xShmLock", c_void_p),
        ("xShmBarrier", c_void_p),
        ("xShmUnmap", c_void_p),
        ("xFetch", c_void_p),
        ("xUnfetch", c_void_p),
    )


class _File(ctypes.Structure):
    _fields_ = (("pMethods", POINTER(_Methods)),)


class HiddenLibrary(RuntimeError):
    """The SQLite of this Python cannot be reached. The message is one line."""


class _OpenFile:
    """What SQLite has open: the descriptor of it in the record, its kind, path and lock."""

    __slots__ = ("descriptor", "kind", "lock", "path", "recovers")

    def __init__(self, descriptor: int, kind: str, path: str) -> None:
        self.descriptor = descriptor
        self.kind = kind
        self.path = path
        self.lock = 0
        self.recovers = False


class _RecordingVfs:
    """The VFS that records into a log; without one it syncs nothing.

    What SQLite holds of it is never freed, because a connection may outlive the recording.
    """

    def __init__(self, library: Any, log: CallLog | None) -> None:
        self._log = log
        self._library = library
        address = library.sqlite3_vfs_find(None)
        self._below = _Vfs.from_address(address)
        self._address = address
        self._open_files: dict[int, _OpenFile] = {}
        self._tables: dict[int, _Methods] = {}
        self._descriptors = count(-2, -1)
        """Numbers that the operating system gives to no file."""
        self._syncs_folder = False
        self._kept: list[Any] = []
        self._vfs = _Vfs.from_buffer_copy(self._below)
        self._vfs.zName, self._vfs.pNext = _NAME, None
        self._vfs.xOpen = self._pointer(_Open, self._open)
        self._vfs.xDelete = self._pointer(_Delete, self._delete)
        open_directory = _GetSystemCall(self._below.xGetSystemCall)(address, _OPEN_DIRECTORY)
        if open_directory is None:
            raise HiddenLibrary("the SQLite of this Python syncs no folders: take one whose SQLite does")
        self._open_directory = _OpenDirectory(open_directory)

    def enter(self) -> None:
        """Become the VFS of new connections."""
        asked = self._pointer(_OpenDirectory, self._directory_asked)
        _SetSystemCall(self._below.xSetSystemCall)(self._address, _OPEN_DIRECTORY, asked)
        self._library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1)

    def leave(self) -> None:
        """Let new connections have the VFS of the operating system again."""
        _SetSystemCall(self._below.xSetSystemCall)(self._address, _OPEN_DIRECTORY, None)
        # Connections that are open keep it. The one that was the default before is so again.
        self._library.sqlite3_vfs_unregister(ctypes.byref(self._vfs))

    def _pointer(self, kind: Any, method: Callable[..., int]) -> Any:
        """Return the address of a function for SQLite. An error of ours is one of input or output there."""

        def guarded(*arguments: Any) -> int:
            try:
                with nullcontext() if self._log is None else self._log.lock:
                    return method(*arguments)
            except OSError:
                return _IOERR

        function = kind(guarded)
        self._kept.append(function)
        return ctypes.cast(function, c_void_p).value

    # The VFS.

    def _open(self, vfs: int, name: int | None, file: int, flags: int, flags_out: int | None) -> int:
        code: int = _Open(self._below.xOpen)(self._address, name, file, flags, flags_out)
        kind = next((kind for bit, kind in _KINDS.items() if flags & bit), None)
        if code != _OK or name is None or kind is None:
            return code
        path = os.path.abspath(os.fsdecode(ctypes.string_at(name)))
        opened = _OpenFile(next(self._descriptors), kind, path)
        self._open_files[file] = opened
        head = _File.from_address(file)
        head.pMethods = ctypes.pointer(self._recording(ctypes.addressof(head.pMethods.contents)))
        if self._log is not None:
            mode = os.O_RDWR | (os.O_CREAT if flags & _OPEN_CREATE else 0)
            self._log.opened(path, mode, opened.descriptor)
        return code

    def _delete(self, vfs: int, name: bytes, syncs_folder: int) -> int:
        code: int = self._watched(
            lambda: _Delete(self._below.xDelete)(self._address, name, syncs_folder if self._log else 0)
        )
        if code == _OK and self._log is not None:
            path = os.path.abspath(os.fsdecode(name))
            self._log.removed(path)
            if self._syncs_folder:
                self._log.folder_synced(path, AFTER_DELETION.format(_kind_of(path)), next(self._descriptors))
        return code

    def _directory_asked(self, path: bytes, descriptor: int) -> int:
        self._syncs_folder = True
        result: int = self._open_directory(path, descriptor)
        return result

    def _watched(self, call: Callable[[], int]) -> int:
        """Make a call that may sync a folder, and notice whether it does."""
        self._syncs_folder = False
        return call()

    # The methods of a file.

    def _recording(self, table: int) -> _Methods:
        """Return the table of methods of a file with those that record."""
        if table not in self._tables:
            below = _Methods.from_address(table)
            over = _Methods.from_buffer_copy(below)
            over.xClose = self._pointer(_Close, self._close_over(_Close(below.xClose)))
            over.xWrite = self._pointer(_Write, self._write_over(_Write(below.xWrite)))
            over.xTruncate = self._pointer(_Truncate, self._truncate_over(_Truncate(below.xTruncate)))
            over.xSync = self._pointer(_WithNumber, self._sync_over(_WithNumber(below.xSync)))
            over.xLock = self._pointer(_WithNumber, self._lock_over(_WithNumber(below.xLock)))
            over.xUnlock = self._pointer(_WithNumber, self._unlock_over(_WithNumber(below.xUnlock)))
            if below.xShmLock:
                shared = self._shared_lock_over(_SharedLock(below.xShmLock))
                over.xShmLock = self._pointer(_SharedLock, shared)
            self._tables[table] = over
        return self._tables[table]

    def _changed(self, file: int, method: str, number: int = 0, data: bytes = b"", site: str = "") -> None:
        if self._log is not None:
            self._log.changed(self._open_files[file].descriptor, method, number, data, site)

    def _close_over(self, below: Any) -> Callable[..., int]:
        def close(file: int) -> int:
            self._changed(file, "close")
            del self._open_files[file]
            code: int = below(file)
            return code

        return close

    def _write_over(self, below: Any) -> Callable[..., int]:
        def write(file: int, data: int, length: int, offset: int) -> int:
            code: int = below(file, data, length, offset)
            if code == _OK:
                self._changed(file, "write_at", offset, ctypes.string_at(data, length))
            return code

        return write

    def _truncate_over(self, below: Any) -> Callable[..., int]:
        def truncate(file: int, size: int) -> int:
            code: int = below(file, size)
            if code == _OK:
                self._changed(file, "truncate", size)
            return code

        return truncate

    def _sync_over(self, below: Any) -> Callable[..., int]:
        def sync(file: int, flags: int) -> int:
            if self._log is None:
                return _OK
            # It is performed, because only then SQLite says whether it syncs the folder, too.
            code = self._watched(lambda: below(file, flags))
            opened = self._open_files[file]
            if code == _OK:
                self._changed(file, "fsync", site=FILE.format(opened.kind))
                if self._syncs_folder:
                    site = WITH_FILE.format(opened.kind)
                    self._log.folder_synced(opened.path, site, next(self._descriptors))
            return code

        return sync

    def _lock_over(self, below: Any) -> Callable[..., int]:
        def lock(file: int, level: int) -> int:
            code: int = below(file, level)
            if code == _OK:
                self._open_files[file].lock = level
            return code

        return lock

    def _unlock_over(self, below: Any) -> Callable[..., int]:
        def unlock(file: int, level: int) -> int:
            code: int = below(file, level)
            opened = self._open_files[file]
            has_written = opened.lock >= _RESERVED_LOCK and level <= _SHARED_LOCK
            opened.lock = min(opened.lock, level)
            if has_written:
                self._changed(file, PUBLISH)
            return code

        return unlock

    def _shared_lock_over(self, below: Any) -> Callable[..., int]:
        def lock(file: int, first: int, locks: int, flags: int) -> int:
            code: int = below(file, first, locks, flags)
            if code != _OK or not flags & _SHM_EXCLUSIVE or first > _RECOVERER:
                return code
            opened = self._open_files[file]
            if not flags & _SHM_UNLOCK:
                opened.recovers |= first <= _RECOVERER < first + locks
            elif not opened.recovers:
                self._changed(file, PUBLISH)
            elif first == _WRITER:
                opened.recovers = False
            return code

        return lock


_in_use: Final[list[_RecordingVfs]] = []
"""Never freed: see `_RecordingVfs`."""


@contextmanager
def recorded_sqlite(log: CallLog) -> Iterator[None]:
    """Record the file calls of connections that are opened in this process. Raises HiddenLibrary."""
    with _over_sqlite(log):
        yield


@contextmanager
def unsynced_sqlite() -> Iterator[None]:
    """Let connections that are opened now sync nothing: for a process during which the power is not cut."""
    with _over_sqlite(None):
        yield


@contextmanager
def _over_sqlite(log: CallLog | None) -> Iterator[None]:
    vfs = _RecordingVfs(sqlite_library(), log)
    _in_use.append(vfs)
    vfs.enter()
    try:
        yield
    finally:
        vfs.leave()


def sqlite_library() -> Any:
    """Return the SQLite that Python's sqlite3 uses. Raises HiddenLibrary if its functions cannot be found."""
    # A module that is built into Python is in the program itself.
    library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    try:
        library.sqlite3_vfs_find.restype = c_void_p
        library.sqlite3_vfs_register.argtypes = (c_void_p, c_int)
        library.sqlite3_vfs_unregister.argtypes = (c_void_p,)
    except AttributeError as error:
        raise HiddenLibrary(
            "the SQLite of this Python hides its functions: take a Python whose sqlite3 uses the library of"
            " the system"
        ) from error
    return library


def _kind_of(path: str) -> str:
    """Return the kind of a file that SQLite deletes, by its name."""
    return next((kind for ending, kind in _ENDINGS.items() if path.endswith(ending)), DATABASE)
