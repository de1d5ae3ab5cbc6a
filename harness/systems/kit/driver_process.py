"""Starts and controls a driver under test: a process that runs jobs in processes which it starts.

Rules:

- A driver takes seconds to start, so it runs one job after another until it is killed. The next driver may
  start while the current one works.
- A driver and its child processes form one operating system session. After the driver's death the rest of the
  session is killed, and the next incarnation waits until no process of it is left; otherwise late writes of
  its Java or its workers would count for that incarnation. No other process belongs to the session.
- The protocol is lines: the parent writes the path of a specification; the driver writes when it is ready,
  and the exit code of each job. Its output goes to a log, its temporary files to a folder that is deleted at
  its end.
- A driver ends when its standard input ends, that is with its parent.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from weakref import finalize

from onceproof.harness.systems.kit.incarnations import last_line
from onceproof.harness.systems.process.process_table import end_session

JAVA_DIED: Final = 70
"""Exit code of a driver whose Java was killed."""

READY: Final = "ready"
ENDED: Final = "ended"

_LONGEST_FOLDER: Final = 30
"""Spark makes sockets below the folder for temporary files, and paths of sockets must be short."""
_SECONDS_TO_START: Final = 240.0


class DriverFailed(Exception):
    """A driver did not start, or its processes do not die; the message is one line."""


class Answer(NamedTuple):
    """The result of a job on a driver."""

    code: int
    """Exit code of the job; of the driver if that died."""
    in_time: bool


class Driver:
    """One driver process. The constructor starts it; ``run`` waits until it is ready."""

    def __init__(self, child: str, *arguments: str) -> None:
        """Start the module ``child`` with its folder and further arguments."""
        self.folder = Path(_short_folder())
        """The driver's log and temporary files."""
        self._log = self.folder / "log"
        self._ready = False
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                # -P: a json.py in the working directory must not stand in for Python's.
                [sys.executable, "-P", "-m", child, str(self.folder), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "TMPDIR": str(self.folder)},
                start_new_session=True,
            )
        self._finalizer = finalize(self, _finish, self._process, self.folder)

    @property
    def process_id(self) -> int:
        """Process id of the driver, which is also its session id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until the driver can take a job. Raises DriverFailed if it does not start."""
        if self._ready:
            return
        line, _ = self._read_line(_SECONDS_TO_START)
        if line != READY:
            reason = last_line(self._log)
            self.end()
            raise DriverFailed(f"the driver process did not start: {reason}")
        self._ready = True

    def run(self, specification: Path, seconds: float) -> Answer:
        """Run the job of a specification file for at most ``seconds``.

        If the driver dies, all processes of its session are dead when this method returns.
        """
        self.wait_until_ready()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{specification}\n".encode())
            self._process.stdin.flush()
        line, in_time = self._read_line(seconds)
        word, _, code = line.partition(" ")
        if word == ENDED and in_time:
            return Answer(int(code), in_time)
        self._process.wait()
        end_session(self.process_id)
        return Answer(self._process.returncode, in_time)

    def last_words(self) -> str:
        """Return the last line of the driver's log; a driver that ended normally has deleted it."""
        return last_line(self._log) if self._log.exists() else "it ended by itself"

    def end(self) -> None:
        """Kill the process and its session, and delete its folder."""
        self._finalizer()

    def _read_line(self, seconds: float) -> tuple[str, bool]:
        """Return the driver's next line, empty if it died, and whether it came within ``seconds``."""
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
    """Kill a driver and delete its folder; also runs at the end of this process."""
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
