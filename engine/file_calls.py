"""The file calls of the operating system, as one interface.

The checkpoint storage and the file sink change files through it and in no other way. So a test can record
each call, or let the same code run over a simulated disk that loses power.

Subtasks that share a process let their syncs wait for one another (``joint_syncs``): a disk takes about as
long for many syncs at once as for one, and a folder that many have changed needs one.
"""

from __future__ import annotations

import errno
import fcntl
import filecmp
import os
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Final, Protocol

_SPARSE_BYTES: Final = 1 << 26
"""From this size on a file must take space of the disk for its size..."""
_MOST_PACKED: Final = 1000
"""...or a thousandth of it, where the file system compresses. So a forged file that takes no space on disk
does not fill the memory."""
_BLOCK_BYTES: Final = 512
_STDERR: Final = 2
_MOST_WAITING: Final = 64
"""Each sync that waits holds a descriptor."""
_SYNCS_AT_ONCE: Final = 16


class FileCalls(Protocol):
    """The calls with which files are read and changed. Each raises OSError as the operating system does."""

    def open(self, path: str, flags: int) -> int:
        """Open or create a file, or open a folder; return a descriptor, closed in child processes."""
        ...

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        ...

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """Write at the descriptor's position; return how many bytes were written, perhaps not all."""
        ...

    def fsync(self, descriptor: int) -> None:
        """Make the content of a file durable, or the names in a folder."""
        ...

    def read_file(self, path: str) -> bytes:
        """Return the whole content of a file."""
        ...

    def size_of(self, path: str) -> int | None:
        """Return the size of a file in bytes; None if there is none."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder; also for the name of a broken link."""
        ...

    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder."""
        ...

    def is_same_content(self, one: str, other: str) -> bool:
        """Return whether two paths are one file, or two files of the same content."""
        ...

    def entries(self, folder: str) -> list[tuple[str, bool]]:
        """Return the names in a folder, each with whether it is a folder."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing the file that has it."""
        ...

    def link(self, source: str, target: str) -> None:
        """Give a file a second name."""
        ...

    def unlink(self, path: str) -> None:
        """Remove the name of a file."""
        ...

    def mkdir(self, folder: str) -> None:
        """Make a folder."""
        ...

    def rmdir(self, folder: str) -> None:
        """Remove an empty folder."""
        ...


def _moved_up(descriptor: int) -> int:
    """Return another descriptor of the same file, above those of the standard streams.

    User code has closed one of these. What is printed or logged there later must not get into the file.
    """
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    if null > _STDERR:
        os.close(null)
    return moved


class _JointSyncs(threading.local):
    """The syncs of this thread that wait: nothing is acknowledged before they are done."""

    def __init__(self) -> None:
        self.are_on = False
        self.has_contents = False
        """Whether a file waits, not only folders."""
        self._descriptors: dict[tuple[int, int], int] = {}
        """Copies of the descriptors, by device and inode."""

    def add(self, descriptor: int) -> None:
        """Let a file or folder wait; where too many wait, sync those first."""
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) in self._descriptors:
            return
        if len(self._descriptors) >= _MOST_WAITING:
            self.sync()
        copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)
        self._descriptors[found.st_dev, found.st_ino] = copy
        self.has_contents |= not stat.S_ISDIR(found.st_mode)

    def sync(self) -> None:
        """Sync all that wait, at the same time. Raises the first OSError."""
        waiting = list(self._descriptors.values())
        try:
            if len(waiting) > 1:
                with ThreadPoolExecutor(min(len(waiting), _SYNCS_AT_ONCE)) as threads:
                    list(threads.map(_sync, waiting))
            elif waiting:
                _sync(waiting[0])
        finally:
            self.forget()

    def forget(self) -> None:
        """Sync nothing of what waits."""
        self.has_contents = False
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        with suppress(OSError):
            error.filename = os.readlink(f"/proc/self/fd/{descriptor}")
        raise


_joint: Final = _JointSyncs()


@contextmanager
def joint_syncs() -> Iterator[Callable[[], None]]:
    """Let all syncs of this thread wait until the end, and do them together there. Raises OSError.

    Gives what does so earlier, for those who would name the error.
    Before a file is deleted, or one is renamed while contents wait, they are done. An error gives them up.
    """
    _joint.are_on = True
    try:
        yield _joint.sync
        _joint.sync()
    finally:
        _joint.are_on = False
        _joint.forget()


class SystemFileCalls:
    """The calls of the operating system itself."""

    def open(self, path: str, flags: int) -> int:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
        return descriptor if descriptor > _STDERR else _moved_up(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        if _joint.are_on:
            _joint.add(descriptor)
        else:
            os.fsync(descriptor)

    def read_file(self, path: str) -> bytes:
        # A pipe in place of the file must not hold the job up.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                kind = "a pipe" if stat.S_ISFIFO(found.st_mode) else "a device"
                raise OSError(errno.EINVAL, f"it is {kind}, not a file")
            if (
                found.st_size > _SPARSE_BYTES
                and found.st_blocks * _BLOCK_BYTES * _MOST_PACKED < found.st_size
            ):
                raise OSError(
                    errno.EINVAL, f"it is sparse: hardly anything of its {found.st_size} bytes is stored"
                )
            return file.read()

    def size_of(self, path: str) -> int | None:
        try:
            return os.stat(path).st_size
        except FileNotFoundError:
            return None

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return os.path.islink(path)
        return True

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def is_same_content(self, one: str, other: str) -> bool:
        return os.path.samefile(one, other) or filecmp.cmp(one, other, shallow=False)

    def entries(self, folder: str) -> list[tuple[str, bool]]:
        with os.scandir(folder) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]

    def rename(self, source: str, target: str) -> None:
        if _joint.has_contents:
            _joint.sync()
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def unlink(self, path: str) -> None:
        _joint.sync()
        os.unlink(path)

    def mkdir(self, folder: str) -> None:
        os.mkdir(folder)

    def rmdir(self, folder: str) -> None:
        os.rmdir(folder)


SYSTEM_CALLS: Final = SystemFileCalls()
