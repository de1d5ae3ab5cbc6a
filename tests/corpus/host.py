"""Runs programs of the corpus, each life of one in a process that is forked from this one.

Rules:

- This process imports the engine once, and reads one request a line: a `Life` as JSON. It answers with a line
  when the process of that life has ended.
- A program is run as `onceproof job run` runs one: as a script, with options over those that it sets, and its
  imports of `pyflink` find the engine.
- A life that is to be killed reads one record at a time. After ``RECORDS_BEFORE`` records its sources wait
  until a checkpoint is complete, then they read ``RECORDS_AFTER`` more, and then the process kills itself. So
  the kill strikes between two checkpoints, however slow the machine is.
- A life that is to fail does the same without a checkpoint, and raises an error once instead.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from onceproof.engine.api.submission import submitted
from onceproof.engine.configuration import Configuration
from onceproof.engine.operators.source import SourceOperator
from onceproof.harness.scripts.pyflink_imports import pyflink_imports
from tests.patience import PATIENCE_SECONDS

RECORDS_BEFORE: Final = 3
RECORDS_AFTER: Final = 2
RUN, KILL, FAIL = "run", "kill", "fail"


@dataclass(frozen=True)
class Life:
    """One run of a program."""

    program: str
    arguments: list[str]
    checkpoints: str
    """The folder of its checkpoints, which its lives share."""
    output: str
    """The file of what it prints, to which each life appends."""
    errors: str
    end: str
    """The program is interrupted when this file is there, if it does not end by itself."""
    way: str = RUN
    options: dict[str, str] = field(default_factory=dict)

    def request(self) -> str:
        """Return the line that asks for this life."""
        return json.dumps(asdict(self))


class Trouble:
    """Strikes once, a little after a checkpoint or, without checkpoints, after some records."""

    def __init__(self, checkpoints: Path, strike: Callable[[], None], needs_checkpoint: bool) -> None:
        self._checkpoints = checkpoints
        self._strike = strike
        self._needs_checkpoint = needs_checkpoint
        self._read = 0
        self._has_struck = False

    def plan(self) -> None:
        """Let all sources of this process read with this trouble."""
        poll = SourceOperator.poll

        def read_one(operator: SourceOperator, limit: int) -> list[Any]:
            if self._has_struck:
                return poll(operator, limit)
            if self._read == RECORDS_BEFORE and self._needs_checkpoint and not self._is_complete():
                operator.waits = True
                return []
            if self._read >= RECORDS_BEFORE + RECORDS_AFTER:
                self._has_struck = True
                self._strike()
            records = poll(operator, 1)
            self._read += len(records)
            return records

        SourceOperator.poll = read_one  # type: ignore[method-assign]

    def _is_complete(self) -> bool:
        return any(self._checkpoints.rglob("_metadata"))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fail() -> None:
    raise ConnectionError("the input is gone for a moment")


def _interrupt_at(end: Path) -> None:
    while not end.exists():
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)


def live(life: Life) -> None:
    """Run the program in this process."""
    for stream, path in ((1, life.output), (2, life.errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), stream)
    checkpoints = Path(life.checkpoints)
    match life.way:
        case "kill":
            Trouble(checkpoints, _die, needs_checkpoint=True).plan()
        case "fail":
            Trouble(checkpoints, _fail, needs_checkpoint=False).plan()
    threading.Thread(target=_interrupt_at, args=[Path(life.end)], daemon=True).start()
    options = Configuration.from_mapping(life.options)
    sys.argv = [life.program, *life.arguments]
    with pyflink_imports(), submitted(Configuration(), lambda graph: None, life.program, options):
        runpy.run_path(life.program, run_name="__main__")


def serve() -> None:
    """Answer requests until there are no more."""
    for line in sys.stdin:
        life = Life(**json.loads(line))
        process = os.fork()
        if process == 0:
            status = 1
            try:
                live(life)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        print(_status_of(process), flush=True)


def _status_of(process: int) -> int:
    """Return the exit code of a process as `subprocess` does, that of a killed one as minus its signal."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(process, signal.SIGTERM)
    os.waitpid(process, 0)
    return -signal.SIGALRM


if __name__ == "__main__":
    serve()
