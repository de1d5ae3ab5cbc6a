"""A Spark driver under trial, seen from outside: a process with its Java and its workers, ready for jobs.

The rules this module lives by:

- A driver takes seconds to start, so it serves one job after another until it is killed; one may be started
  while another still works, because a job whose driver is to die will need it.
- A driver and all that it has started are a session of the operating system. When the driver is dead the rest
  of its session is killed, and what comes next waits until nothing of it is left: what a Java or a worker
  still wrote would be taken for the work of a later incarnation. No other process has that session, so none
  of somebody else's can be hit.
- It speaks in lines: we say which specification is next, it says when it is ready and how a job ended. All
  that it prints goes to a file, and all that it writes for Spark lies in a folder that goes when it ends.
- A driver ends when its parent does: its standard input ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from weakref import finalize

from onceproof.harness.systems.process.incarnations import last_line
from onceproof.harness.systems.process.process_table import session_members

LOCAL_MASTER: Final = "local[2,4]"
"""Tasks run in the driver's own Java, two at a time, and each is tried four times."""
CLUSTER_MASTER: Final = "local-cluster[2,1,1024]"
"""Two executors, each a Java of its own with one core and a gigabyte."""

STANDALONE_MASTER: Final = "standalone"
"""A master and two workers, hosts to Spark, that the driver starts beside itself; speculation is on."""
JAVA_DIED: Final = 70
"""The exit code of a driver that has ended because its Java was killed."""

READY: Final = "ready"
ENDED: Final = "ended"

_LONGEST_FOLDER: Final = 30
"""Spark makes sockets below the folder for temporary files, and their paths must be short."""
_SECONDS_TO_START: Final = 120.0
_SECONDS_TO_DIE: Final = 30.0
_SECONDS_BETWEEN_LOOKS: Final = 0.005


class DriverFailed(Exception):
    """A driver could not be started, or does not die; the message is one line."""


class Answer(NamedTuple):
    """What became of a job."""

    code: int
    """The exit code that the job would have had; where the driver ended with it, that of the driver."""
    in_time: bool


class Driver:
    """One driver process. It starts at once and is ready somewhat later; ``run`` waits for that."""

    def __init__(self, child: str, *arguments: str) -> None:
        """Start the program ``child``, a module, with its folder and further arguments."""
        self.folder = Path(_short_folder())
        """What it writes beside the job's folders, and what it prints."""
        self._said = self.folder / "said"
        self._ready = False
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", child, str(self.folder), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env={**os.environ, "TMPDIR": str(self.folder)},
                start_new_session=True,
            )
        self._finalizer = finalize(self, _finish, self._process, self.folder)

    @property
    def process_id(self) -> int:
        """Of the driver, and of its session."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can take a job."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Return once it can take a job; DriverFailed where it could not start."""
        if self._ready:
            return
        line, _ = self._hear(_SECONDS_TO_START)
        if line != READY:
            said = last_line(self._said)
            self.end()
            raise DriverFailed(f"the driver process did not start: {said}")
        self._ready = True

    def run(self, specification: Path, seconds: float) -> Answer:
        """Let it do a job, for so many seconds at the most; when it dies of it nothing of it is left."""
        self.wait_until_ready()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{specification}\n".encode())
            self._process.stdin.flush()
        line, in_time = self._hear(seconds)
        word, _, code = line.partition(" ")
        if word == ENDED and in_time:
            return Answer(int(code), in_time)
        self._process.wait()
        end_session(self.process_id)
        return Answer(self._process.returncode, in_time)

    def last_words(self) -> str:
        """What it printed last, unless it has ended as it should, and taken that with it."""
        return last_line(self._said) if self._said.exists() else "it ended by itself"

    def end(self) -> None:
        """End the process, all that it has started, and its folder."""
        self._finalizer()

    def _hear(self, seconds: float) -> tuple[str, bool]:
        """Its next line, empty where it died; and whether that came in time."""
        assert self._process.stdout is not None
        timer = threading.Timer(seconds, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            in_time = timer.is_alive()
            timer.cancel()
        return line.decode().strip(), in_time


def _finish(process: subprocess.Popen[bytes], folder: Path) -> None:
    """At the end of this process, too: a driver that serves nobody has nothing to save."""
    process.kill()
    end_session(process.pid)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
    shutil.rmtree(folder, ignore_errors=True)


def _short_folder() -> str:
    here = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="once-", dir=here if len(here) < _LONGEST_FOLDER - 15 else "/tmp")


def end_session(session: int) -> None:
    """Kill every process of a session, and wait until none is left; DriverFailed if one stays."""
    deadline = time.monotonic() + _SECONDS_TO_DIE
    while members := session_members(session):
        for process in members:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise DriverFailed(f"processes {members} of a driver that was killed do not die")
        time.sleep(_SECONDS_BETWEEN_LOOKS)
