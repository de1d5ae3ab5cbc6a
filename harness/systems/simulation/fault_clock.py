"""When the faults of a scenario strike.

A fault waits at its point for its turn (``occurrence``); then it strikes at once or some steps later. What
can be wrong with a message, a write or a commit is asked for by whoever is about to make it; kills are raised
from the probe that a machine calls as it passes a point. A kill derives from BaseException, so that no
``except Exception`` of a user's function or of the engine can survive its own death.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from onceproof.harness.model.faults import KILLS
from onceproof.harness.model.scenario import ANY_TASK, Fault, Operation


class ProcessKilled(BaseException):
    """The whole process dies here: the job master and all tasks."""


class MasterKilled(BaseException):
    """The job master dies here; its tasks outlive it."""


Wanted = TypeVar("Wanted", Fault, Operation)


class WaitingFault(Generic[Wanted]):
    """A fault that has not struck yet, or a request not made yet, and how many passes it still lets by."""

    __slots__ = ("fault", "left")

    def __init__(self, fault: Wanted) -> None:
        self.fault: Wanted = fault
        self.left = fault.occurrence

    def is_hit(self, task: str, checkpoint_id: int) -> bool:
        """Count one pass of the point; whether it is the fault's turn."""
        fault = self.fault
        if fault.task not in (ANY_TASK, task) or fault.checkpoint not in (0, checkpoint_id):
            return False
        self.left -= 1
        return self.left == 0


class Faults:
    """The faults of one scenario, by the point at which they wait.

    ``kills`` and ``others`` have a key for exactly those points at which something still waits: whoever
    passes a point looks there first.
    """

    __slots__ = ("kills", "others")

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        self.kills: dict[str, list[WaitingFault[Fault]]] = {}
        self.others: dict[str, list[WaitingFault[Fault]]] = {}
        for fault in faults:
            board = self.kills if fault.kind in KILLS else self.others
            board.setdefault(fault.point, []).append(WaitingFault(fault))

    def kill_at(self, point: str, task: str, checkpoint_id: int) -> Fault | None:
        """The kill whose turn it is as ``task`` passes ``point``, if any."""
        return self._hit(self.kills, point, task, checkpoint_id)

    def other_at(self, point: str, task: str, checkpoint_id: int) -> Fault | None:
        """What is wrong with the message, write or commit at ``point``, if anything."""
        return self._hit(self.others, point, task, checkpoint_id)

    def _hit(
        self, board: dict[str, list[WaitingFault[Fault]]], point: str, task: str, checkpoint_id: int
    ) -> Fault | None:
        waiting = board.get(point)
        if waiting is None:
            return None
        for position, each in enumerate(waiting):
            if each.is_hit(task, checkpoint_id):
                del waiting[position]
                if not waiting:
                    del board[point]
                return each.fault
        return None
