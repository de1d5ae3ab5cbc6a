"""Where a real process is told to die, and how it is told.

The rules this module lives by:

- The faults are the scenario's, and so is their counting: the n-th pass of a point by a task that matches,
  over the deaths of processes. Nobody counts steps here, so ``after`` counts further passes of any point.
- The one who dies says so first, and how far the other faults have come: the next process needs it.
- SIGKILL is sent by the process to itself: nothing of it runs on, no ``finally`` and no buffer is flushed.
- A task dies by an exception that no ``except Exception`` survives, as in the simulation.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from onceproof.harness.model.faults import KILLS, FaultKind
from onceproof.harness.model.scenario import ANY_TASK, Fault
from onceproof.harness.systems.process.job_specification import WaitingState


def _always(fault: Fault, task: str) -> bool:
    return True


class Failpoints:
    """The faults of one run, as far as they have not struck.

    ``strike`` is told which fault strikes, its number, and the task it was hit by; it raises Killed where the
    task that is running dies. ``can_strike`` says whether a fault can hit that task here and now: a pass at
    which it cannot does not count, and one that was to strike later waits for a pass at which it can.
    """

    def __init__(
        self,
        faults: tuple[Fault, ...],
        in_turn: bool,
        waiting: WaitingState,
        strike: Callable[[int, Fault, str], None],
        can_strike: Callable[[Fault, str], bool] = _always,
    ) -> None:
        self.points: dict[str, int] = {}
        self._faults = faults
        self._in_turn = in_turn
        self._strike = strike
        self._can_strike = can_strike
        self._left = list(waiting.left) or [fault.occurrence for fault in faults]
        self._striking = list(waiting.striking)
        self._armed: dict[str, list[int]] = {}
        self._arm()

    def _arm(self) -> None:
        """Sort those that wait by their point: whoever passes a point looks there first."""
        self._armed = {}
        waiting = [number for number, left in enumerate(self._left) if left]
        if self._in_turn:
            waiting = [] if self._striking else waiting[:1]
        for number in waiting:
            self._armed.setdefault(self._faults[number].point, []).append(number)

    def state(self) -> WaitingState:
        """How far all faults have come."""
        return WaitingState(tuple(self._left), tuple(self._striking))

    def probe(self, point: str, task: str, checkpoint_id: int) -> None:
        """A machine passes a point; whoever is to die there dies."""
        self.points[point] = self.points.get(point, 0) + 1
        if self._striking:
            self._count_down()
        if point in self._armed:
            number = self._hit(point, task, checkpoint_id, kills=True)
            if number is not None:
                self._strike_or_wait(number, task)

    def commit_fault(self, task: str) -> FaultKind | None:
        """What is wrong with the commit about to be made, if anything."""
        return self.outside_fault("committing", task, 0)

    def outside_fault(self, point: str, task: str, checkpoint_id: int) -> FaultKind | None:
        """What the outside does wrong with a commit or a write about to be made at a point, if anything."""
        if point not in self._armed:
            return None
        number = self._hit(point, task, checkpoint_id, kills=False)
        if number is None:
            return None
        self._arm()
        self._strike(number, self._faults[number], task)
        return self._faults[number].kind

    def _hit(self, point: str, task: str, checkpoint_id: int, kills: bool) -> int | None:
        """Count one pass for each fault that matches; the number of the one whose turn it is, if any."""
        for number in self._armed[point]:
            fault = self._faults[number]
            if (fault.kind in KILLS) is not kills:
                continue
            if fault.task not in (ANY_TASK, task) or fault.checkpoint not in (0, checkpoint_id):
                continue
            if not self._can_strike(fault, task):
                continue
            self._left[number] -= 1
            if self._left[number] == 0:
                return number
        return None

    def _strike_or_wait(self, number: int, task: str) -> None:
        fault = self._faults[number]
        if fault.after:
            self._striking.append((number, task, fault.after))
            self._arm()
            return
        self._arm()
        self._strike(number, fault, task)

    def _count_down(self) -> None:
        """One at a time: who dies here cannot see to the next, which strikes at the next call."""
        striking = [(number, task, max(calls - 1, 0)) for number, task, calls in self._striking]
        place = next(
            (
                place
                for place, (number, task, calls) in enumerate(striking)
                if not calls and self._can_strike(self._faults[number], task)
            ),
            None,
        )
        if place is None:
            self._striking = striking
            return
        number, task, _ = striking.pop(place)
        self._striking = striking
        self._arm()
        self._strike(number, self._faults[number], task)


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)
