"""The board of faults of a query under trial, as its processes see it: who dies where, and who with him.

The rules this module lives by:

- The counting is that of `fault_board.py`; only who dies is another matter. A kill of a task is SIGKILL to
  the Python process that passes the point; where the driver passes it the query dies of an exception, which
  Spark takes for a failure of the user's own code. A kill of all is SIGKILL to every Python worker.
- A kill of the process is that of the driver, and of the one that passed the point.
- A fault strikes once, and is on the board before anybody dies of it: a query that fails although no fault
  has struck since it started has failed by itself.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from harness.scenario import Fault
from harness.systems import event_log
from harness.systems.event_log import EventLog
from harness.systems.failpoints import die
from harness.systems.fault_board import BoardState, FaultBoard
from harness.systems.spark_driver import session_members
from harness.systems.spec import Spec, read_spec
from harness.systems.told import say_failed

DRIVER: Final = "driver"
_PYTHON_OF_SPARK: Final = b"pyspark"


class QueryKilled(Exception):
    """A fault ends the query here, at a point that the driver passes."""


class ClosingLog(EventLog):
    """A log that is closed when nobody holds it: workers outlive the jobs they tell of."""

    def __del__(self) -> None:
        os.close(self._descriptor)


class StructuredBoard(FaultBoard):
    """The board of one query, seen from one of its processes."""

    def __init__(self, spec: Spec, driver: int, log: EventLog) -> None:
        super().__init__(spec.board, spec.faults, spec.in_turn, driver, log)
        self._doomed = ""

    def __call__(self, point: str, task: str, checkpoint_id: int) -> None:
        """Pass a point; whoever is to die there dies."""
        super().__call__(point, task, checkpoint_id)
        if self._doomed:
            doomed, self._doomed = self._doomed, ""
            raise QueryKilled(doomed)

    @property
    def struck(self) -> int:
        """How many faults have struck so far."""
        return self.state().deaths

    def _can_strike(self, fault: Fault, task: str, state: BoardState) -> bool:
        return True

    def _strike(self, number: int, fault: Fault, task: str, state: BoardState) -> None:
        state.deaths += 1
        self.log.say(
            event_log.FAULT_STRUCK,
            number=number,
            task=task,
            waiting=state.waiting,
            points={},
            read=dict(self.reading()),
        )
        self._write(state)
        if fault.kind == "kill_process":
            if os.getpid() != self._driver:
                _kill(self._driver)
            die()
        if fault.kind in ("kill_task", "kill_all"):
            say_failed(self.log, task, "", "killed", injected=True)
            if fault.kind == "kill_all":
                for process in _python_workers(self._driver):
                    _kill(process)
            if os.getpid() != self._driver:
                die()
            self._doomed = f"{fault.kind} at {fault.point}"


def board_of(path: str, driver: int) -> tuple[Spec, StructuredBoard]:
    """Return the specification in a file and the board that goes with it, in a process other than the driver.

    What the process had of another job is let go.
    """
    return _board_of(path, driver, os.getpid())


@lru_cache(maxsize=1)
def _board_of(path: str, driver: int, process: int) -> tuple[Spec, StructuredBoard]:
    spec = read_spec(path)
    return spec, StructuredBoard(spec, driver, ClosingLog(f"{spec.events}.{process}"))


def _python_workers(driver: int) -> list[int]:
    """All in which Spark runs Python for this driver, but for this process and those that fork others."""
    members = session_members(os.getsid(driver))
    parents = {_parent_of(process) for process in members}
    here = (os.getpid(), driver)
    return [
        process
        for process in members
        if process not in here and process not in parents and _PYTHON_OF_SPARK in _command_of(process)
    ]


def _parent_of(process: int) -> int:
    try:
        return int(Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def _command_of(process: int) -> bytes:
    try:
        words = Path("/proc", str(process), "cmdline").read_bytes().split(b"\0")
    except OSError:
        return b""
    # Java has pyspark in its command as well, among the archives that it loads.
    return b"" if b"java" in words[0] else b" ".join(words)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        if os.getsid(process) == os.getsid(0):
            os.kill(process, signal.SIGKILL)
