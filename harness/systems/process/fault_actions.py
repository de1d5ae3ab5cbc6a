"""Signals, cut connections, lost files and full disks: the means by which faults come about in processes.

The rules this module lives by:

- Everything here is real: signals, connections that are cut, files that are deleted, a limit that the system
  sets. The one exception is a disk that can only be read, which not every user can make: there the storage
  raises the error of such a disk (`faulty_storage.py`).
- A worker that is to become a zombie loses its connections before it is stopped, as when a network parts. Its
  Java takes it for dead, and gives its task to another worker. The zombie does not know that when it goes on.
- Signals go only to processes of this session: the id of a dead process may belong to another session now.
"""

from __future__ import annotations

import os
import resource
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from onceproof.harness.systems.process.process_table import is_alive, is_in_session, parent_of

SECONDS_TO_END: Final = 10.0
"""How long a stopped process that goes on may take to end."""
SLOW_SECONDS: Final = 6.0
"""How long a slow task does nothing: ten times what its neighbours take."""
_SECONDS_BETWEEN_LOOKS: Final = 0.01
_SHUFFLE_FILES: Final = "shuffle_*"


def send(process: int, what: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process of this session; ids of 0 and 1 stand for no process."""
    if process <= 1:
        return
    with suppress(ProcessLookupError):
        if os.getsid(process) == os.getsid(0):
            os.kill(process, what)


def die() -> None:
    """End this process as a power cut would: no ``finally`` runs, and no buffer is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def java_of_this_worker() -> int:
    """Return the id of the Java process that this worker works for; 0 if it cannot be known.

    Java has started the process from which all its workers are forked.
    """
    return parent_of(os.getppid())


def cut_off() -> None:
    """Close all connections of this process; the processes at their other ends see them closed."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/dev/fd"):
        descriptor = int(name)
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def stop_here() -> None:
    """Cut this process off and stop it, until ``let_go_on`` is called for it."""
    # When its Java ends, those that it has started are asked to end; one that is cut off does not hear that.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    cut_off()
    os.kill(os.getpid(), signal.SIGSTOP)


def let_go_on(process: int) -> bool:
    """Let a stopped process go on, and wait for its end. Return whether it ended in time."""
    send(process, signal.SIGCONT)
    deadline = time.monotonic() + SECONDS_TO_END
    while is_in_session(process, os.getsid(0)) and is_alive(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return True


def lose_shuffle_files(folder: str) -> int:
    """Delete what Spark keeps below a folder between two stages. Return the number of deleted files."""
    count = 0
    for path in Path(folder).rglob(_SHUFFLE_FILES) if folder else ():
        with suppress(FileNotFoundError):
            path.unlink()
            count += 1
    return count


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Limit each file of this process to ``size`` bytes: a longer one fails as on a full disk."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
