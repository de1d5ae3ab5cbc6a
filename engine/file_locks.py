"""Locks on folders and files that a living process holds.

The rules this module lives by:

- The lock is ``flock``: it holds on a folder, it ends with its process however that dies, and closing another
  descriptor of the same file does not end it. A POSIX record lock is no alternative although forks do not
  inherit it: it needs a file beside the checkpoints that a sweep could delete, and the process loses it
  without notice as soon as any code in it opens and closes that file. Two jobs would write one folder.
- A forked process shares the lock of its parent and would keep it after the parent has died. So each child
  closes its copy before it runs anything else. That ends no lock: the parent's descriptor holds it on.
- A program that another one executes has no copy, because the descriptor closes on exec.
- A fork made by C code runs no Python first. Its child keeps the lock until it ends or executes a program:
  the folder then stays in use too long, and is never used twice.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import Final

_held: Final[set[int]] = set()
"""The descriptors whose locks this process holds."""


def hold_lock(descriptor: int, *, wait: bool = False) -> None:
    """Lock the file of a descriptor until ``release_lock``; a fork of this process does not hold it.

    Raises BlockingIOError if another process holds the lock, unless ``wait``.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    _held.add(descriptor)


def release_lock(descriptor: int) -> None:
    """Close the descriptor, and with it end its lock, if it holds one."""
    _held.discard(descriptor)
    # User code may have closed it. The error that this has caused elsewhere is the one to be seen.
    with suppress(OSError):
        os.close(descriptor)


def _close_in_child() -> None:
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)
