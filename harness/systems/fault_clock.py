"""The fault clock: it counts passes of protocol points, and names the fault that strikes at the n-th pass.

The rules this module lives by:

- The counting is the same on every system, and for requests as for faults. A fault waits until its point has
  been passed ``occurrence`` times by a task that matches, for its checkpoint or a later one: what is aimed at
  a checkpoint that another fault has aborted strikes the next one. It strikes once.
- A pass belongs to the fault that strikes at it: faults behind it at the same point do not count that pass.
- Kills and jumps of the clock count passes of their point. Faults of databases count the calls in which a
  database reads or writes files. Any other fault counts the messages, writes and commits that are about to be
  made. The three are counted apart.
- What ``after`` counts differs: steps in the simulation, which schedules the strike itself; further passes of
  any point in real processes, which have no steps (`ProcessFaultClock`).
- A kill is raised inside the task that dies, as an Ending of the engine: nothing of a user's function or of
  the engine survives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from onceproof.engine.errors import Ending
from onceproof.harness.model.faults import AT_PASSES, FAULTS
from onceproof.harness.model.scenario import ANY_TASK, Fault, Operation


class ProcessKilled(Ending):
    """The simulated process dies here: the job master and all tasks."""


class PowerLost(ProcessKilled):
    """The simulated machine loses its power: the process dies, and what was not synced may be lost."""


class MasterKilled(Ending):
    """The simulated job master dies here; its tasks run on without it."""


Wanted = TypeVar("Wanted", Fault, Operation)


class Waiting(Generic[Wanted]):
    """A fault that has not struck, or a request that was not made, and how many passes it still lets by."""

    __slots__ = ("left", "number", "wanted")

    def __init__(self, wanted: Wanted, number: int = 0) -> None:
        self.wanted: Wanted = wanted
        self.number = number
        """Its place among the faults of the scenario."""
        self.left = wanted.occurrence

    def is_hit(self, task: str, checkpoint_id: int) -> bool:
        """Count one pass of the point. Return whether this is the pass that was waited for."""
        wanted = self.wanted
        if wanted.task not in (ANY_TASK, task) or wanted.checkpoint > checkpoint_id:
            return False
        self.left -= 1
        return self.left == 0


CanStrike = Callable[[Fault, str], bool]


class FaultClock:
    """The faults of one scenario, by the point at which they wait.

    Each dict has a key for exactly those points at which a fault still waits. The simulation keeps them and
    looks there first, so a point without faults costs one lookup.
    """

    __slots__ = ("at_databases", "at_passes", "others")

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        self.at_passes: dict[str, list[Waiting[Fault]]] = {}
        self.others: dict[str, list[Waiting[Fault]]] = {}
        self.at_databases: dict[str, list[Waiting[Fault]]] = {}
        for number, fault in enumerate(faults):
            self._arm(Waiting(fault, number))

    def pass_at(self, point: str, task: str, checkpoint_id: int) -> Fault | None:
        """Count a pass of ``point`` by ``task``. Return the fault whose turn it is, if any."""
        hit = self._hit(self.at_passes, point, task, checkpoint_id)
        return None if hit is None else hit.wanted

    def other_at(self, point: str, task: str, checkpoint_id: int) -> Fault | None:
        """Count a message, call of a storage or commit at ``point``. Return the fault that it suffers."""
        hit = self._hit(self.others, point, task, checkpoint_id)
        return None if hit is None else hit.wanted

    def database_at(self, point: str, task: str) -> Fault | None:
        """Count a call of a database that reads or writes files. Return the fault that it suffers."""
        hit = self._hit(self.at_databases, point, task, 0)
        return None if hit is None else hit.wanted

    def _arm(self, waiting: Waiting[Fault]) -> None:
        fault = waiting.wanted
        if fault.kind in AT_PASSES:
            by_point = self.at_passes
        else:
            by_point = self.at_databases if FAULTS[fault.kind].strikes == "database" else self.others
        by_point.setdefault(fault.point, []).append(waiting)

    def _hit(
        self,
        by_point: dict[str, list[Waiting[Fault]]],
        point: str,
        task: str,
        checkpoint_id: int,
        can_strike: CanStrike | None = None,
    ) -> Waiting[Fault] | None:
        """Count one pass for each fault that matches. Return the first whose turn it is; it waits no more."""
        queue = by_point.get(point)
        if queue is None:
            return None
        for position, waiting in enumerate(queue):
            # As `Waiting.is_hit`, written out: the simulation asks at every record while a kill waits there.
            fault = waiting.wanted
            if fault.task not in (ANY_TASK, task) or fault.checkpoint > checkpoint_id:
                continue
            if can_strike is not None and not can_strike(fault, task):
                continue
            waiting.left -= 1
            if waiting.left == 0:
                del queue[position]
                if not queue:
                    del by_point[point]
                return waiting
        return None


class ClockState(msgspec.Struct, frozen=True):
    """How far the faults of a run have come: what the clock of the next process goes on from.

    ``left`` has for each fault how many passes of its point it still waits for, 0 once it was hit;
    ``striking`` the faults that were hit and strike some passes later: (fault, task, passes).
    """

    left: tuple[int, ...] = ()
    striking: tuple[tuple[int, str, int], ...] = ()

    def waits_for(self, fault: int) -> bool:
        """Return whether a fault of the run, by its number, has not been hit."""
        return not self.left or self.left[fault] > 0

    @classmethod
    def all_hit(cls, faults: int) -> ClockState:
        """Return the state in which none of so many faults strikes any more."""
        return cls((0,) * faults)


NOTHING_HIT: Final = ClockState()


class ProcessFaultClock(FaultClock):
    """The clock of a run in real processes. Its state is saved, so the counting goes on over their deaths.

    ``strike`` is called with the number of the fault that strikes, the fault, and the task that was hit; it
    raises Killed where the running task dies. ``can_strike`` says whether a fault can hit a task here and
    now: a pass at which it cannot does not count, and a fault that was hit before waits for a pass at which
    it can. With ``in_turn`` each fault waits only once the one before it has struck.
    """

    __slots__ = ("_can_strike", "_in_turn", "_strike", "_striking", "_waiting", "points")

    def __init__(
        self,
        faults: tuple[Fault, ...],
        in_turn: bool,
        state: ClockState,
        strike: Callable[[int, Fault, str], None],
        can_strike: CanStrike | None = None,
    ) -> None:
        super().__init__(())
        self.points: dict[str, int] = {}
        """How often each protocol point was passed."""
        self._in_turn = in_turn
        self._strike = strike
        self._can_strike = can_strike
        self._waiting = [Waiting(fault, number) for number, fault in enumerate(faults)]
        for waiting, left in zip(self._waiting, state.left, strict=False):
            waiting.left = left
        self._striking = list(state.striking)
        self._arm_all()

    def state(self) -> ClockState:
        """Return how far all faults have come."""
        return ClockState(tuple([waiting.left for waiting in self._waiting]), tuple(self._striking))

    def probe(self, point: str, task: str, checkpoint_id: int) -> None:
        """Count a pass of a protocol point; the faults whose turn it is strike."""
        self.points[point] = self.points.get(point, 0) + 1
        if self._striking:
            self._count_down()
        if point not in self.at_passes:
            return
        hit = self._hit(self.at_passes, point, task, checkpoint_id, self._can_strike)
        if hit is None:
            return
        if hit.wanted.after:
            self._striking.append((hit.number, task, hit.wanted.after))
        self._arm_all()
        if not hit.wanted.after:
            self._strike(hit.number, hit.wanted, task)

    def other_at(self, point: str, task: str, checkpoint_id: int) -> Fault | None:
        """Count a write or commit about to be made. Return the fault that strikes it, if any."""
        if point not in self.others:
            return None
        hit = self._hit(self.others, point, task, checkpoint_id, self._can_strike)
        if hit is None:
            return None
        self._arm_all()
        self._strike(hit.number, hit.wanted, task)
        return hit.wanted

    def _arm_all(self) -> None:
        self.at_passes.clear()
        self.others.clear()
        self.at_databases.clear()
        waiting = [each for each in self._waiting if each.left]
        if self._in_turn:
            waiting = [] if self._striking else waiting[:1]
        for each in waiting:
            self._arm(each)

    def _count_down(self) -> None:
        """Count a pass for the faults that strike later.

        One strikes at a time: it may kill this process, and the next one strikes at the next pass.
        """
        striking = [(number, task, max(passes - 1, 0)) for number, task, passes in self._striking]
        for place, (number, task, passes) in enumerate(striking):
            fault = self._waiting[number].wanted
            if not passes and (self._can_strike is None or self._can_strike(fault, task)):
                del striking[place]
                self._striking = striking
                self._arm_all()
                self._strike(number, fault, task)
                return
        self._striking = striking
