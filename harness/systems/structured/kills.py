"""Which processes of a query under trial die of a kill, and what its board has beside the faults.

The rules this module lives by:

- A kill of a task is SIGKILL to the Python process that passes the point. Where the driver passes it, the
  query dies of an exception, which Spark takes for a failure of the user's own code. A kill of all tasks is
  SIGKILL to every Python worker. A kill of the process is SIGKILL to the driver, and to the process that
  passed the point.
- A query that fails although no fault has struck since it started has failed by itself, unless it ends to go
  on with another number of partitions, as a kill has asked for: its source does that between two batches.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.process.fault_actions import die, die_with, send
from onceproof.harness.systems.process.fault_board import BoardState, FaultBoard, Kills
from onceproof.harness.systems.process.job_specification import Spec, read_spec
from onceproof.harness.systems.process.process_table import command_of, parent_of, session_members
from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.recording.event_logging_driver import log_task_failure

DRIVER: Final = "driver"
_PYTHON_OF_SPARK: Final = "pyspark"
_DAEMON: Final = "pyspark.daemon"


class QueryKilled(Exception):
    """A fault ends the query here, at a point that the driver passes."""


class QueryRescaled(Exception):
    """The query ends here, between two batches, to go on with another number of partitions."""


class ClosingLog(EventLog):
    """A log that is closed with its last reference: workers outlive the jobs whose events they log."""

    def __del__(self) -> None:
        os.close(self._descriptor)


@dataclass(frozen=True)
class QueryKills(Kills):
    """The kills of one query. ``driver`` is the process id of the driver."""

    driver: int

    def parallelism_after(self, fault: Fault) -> int:
        """Return the number of partitions that the query is to go on with."""
        return fault.rescale_to

    def strike(
        self, board: FaultBoard, fault: Fault, task: str, checkpoint_id: int, state: BoardState
    ) -> Callable[[], None] | None:
        """Kill one Python worker, all of them, or the driver: once the lock is released."""
        row = FAULTS[fault.kind]
        if row.strikes == "process":
            return self._kill_driver
        return (lambda: self._kill_tasks(board, fault, task)) if row.kills_tasks else None

    def _kill_driver(self) -> None:
        die_with(self.driver)

    def _kill_tasks(self, board: FaultBoard, fault: Fault, task: str) -> None:
        log_task_failure(board.log, task, "", "killed", injected=True)
        # The subtasks of all vertices share the workers, so whatever hits more than this task hits them all.
        if FAULTS[fault.kind].victims != "passing":
            for process in _python_workers(self.driver):
                send(process)
        if os.getpid() != self.driver:
            die()
        raise QueryKilled(f"{fault.kind} at {fault.point}")


def query_board(spec: Spec, driver: int, log: EventLog) -> FaultBoard:
    """Return the board of a query, in the process that has the log."""
    return FaultBoard(spec.board, spec.faults, spec.in_turn, log, QueryKills(driver))


def begin_query(board: FaultBoard, partitions: int, refused: bool = False) -> None:
    """Note with how many partitions a query starts; ``refused`` where Spark cannot run it with others."""
    with board.held() as state:
        state.partitions = partitions
        if refused:
            state.parallelism = partitions


def wanted_partitions(board: FaultBoard, spec: Spec) -> int:
    """Return with how many partitions a query is to go on."""
    return board.state().parallelism or spec.parallelism


def end_to_rescale(board: FaultBoard) -> None:
    """Raise QueryRescaled, between two batches, where the query is to go on with other partitions."""
    state = board.state()
    if state.parallelism not in (0, state.partitions):
        raise QueryRescaled(f"from {state.partitions} to {state.parallelism} partitions")


def board_of(path: str, driver: int) -> tuple[Spec, FaultBoard]:
    """Return the specification in a file and the board that goes with it, in a process other than the driver.

    What the process had of an earlier job is released.
    """
    return _board_of(path, driver, os.getpid())


@lru_cache(maxsize=1)
def _board_of(path: str, driver: int, process: int) -> tuple[Spec, FaultBoard]:
    spec = read_spec(path)
    return spec, query_board(spec, driver, ClosingLog(f"{spec.events}.{process}"))


def _python_workers(driver: int) -> list[int]:
    """Return the other processes in which Spark runs Python for this driver, without those that fork."""
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
    """Return whether a process forks workers, though it may have none now; a worker bears the same name.

    It runs no task itself, and a driver without it starts no worker again.
    """
    return _DAEMON in _python_command_of(process) and _DAEMON not in _python_command_of(parent_of(process))


def _python_command_of(process: int) -> str:
    """Return the command of a process; empty for Java, whose command names pyspark's archives as well."""
    words = command_of(process)
    return "" if not words or "java" in words[0] else " ".join(words)
