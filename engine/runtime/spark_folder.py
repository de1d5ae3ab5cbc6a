"""The folder of a Spark session, which goes with it, or with the next start if the process was killed."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

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
