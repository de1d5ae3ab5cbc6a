"""The folder of a job as the process that runs the job holds it.

The rules this module lives by:

- The lock is one on the folder, not on its path. If the folder is deleted, moved or replaced, another process
  gets the lock of the one that is then at the path. So a holder compares the two.
- The holder keeps the folder open. So its number is not given to another folder while it is compared.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from onceproof.engine.file_locks import hold_lock, release_lock

LOCK_ATTEMPTS: Final = 50
LOCK_WAIT_SECONDS: Final = 0.01


class HeldFolder:
    """A folder that this process may hold, with its lock or without."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._held: os.stat_result | None = None

    @contextmanager
    def held(self, *, is_locked: bool) -> Iterator[None]:
        """Hold the folder. Raises BlockingIOError if another process has its lock, and OSError."""
        descriptor = self._opened(is_locked=is_locked)
        before, self._held = self._held, os.fstat(descriptor)
        try:
            yield
        finally:
            self._held = before
            release_lock(descriptor)

    @property
    def is_in_place(self) -> bool:
        """Whether the folder that is held, if any, is still the one at its path."""
        if self._held is None:
            return True
        try:
            return os.path.samestat(self._held, os.stat(self._root))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            # The disk may be away for a moment; each use of a file will say so.
            return True

    def _opened(self, *, is_locked: bool) -> int:
        """Open the folder, and lock it; again where it is replaced in between."""
        while True:
            descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if is_locked:
                    _lock(descriptor)
                is_there = os.path.samestat(os.fstat(descriptor), os.stat(self._root))
            except BaseException:
                release_lock(descriptor)
                raise
            if is_there:
                return descriptor
            release_lock(descriptor)


def _lock(descriptor: int) -> None:
    """Lock a folder; retry: a process that checks the lock, or is about to end, holds it for a moment."""
    for _ in range(LOCK_ATTEMPTS - 1):
        with suppress(BlockingIOError):
            hold_lock(descriptor)
            return
        time.sleep(LOCK_WAIT_SECONDS)
    hold_lock(descriptor)
