"""The means of faults in real processes: signals, cut connections, deleted files and full disks.

Rules:

- All faults use the operating system: signals, closed connections, deleted files, a file size limit. The one
  exception is a read-only disk, which needs privileges to make: there the storage raises the error of such a
  disk (`spark/observed_subtask.py`).
- A zombie is a worker that is stopped after its connections are closed, as in a network partition. Its Java
  treats it as dead, and gives its task to another worker. Later the zombie continues, unaware of that.
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

from onceproof.harness.systems.process.job_specification import HIDDEN

SECONDS_TO_END: Final = 10.0
"""How long a stopped process may take to end after it continues."""
SLOW_SECONDS: Final = 6.0
"""How long a slow task sleeps: about ten times the duration of the other tasks."""
_SECONDS_BETWEEN_LOOKS: Final = 0.01
CONSUMED: Final = "-consumed"
"""With this behind the name of the output folder: where a consumer takes visible files."""
MOVED: Final = "-moved"
"""With this behind it: where every second process writes."""
LOST: Final = "-lost"
_SHUFFLE_FILES: Final = "shuffle_*"


def send(process: int, what: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process of this session; for ids 0 and 1 do nothing."""
    if process <= 1:
        return
    with suppress(ProcessLookupError):
        if os.getsid(process) == os.getsid(0):
            os.kill(process, what)


def die() -> None:
    """End this process as a power cut would: no ``finally`` runs, and no buffer is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_with(process: int) -> None:
    """Kill another process, such as the one that runs the job, and then this one."""
    if os.getpid() != process:
        send(process)
    die()


def java_of_this_worker() -> int:
    """Return the id of the Java process that started this worker's parent; 0 if unknown.

    Java starts a daemon process, and the daemon forks the workers.
    """
    from onceproof.harness.systems.process.process_table import parent_of

    return parent_of(os.getppid())


def cut_off() -> None:
    """Close all sockets of this process; their peers see them closed."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/dev/fd"):
        descriptor = int(name)
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def stop_here() -> None:
    """Close this process's connections and stop it, until ``resume`` is called for it."""
    # When Java ends, its child processes get SIGHUP. A process behind a network partition would not get it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    cut_off()
    os.kill(os.getpid(), signal.SIGSTOP)


def resume(process: int) -> bool:
    """Continue a stopped process, and wait for its end. Return whether it ended within ``SECONDS_TO_END``."""
    from onceproof.harness.systems.process.process_table import is_alive, is_in_session

    send(process, signal.SIGCONT)
    deadline = time.monotonic() + SECONDS_TO_END
    while is_in_session(process, os.getsid(0)) and is_alive(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return True


def pause(process: int) -> None:
    """Stop a process."""
    send(process, signal.SIGSTOP)


def move_visible(output: str) -> None:
    """Take the visible files of a job away, as a consumer does."""
    target = Path(f"{output}{CONSUMED}")
    target.mkdir(exist_ok=True)
    for folder in (output, f"{output}{MOVED}"):
        for place, _, names in os.walk(folder):
            for name in names:
                if not name.startswith(HIDDEN):
                    os.rename(Path(place, name), target / name)


def lose_folder(folder: str) -> None:
    """Give a folder another name."""
    os.rename(folder, f"{folder}{LOST}")


def lose_shuffle_files(folder: str) -> int:
    """Delete Spark's shuffle files below a folder. Return the number of deleted files."""
    count = 0
    for path in Path(folder).rglob(_SHUFFLE_FILES) if folder else ():
        with suppress(FileNotFoundError):
            path.unlink()
            count += 1
    return count


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Limit each file of this process to ``size`` bytes: a longer write fails as on a full disk."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
