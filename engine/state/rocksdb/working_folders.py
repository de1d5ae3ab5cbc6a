"""The folders in which the databases of a process lie.

RocksDB has threads of its own, which write in the background for all databases of a process. They do not
survive a fork: a database that the child opens would wait for them for ever.

Rules:

- They are below a folder that the process has locked. A killed process leaves its folders; the next process
  below the same base folder finds them unlocked and removes them.
- Nothing here imports rocksdict, because every process asks at its end for the folders that it has made.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import Final

from onceproof.engine.file_locks import release_lock
from onceproof.engine.temporary_folders import MARK, mark_as_owned, remove_abandoned

_opened_in: Final[set[int]] = set()


def note_opened() -> None:
    """Note that this process opens a database."""
    _opened_in.add(os.getpid())


def has_opened() -> bool:
    """Return whether this process, or one that it is a fork of, has opened a database."""
    return bool(_opened_in)


PREFIX: Final = "onceproof-rocksdb-"


class Folder:
    """A folder that is removed when this object is garbage-collected."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._finalizer = weakref.finalize(self, _remove, path, os.getpid())

    def remove(self) -> None:
        """Remove the folder now."""
        self._finalizer()


def _remove(path: str, owner: int) -> None:
    # A forked process has a copy of this object, but the folder belongs to its parent.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


class WorkingFolders:
    """The folders of this process below one base folder."""

    _of_base: Final[dict[tuple[int, str], WorkingFolders]] = {}

    def __init__(self, base: str) -> None:
        os.makedirs(base, exist_ok=True)
        remove_abandoned(base, PREFIX)
        self._root = Folder(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        self._lock = mark_as_owned(self._root.path)

    @classmethod
    def below(cls, base: str | None) -> WorkingFolders:
        """Return this process's folders below a base folder; the first call makes them."""
        key = (os.getpid(), base or tempfile.gettempdir())
        found = cls._of_base.get(key)
        if found is None:
            found = cls._of_base[key] = cls(key[1])
        return found

    @classmethod
    def close_all(cls) -> None:
        """Remove all folders that this process has made, below any base folder."""
        for key in [key for key in cls._of_base if key[0] == os.getpid()]:
            cls._of_base.pop(key).close()

    @classmethod
    def marks(cls) -> set[str]:
        """Return the lock files that this process holds open for as long as it lives."""
        here = os.getpid()
        return {os.path.join(each._root.path, MARK) for key, each in cls._of_base.items() if key[0] == here}

    def make(self) -> Folder:
        """Return a new folder."""
        return Folder(tempfile.mkdtemp(dir=self._root.path))

    def close(self) -> None:
        """Remove all folders with their content."""
        self._root.remove()
        release_lock(self._lock)


def remove_working_folders() -> None:
    """Remove the folders of this process; a worker that exits without finalizers calls this."""
    WorkingFolders.close_all()
