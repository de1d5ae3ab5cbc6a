"""The board of faults of a query under trial, as its processes see it: who dies where, and who with him.

The rules this module lives by:

- The counting is that of `fault_clock.py`, over all processes of a run, as on `fault_board.py`: a file under
  a lock, replaced as a whole. A fault strikes once, and is on the board before anybody dies of it.
- A kill of a task is SIGKILL to the Python process that passes the point; where the driver passes it, the
  query dies of an exception, which Spark takes for a failure of the user's own code. A kill of all is SIGKILL
  to every Python worker. A kill of the process is that of the driver, and of the one that passed the point.
- A query that fails although no fault has struck since it started has failed by itself, unless it ends to go
  on with another number of partitions, as a kill has asked for: its source does that between two batches.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from onceproof.harness.model.faults import FaultKind
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.fault_clock import ClockState, ProcessFaultClock
from onceproof.harness.systems.process.fault_actions import die
from onceproof.harness.systems.process.job_specification import Spec, read_spec
from onceproof.harness.systems.process.process_table import command_of, parent_of, session_members
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.recording.event_logging_driver import log_task_failure

Answer = TypeVar("Answer")

DRIVER: Final = "driver"
_PYTHON_OF_SPARK: Final = "pyspark"
_DAEMON: Final = "pyspark.daemon"


class QueryKilled(Exception):
    """A fault ends the query here, at a point that the driver passes."""


class QueryRescaled(Exception):
    """The query ends here, between two batches, to go on with another number of partitions."""


class OnBoard(msgspec.Struct):
    """What is on the board."""

    waiting: ClockState = ClockState()
    points: dict[str, int] = {}
    """How often each point was passed, by all processes of the run."""
    struck: int = 0
    """How many faults have struck."""
    partitions: int = 0
    """With how many the query runs, or ran last."""
    wanted: int = 0
    """How many the last kill with a rescale asked for; 0 while none has."""

    @property
    def is_rescaling(self) -> bool:
        """Whether the query is to be started again with another number of partitions."""
        return self.wanted not in (0, self.partitions)


class ClosingLog(EventLog):
    """A log that is closed when nobody holds it: workers outlive the jobs they tell of."""

    def __del__(self) -> None:
        os.close(self._descriptor)


class StructuredBoard:
    """The board of one query, seen from one of its processes. ``driver`` is the process id of the driver."""

    def __init__(self, spec: Spec, driver: int, log: EventLog) -> None:
        self.log = log
        self._spec = spec
        self._driver = driver

    def __call__(self, point: str, task: str, checkpoint_id: int) -> None:
        """Pass a point; whoever is to die there dies."""
        self._ask(lambda clock: clock.probe(point, task, checkpoint_id))

    def outside_fault(self, point: str, task: str, checkpoint_id: int) -> FaultKind | None:
        """What the outside does wrong with a commit about to be made, if anything."""
        fault = self._ask(lambda clock: clock.other_at(point, task, checkpoint_id))
        return None if fault is None else fault.kind

    @property
    def struck(self) -> int:
        """How many faults have struck so far."""
        return read_structured_board(self._spec.board).struck

    @property
    def wanted(self) -> int:
        """With how many partitions the query is to go on."""
        return read_structured_board(self._spec.board).wanted or self._spec.parallelism

    def begin(self, partitions: int, refused: bool = False) -> None:
        """The query is about to start with so many partitions; where Spark has refused others, for good."""
        with self._held() as board:
            board.partitions = partitions
            if refused:
                board.wanted = partitions

    def end_to_rescale(self) -> None:
        """Between two batches: end the query where it is to go on with another number of partitions."""
        board = read_structured_board(self._spec.board)
        if board.is_rescaling:
            raise QueryRescaled(f"from {board.partitions} to {board.wanted} partitions")

    def _ask(self, question: Callable[[ProcessFaultClock], Answer]) -> Answer:
        hit: list[tuple[int, Fault, str]] = []
        with self._held() as board:
            clock = ProcessFaultClock(
                self._spec.faults,
                self._spec.in_turn,
                board.waiting,
                lambda number, fault, task: hit.append((number, fault, task)),
            )
            clock.points = board.points
            answer = question(clock)
            board.waiting = clock.state()
            board.struck += len(hit)
            for number, fault, task in hit:
                board.wanted = fault.rescale_to or board.wanted
                self.log.write(
                    event_log.FAULT_STRUCK,
                    number=number,
                    task=task,
                    waiting=board.waiting,
                    points={},
                    read={},
                )
        for _, fault, task in hit:
            self._strike(fault, task)
        return answer

    @contextmanager
    def _held(self) -> Iterator[OnBoard]:
        """The board for this process alone; what it has become is written at the end."""
        path = self._spec.board
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            board = read_structured_board(path)
            yield board
            Path(f"{path}.new").write_bytes(msgspec.json.encode(board))
            os.replace(f"{path}.new", path)
        finally:
            os.close(descriptor)

    def _strike(self, fault: Fault, task: str) -> None:
        if fault.kind == "kill_process":
            if os.getpid() != self._driver:
                _kill(self._driver)
            die()
        if fault.kind in ("kill_task", "kill_all"):
            log_task_failure(self.log, task, "", "killed", injected=True)
            if fault.kind == "kill_all":
                for process in _python_workers(self._driver):
                    _kill(process)
            if os.getpid() != self._driver:
                die()
            raise QueryKilled(f"{fault.kind} at {fault.point}")


def read_structured_board(path: str | Path) -> OnBoard:
    """Return what is on a board; a new one is empty."""
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=OnBoard)
    except FileNotFoundError:
        return OnBoard()


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
    parents = {parent_of(process) for process in members}
    here = (os.getpid(), driver)
    return [
        process
        for process in members
        if process not in here
        and process not in parents
        and _PYTHON_OF_SPARK in _python_command_of(process)
        and not _is_daemon(process)
    ]


def _is_daemon(process: int) -> bool:
    """Whether a process forks workers, though it may have none now; what it has forked bears its name.

    It runs nothing itself, and a driver without one does no work again.
    """
    return _DAEMON in _python_command_of(process) and _DAEMON not in _python_command_of(parent_of(process))


def _python_command_of(process: int) -> str:
    """Return the command of a process; empty for Java, whose command names pyspark's archives as well."""
    words = command_of(process)
    return "" if not words or "java" in words[0] else " ".join(words)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        if os.getsid(process) == os.getsid(0):
            os.kill(process, signal.SIGKILL)
