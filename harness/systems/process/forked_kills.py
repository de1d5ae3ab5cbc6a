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
from onceproof.harness.systems.process.fault_board import BoardState, FaultBoard, Kills
from onceproof.harness.systems.recording import event_log


@dataclass(frozen=True)
class ForkedKills(Kills):
    """The kills of the workers of one job."""

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
        processes = {os.getpid()}
        if not row.kills_tasks or row.victims != "passing":
            processes.update([each.process for each in state.living])
        board.kill(processes, state, event_log.TASK_FAILED)
        return None
