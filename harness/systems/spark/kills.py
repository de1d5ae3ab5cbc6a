"""Which processes of the engine on Spark die of a kill, and by which means.

Rules:

- A kill of a task is SIGKILL to the worker process in which it runs, a kill of all tasks to each worker that
  runs one. A kill of the process is SIGKILL to the driver, and to the worker that passed the point, which
  must not go on without it.
- Workers die where tasks run. At a point that the driver passes no worker runs a task, so kills of tasks do
  not count passes there.
- A worker that is stopped (a zombie) counts as dead. It goes on once a checkpoint is complete without it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from onceproof.harness.model.fault_kinds import Means, Point
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.process.fault_actions import (
    SLOW_SECONDS,
    die_with,
    lose_shuffle_files,
    resume,
    send,
    stop_here,
)
from onceproof.harness.systems.process.fault_board import (
    BoardState,
    FaultBoard,
    Kills,
    LivingTask,
    StoppedTask,
)
from onceproof.harness.systems.recording import event_log

STRIKE_HERE: Final[tuple[Means, ...]] = ("zombie", "slow")
"""What a process can only do to itself, and so at no other time."""
RELEASED_AT: Final[Point] = "completed"
"""Where the driver lets the stopped workers go on that the checkpoint did not need."""


@dataclass(frozen=True)
class WorkerKills(Kills):
    """The kills of one run on Spark.

    ``driver`` is the process id of the driver, ``java`` that of its Java. Below the folder ``scratch`` Spark
    keeps what goes from stage to stage.
    """

    driver: int
    java: int = 0
    scratch: str = ""

    def passing(self, board: FaultBoard, point: str, checkpoint_id: int) -> None:
        """Let stopped workers go on where the driver completes a checkpoint."""
        if point == RELEASED_AT and os.getpid() == self.driver:
            release(board, checkpoint_id)

    def is_late(self, fault: Fault) -> bool:
        """Return whether a kill has a delay, and is not one that a process does to itself."""
        return FAULTS[fault.kind].is_kill and fault.delay > 0 and fault.means not in STRIKE_HERE

    def can_strike(self, fault: Fault, task: str, state: BoardState) -> bool:
        """Return whether a kill of tasks has a victim; the driver passes its points between two epochs."""
        if not FAULTS[fault.kind].kills_tasks:
            return True
        if os.getpid() == self.driver:
            return False
        victims = _victims(fault, task, state)
        if fault.means in STRIKE_HERE:
            return any(each.process == os.getpid() for each in victims)
        return bool(victims)

    def strike(
        self, board: FaultBoard, fault: Fault, task: str, checkpoint_id: int, state: BoardState
    ) -> Callable[[], None] | None:
        """Kill the workers in which the victims of a kill run, or the driver."""
        row = FAULTS[fault.kind]
        if row.strikes == "process":
            self._kill_driver(board, fault.means, state)
            return None
        if not row.kills_tasks:
            return None
        victims = _victims(fault, task, state)
        match fault.means:
            case "slow":
                # No task dies: Spark takes the result of the attempt that ends first.
                return lambda: time.sleep(SLOW_SECONDS)
            case "zombie":
                _stop(board, victims, checkpoint_id, state)
                return stop_here
            case means:
                self._kill_workers(board, means, victims, state)
                return None

    def _kill_driver(self, board: FaultBoard, means: Means, state: BoardState) -> None:
        if means == "java":
            state.java_is_dead = True
            state.deaths += 1
            board.write(state)
            send(self.java)
            return
        die_with(self.driver)

    def _kill_workers(
        self, board: FaultBoard, means: Means, victims: list[LivingTask], state: BoardState
    ) -> None:
        # The rest of a process dies with one of its tasks.
        processes = {each.process for each in victims}
        if means == "executor":
            board.record_deaths([each for each in state.living if each.process in processes], state)
            for java in sorted({each.java for each in victims}):
                send(java)
            return
        if means == "shuffle":
            lose_shuffle_files(self.scratch)
        board.kill(processes, state)


def release(board: FaultBoard, checkpoint_id: int) -> None:
    """Let stopped workers go on, now that a checkpoint is complete without them, and wait for their end.

    What they leave behind is there then, before the next checkpoint is begun.
    """
    for each in board.state().stopped:
        if each.checkpoint > checkpoint_id:
            continue
        ended = resume(each.process)
        board.log.write(event_log.ZOMBIE_RELEASED, attempt=each.attempt, ended=ended)
        with board.held() as state:
            state.stopped = tuple(other for other in state.stopped if other != each)


def _stop(board: FaultBoard, victims: list[LivingTask], checkpoint_id: int, state: BoardState) -> None:
    """Note that the tasks of this process are dead to the job; the process stops itself without the lock."""
    here = [each for each in victims if each.process == os.getpid()]
    stopped = [StoppedTask(each.process, each.attempt, checkpoint_id) for each in here]
    state.stopped = (*state.stopped, *stopped)
    board.record_deaths(here, state)


def _victims(fault: Fault, task: str, state: BoardState) -> list[LivingTask]:
    victims = state.victims(fault, task)
    if fault.means == "executor":
        javas = {each.java for each in victims}
        victims = [each for each in state.living if each.java in javas]
    return victims
