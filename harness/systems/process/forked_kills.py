"""Which worker processes die of a kill, where a driver of the harness forks them: Bytewax and Quix.

Rules:

- A kill of a task is SIGKILL to the process of the worker that passes the point. Workers of one process are
  threads, and die together. Any other kill is SIGKILL to all worker processes.
- The driver that starts them lives on: it is the harness's, and waits for them.
- Kills strike at their point.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.process.fault_actions import die, send
from onceproof.harness.systems.process.fault_board import BoardState, FaultBoard
from onceproof.harness.systems.recording import event_log


@dataclass(frozen=True)
class ForkedKills:
    """The kills of the workers of one job."""

    def passing(self, board: FaultBoard, point: str, checkpoint_id: int) -> None:
        """Do nothing: no worker is ever stopped."""

    def is_late(self, fault: Fault) -> bool:
        """Return False: every kill strikes at its point."""
        return False

    def can_strike(self, fault: Fault, task: str, state: BoardState) -> bool:
        """Return True: the process that passes a point can always die there."""
        return True

    def parallelism_after(self, fault: Fault) -> int:
        """Return 0: all processes end, and the next ones start in another number."""
        return 0

    def strike(
        self, board: FaultBoard, fault: Fault, task: str, checkpoint_id: int, state: BoardState
    ) -> Callable[[], None] | None:
        """Kill the process of the worker that passes the point, or all of them."""
        row = FAULTS[fault.kind]
        if not row.is_kill:
            return None
        here = os.getpid()
        dies_alone = row.kills_tasks and row.victims == "passing"
        dead = [each for each in state.living if not dies_alone or each.process == here]
        board.record_deaths(dead, state, event_log.TASK_FAILED)
        for process in sorted({each.process for each in dead} - {here}):
            send(process)
        die()
        return None
