"""Folders for temporary files, which the next process removes if theirs is killed.

The rules this module lives by:

- The owner of a folder holds a lock on a file in it, for as long as it lives. However it dies, the lock ends
  with it, and no process id can be mistaken for that of another process.
- Who begins to use a base folder first removes the folders of its own kind and user whose lock nothing holds.
- The mark is locked before it gets its name: a folder without one is being made, and is left alone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from typing import Final

from onceproof.engine.file_locks import hold_lock

MARK: Final = "lock"


def mark_as_owned(folder: str) -> int:
    """Mark a folder as that of this process; return the descriptor whose ``release_lock`` gives it up."""
    unnamed = os.path.join(folder, f"{MARK}.new")
    descriptor = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
    hold_lock(descriptor, wait=True)
    os.rename(unnamed, os.path.join(folder, MARK))
    return descriptor


def remove_abandoned(base: str, prefix: str, is_in_use: Callable[[str], bool] = lambda folder: False) -> None:
    """Remove the marked folders below ``base`` whose name begins with ``prefix`` and whose owner is dead.

    ``is_in_use`` says of such a folder whether another process of its dead owner still lives.
    """
    for name in os.listdir(base):
        if name.startswith(prefix):
            _remove_if_abandoned(os.path.join(base, name), is_in_use)


def _remove_if_abandoned(folder: str, is_in_use: Callable[[str], bool]) -> None:
    try:
        if os.lstat(folder).st_uid != os.getuid():
            return
        # Not blocked by a pipe of that name, nor led astray by a link.
        flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(os.path.join(folder, MARK), flags)
    except OSError:
        # Not a folder of ours, or one that another process is making or removing right now.
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not is_in_use(folder):
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)
