"""The working folder of Spark, and interrupts while it answers.

Rules:

- The process decides what a signal does. pyspark sets a handler of its own, which is taken back.
- py4j logs the traceback of an interrupt and passes it on; the log is left out, the interrupt is not.
- A launch that is interrupted leaves no Java, although pyspark gives no handle of it.
"""

from __future__ import annotations

import logging
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from onceproof.engine.file_locks import release_lock
from onceproof.engine.runtime.spark_class_archive import link_home
from onceproof.engine.temporary_folders import mark_as_owned, remove_abandoned

# A Unix socket's path holds about a hundred characters, and Spark appends some forty to the folder.
_LONGEST_FOLDER = 55

_FOLDER_PREFIX = "onceproof-spark-"
_JAVA = "java"
"""The file in a session's folder with the process id of its Java and the time of its start."""


class SessionFolder:
    """The folder of a session, with a SPARK_HOME of links in it so that Spark writes beside them.

    Spark puts the working folders of executors into its home, which for pyspark is the installed package.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark = mark_as_owned(str(path))

    @classmethod
    def make(cls) -> SessionFolder:
        """Make a folder, and remove those of dead processes beside it."""
        here = tempfile.gettempdir()
        base = here if len(here) < _LONGEST_FOLDER - 25 else "/tmp"
        remove_abandoned(base, _FOLDER_PREFIX, _has_living_java)
        folder = cls(Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=base)))
        link_home(folder.path)
        for part in ("local", "warehouse"):
            (folder.path / part).mkdir()
        return folder

    def note_java(self, pid: int) -> None:
        """Note the process that uses the folder beside this one, and ends a moment later if this one dies."""
        with suppress(psutil.Error):
            (self.path / _JAVA).write_text(f"{pid} {psutil.Process(pid).create_time()}")

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        release_lock(self._mark)


def _has_living_java(folder: str) -> bool:
    try:
        pid, started = Path(folder, _JAVA).read_text().split()
        return abs(psutil.Process(int(pid)).create_time() - float(started)) < 1
    except (OSError, ValueError, psutil.Error):
        return False


_SECONDS_TO_EXIT: Final = 10


def kill_launched(folder: Path) -> None:
    """Kill the Java of a launch that was interrupted, of which pyspark gives no handle.

    Its main thread fails, because pyspark has removed the folder in which it answers, and its others wait.
    """
    with suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if any(str(folder) in word for word in child.cmdline()):
                    child.kill()
                    child.wait(_SECONDS_TO_EXIT)


_LOGGED_AND_RAISED = ("KeyboardInterrupt while sending command.", "Exception while sending command.")


def is_not_raised_as_well(record: logging.LogRecord) -> bool:
    """Return False for a traceback that py4j logs before it raises the same exception.

    Without the filter a Ctrl-C, or a Java that dies, prints a page to standard error.
    """
    return record.msg not in _LOGGED_AND_RAISED


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Keep what this process does at Ctrl-C: pyspark sets a handler of its own, which asks Java first.

    A second Ctrl-C would come while that one waits for an answer, and end in a traceback of py4j.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
