"""Which processes die of a kill where a job of the local runtime runs in several.

Rules:

- A task dies with its worker, and so do the other tasks of that worker. A kill of all tasks is SIGKILL to
  each worker that runs one; a kill of the process is SIGKILL to the coordinator, and to the worker that
  passed the point, which must not go on without it. The others have to notice.
- A kill with a delay comes at a time of its own, from a thread of the coordinator.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.leaving_functions import leave
from onceproof.harness.systems.process.fault_actions import die_with, lose_folder, move_visible, pause
from onceproof.harness.systems.process.fault_board import BoardState, FaultBoard, Kills
from onceproof.harness.systems.process.strike_requests import strike_server
from onceproof.harness.systems.recording import event_log


@dataclass(frozen=True)
class ProcessKills(Kills):
    """The kills of one process of a job with its workers; ``coordinator`` is its process id."""

    coordinator: int
    strikes: str = ""
    """Where faults of servers are carried out."""
    output: str = ""
    checkpoints: str = ""
    """The folders of the job."""

    def is_late(self, fault: Fault) -> bool:
        """Return whether a kill has a delay."""
        return FAULTS[fault.kind].is_kill and fault.delay > 0

    def can_strike(self, fault: Fault, task: str, state: BoardState) -> bool:
        """Return whether a kill of tasks has a victim."""
        return not FAULTS[fault.kind].kills_tasks or bool(state.victims(fault, task))

    def strike(
        self, board: FaultBoard, fault: Fault, task: str, checkpoint_id: int, state: BoardState
    ) -> Callable[[], None] | None:
        """Kill the workers that run the victims of a kill, or the coordinator; or strike a server."""
        row = FAULTS[fault.kind]
        if row.strikes == "server":
            # Other processes may pass points, while a server takes its time to die.
            return partial(strike_server, self.strikes, fault)
        if row.strikes == "function":
            # The task that passes the point calls it, once the board is free again.
            return partial(leave, fault)
        here = os.getpid()
        if row.strikes == "output":
            move_visible(self.output)
        if row.strikes == "folder":
            lose_folder(self.checkpoints)
        if row.strikes == "worker":
            return None if here == self.coordinator else _pause(board, here, state)
        if row.strikes == "process":
            die_with(self.coordinator)
        if row.kills_tasks:
            processes = {each.process for each in state.victims(fault, task)}
            state.killed = (*state.killed, *processes)
            board.kill(processes, state, event_log.TASK_FAILED)
        return None


def _pause(board: FaultBoard, worker: int, state: BoardState) -> Callable[[], None]:
    """Stop a worker for good, once the board is free again: the coordinator has to notice, and to end it."""
    state.killed = (*state.killed, worker)
    board.record_deaths(
        [each for each in state.living if each.process == worker], state, event_log.TASK_FAILED
    )
    return partial(pause, worker)
