"""Files that survive a loss of power: what the checkpoint storage and the file sink do with file calls.

The rules this module lives by:

- A file is durable when its content is synced and its name is: the sync of a file says nothing of its name.
- A name is durable when its folder is synced, and so are the names of all folders above.
- Functions that make folders sync them. Those that write or link a file leave its name to the caller.
- What a process that died has made is seen, and may still be lost. So a storage or sink syncs the folders
  above its own when it begins, whichever process has made them.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from onceproof.engine.file_calls import FileCalls

_NO_LINK: Final = frozenset((errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS))
"""The errors with which a hard link fails although a copy is possible."""
_NO_SYNC: Final = frozenset((errno.EACCES, errno.EPERM, errno.EINVAL, errno.EROFS))
"""The errors with which a folder cannot be synced that no job has made: unreadable, or on no disk."""
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
"""A link in place of the file is an error: it may lead out of the folder."""
COPIED_AT_ONCE: Final = 1 << 20


def open_folder(calls: FileCalls, folder: str, root: str | None = None) -> None:
    """Create a folder and its missing parents; make durable its name and those of all folders above it.

    Also of those that were there: a process that died may have made them, and not synced them. Where ``root``
    was opened so before, only those below it. Raises as ``make_folder`` does.
    """
    _make(calls, folder)
    while (parent := os.path.dirname(folder)) != folder and folder != root:
        try:
            sync_folder(calls, parent)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise
        folder = parent


def make_folder(calls: FileCalls, folder: str) -> None:
    """Create a folder and its missing parents, each durably.

    Raises NotADirectoryError where a file stands in place of a parent, FileExistsError where one stands in
    place of the folder.
    """
    for made in _make(calls, folder):
        sync_folder(calls, os.path.dirname(made))


def _make(calls: FileCalls, folder: str) -> list[str]:
    """Create a folder and its missing parents; return which of them were made."""
    if calls.is_folder(folder):
        return []
    parent = os.path.dirname(folder)
    try:
        made = _make(calls, parent)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), parent) from None
    try:
        calls.mkdir(folder)
    except FileExistsError:
        # Another thread was faster, and perhaps has deleted the folder again: the caller finds out when it
        # opens a file in it.
        if calls.exists(folder) and not calls.is_folder(folder):
            raise
        return made
    return [*made, folder]


def open_in_folder(calls: FileCalls, path: str, flags: int) -> int:
    """Open a file, making its folder if it is missing; retry, because a concurrent delete may remove it."""
    for _ in range(10):
        try:
            return calls.open(path, flags)
        except FileNotFoundError:
            make_folder(calls, os.path.dirname(path))
    return calls.open(path, flags)


def write_file(calls: FileCalls, path: str, data: bytes) -> None:
    """Create or truncate a file, and sync its content."""
    descriptor = open_in_folder(calls, path, _WRITE)
    try:
        write_all(calls, descriptor, data)
        calls.fsync(descriptor)
    finally:
        calls.close(descriptor)


def write_all(calls: FileCalls, descriptor: int, data: bytes) -> None:
    """Write all bytes at the descriptor's position."""
    view = memoryview(data)
    while view:
        view = view[calls.write(descriptor, view) :]


def link_file(calls: FileCalls, source: str, target: str) -> bool:
    """Hard-link a file; return False if the two are on different disks, or the source is gone."""
    for _ in range(10):
        try:
            calls.link(source, target)
        except FileExistsError:
            # A leftover of an attempt with the same name.
            calls.unlink(target)
        except FileNotFoundError:
            if not calls.exists(source):
                return False
            make_folder(calls, os.path.dirname(target))
        except OSError as error:
            if error.errno in _NO_LINK:
                return False
            raise
        else:
            return True
    return False


def copy_file(calls: FileCalls, source: str, target: str) -> None:
    """Copy a file of this machine; the copy is not synced."""
    descriptor = open_in_folder(calls, target, _WRITE)
    try:
        with open(source, "rb") as read:
            while data := read.read(COPIED_AT_ONCE):
                write_all(calls, descriptor, data)
    finally:
        calls.close(descriptor)


def sync_file(calls: FileCalls, path: str) -> None:
    """Make the content of a file durable."""
    _sync(calls, path, os.O_RDONLY)


def sync_folder(calls: FileCalls, folder: str) -> None:
    """Make the names in a folder durable."""
    _sync(calls, folder, os.O_RDONLY | os.O_DIRECTORY)


def sync_parent(calls: FileCalls, folder: str, root: str) -> None:
    """Make the name of a folder below ``root`` durable: its maker may have died before it did."""
    if folder != root:
        sync_folder(calls, os.path.dirname(folder))


def _sync(calls: FileCalls, path: str, flags: int) -> None:
    descriptor = calls.open(path, flags)
    try:
        calls.fsync(descriptor)
    finally:
        calls.close(descriptor)
