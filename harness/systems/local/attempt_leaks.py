"""What dead attempts leave in a process of the local runtime.

Rules:

- What belongs to an attempt ends with it: its tasks and their timers, snapshots that wait to be stored,
  threads, open files, databases. A write that has begun is finished, and holds its task until then.
- The search comes when the next attempt has completed a checkpoint, and when the job has finished: by then
  such a write is over, and no frame of the loop holds a dead task.
- What is open, or runs, before the first attempt belongs to the process. So do the one thread that writes,
  and the locks on the folders for databases, which the first database of the process takes.
- Garbage is collected first: a task that was killed has closed nothing, and its files close as it is freed. A
  thread that works for it, such as one that waits for the answer of a server, ends a moment later.
- The next attempt may open a file anew under the number that a dead one's had. So a descriptor is left only
  if no file object has it, or one that was there before the attempt began.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from io import FileIO
from typing import Final, NamedTuple
from weakref import WeakSet

from onceproof.engine.messages import AttemptId
from onceproof.engine.state.rocksdb.working_folders import WorkingFolders
from onceproof.engine.task.task import Task

WRITER: Final = "checkpoint-writer"
TASK: Final = "task of a dead attempt"
THREAD: Final = "thread of a dead attempt"
OPEN_FILE: Final = "open file of a dead attempt"
TIMER: Final = "timer of a dead attempt"
SNAPSHOT: Final = "waiting snapshot of a dead attempt"
VOID_SNAPSHOT: Final = "waiting snapshot of an aborted checkpoint"
_SECONDS_TO_END: Final = 10.0
_DESCRIPTORS: Final = "/proc/self/fd"


class Left(NamedTuple):
    """Something that a dead attempt has left behind."""

    what: str
    name: str


class AttemptLeaks:
    """Searches one process for what its dead attempts have left."""

    def __init__(self, outside: str) -> None:
        """Note what is open. Files whose path begins with ``outside`` belong to the external system."""
        self._outside = outside
        self._of_process = open_files()
        self._tasks = {id(each): each for each in _tasks()}
        """The tasks of other jobs, if this process has run some; kept, so that their ids stay theirs."""
        self._threads = set(threading.enumerate())
        self._opened: set[tuple[int, str]] = set()
        self._objects: WeakSet[FileIO] = WeakSet()
        """The open files of Python as the attempt began."""
        self._started: set[threading.Thread] = set()
        self._attempts = 0
        self._is_due = False

    def attempt_begins(self) -> None:
        """Note what is open and runs, now that the earlier attempts have ended."""
        self._attempts += 1
        self._opened = open_files() - self._of_process
        self._objects = WeakSet(_file_objects())
        self._started = set(threading.enumerate()) - self._threads
        self._is_due = self._attempts > 1

    def job_ended(self) -> None:
        """Let the search come once more."""
        self._is_due = self._attempts > 1

    def search(self, current: AttemptId) -> list[Left]:
        """Return what attempts before the ``current`` one have left, once after each beginning or end."""
        if not self._is_due:
            return []
        self._is_due = False
        gc.collect()
        deadline = time.monotonic() + _SECONDS_TO_END
        tasks = {
            f"{each.name} of attempt {each.attempt}"
            for each in _tasks()
            if each.attempt != current and id(each) not in self._tasks
        }
        reopened = {each.fileno() for each in _file_objects() if each not in self._objects}
        locks = {os.path.realpath(each) for each in WorkingFolders.marks()}
        living = [thread.name for thread in self._started if not _ends_soon(thread, deadline)]
        if WRITER in living:
            living.remove(WRITER)
        return [
            *[Left(TASK, name) for name in sorted(tasks)],
            *[
                Left(OPEN_FILE, path)
                for number, path in sorted(self._opened & open_files())
                if number not in reopened and path not in locks and not path.startswith(self._outside)
            ],
            *[Left(THREAD, name) for name in sorted(living)],
        ]


def _ends_soon(thread: threading.Thread, deadline: float) -> bool:
    """Return whether a thread is over by then; one that writes checkpoints stays, and is not waited for."""
    if thread.name != WRITER:
        thread.join(max(0.0, deadline - time.monotonic()))
    return not thread.is_alive()


def _tasks() -> list[Task]:
    return [each for each in gc.get_objects() if issubclass(type(each), Task)]


def _file_objects() -> list[FileIO]:
    return [each for each in gc.get_objects() if issubclass(type(each), FileIO) and not each.closed]


def open_files() -> set[tuple[int, str]]:
    """Return the open files of this process with their descriptors, as far as the system lists them."""
    found: set[tuple[int, str]] = set()
    try:
        descriptors = os.listdir(_DESCRIPTORS)
    except OSError:
        return found
    for each in descriptors:
        try:
            path = os.readlink(f"{_DESCRIPTORS}/{each}")
        except OSError:
            # The descriptor of the listing itself.
            continue
        if path.startswith("/"):
            found.add((int(each), path))
    return found
