"""Families that take turns in batches, each until its scenarios meet nothing new.

The rules this module lives by:

- New is what no scenario of the family met before in the same run: a situation, a fault kind at a point, or
  an abstract state of the protocol.
- What a family has met follows from its scenarios in their order, whatever the workers did meanwhile. So
  where a family ends does not depend on the number of workers: what was run behind that place is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from onceproof.harness.checkers.outcome import Outcome, from_line
from onceproof.harness.model.seeds import turn_order
from onceproof.harness.trials.pool import Batch, Done


@dataclass(slots=True)
class Met:
    """What the scenarios of one family have met."""

    scenarios: int = 0
    since_new: int = 0
    """How many scenarios have ended since one met something new."""
    situations: set[str] = field(default_factory=set)
    faults: set[str] = field(default_factory=set)
    """As "kind/point"."""
    states: set[int] = field(default_factory=set)

    def add(self, outcome: Outcome, states: Iterable[int]) -> bool:
        """Count a scenario; return whether it met something new."""
        before = len(self.situations) + len(self.faults) + len(self.states)
        self.situations.update(outcome.situations)
        self.faults.update(outcome.coverage)
        self.states.update(states)
        is_new = len(self.situations) + len(self.faults) + len(self.states) > before
        self.scenarios += 1
        self.since_new = 0 if is_new else self.since_new + 1
        return is_new

    def __str__(self) -> str:
        return (
            f"{len(self.situations)} situations, {len(self.faults)} faults at their points and"
            f" {len(self.states):,} states of the protocol"
        )


@dataclass(slots=True)
class FamilyTurn:
    """The batches of one family: given to workers out of order, taken from them in order."""

    place: int
    """The family's place in the run."""
    met: Met = field(default_factory=Met)
    given: int = 0
    """The number of its next scenario that is given to a worker."""
    taken: int = 0
    """The number of the next one whose outcome is taken."""
    limit: int | None = None
    """How many scenarios it has; None for no limit."""
    waiting: dict[int, Done] = field(default_factory=dict)

    def batch(self, most: int) -> Batch | None:
        """Return the next batch of up to ``most`` scenarios; None where the limit is reached."""
        count = most if self.limit is None else min(most, self.limit - self.given)
        if count <= 0:
            return None
        batch = Batch(self.given, count, place=self.place)
        self.given += count
        return batch

    def take(self, done: Done) -> list[Done]:
        """Accept a batch; return all that are next in the order of the family."""
        self.waiting[done.first] = done
        ready = []
        while (following := self.waiting.pop(self.taken, None)) is not None:
            self.taken += len(following.lines)
            ready.append(following)
            if not following.lines:
                break
        return ready


class TurnsUntilExhausted:
    """The batches of a run whose families end when ``patience`` scenarios in a row met nothing new."""

    def __init__(self, turns: Sequence[int], scenarios: int | None, size: int, patience: int) -> None:
        """``turns`` has how many turns each family has in a round, ``size`` is the most of a batch.

        Each family has at most as many scenarios as in a run of as many ``scenarios``; None for no limit.
        """
        self._order = turn_order(tuple(turns))
        limits = _limits(self._order, scenarios)
        self._turns = [
            FamilyTurn(place, limit=None if limits is None else limits[place]) for place in range(len(turns))
        ]
        self._size = size
        self._patience = patience

    def batches(self) -> Iterator[Batch]:
        """Yield batches until each family is exhausted or at its limit."""
        progress = True
        while progress:
            progress = False
            for place, _ in self._order:
                turn = self._turns[place]
                batch = None if self._is_exhausted(turn) else turn.batch(self._size)
                if batch is not None:
                    progress = True
                    yield batch

    def take(self, done: Done) -> list[Done]:
        """Accept a batch; return what is next in the order of its family, up to where the family ends."""
        assert done.place is not None
        turn = self._turns[done.place]
        return [self._up_to_the_end(turn, each) for each in turn.take(done)]

    def left(self) -> Iterator[Done]:
        """Yield, after an early end, the batches that wait behind a missing one."""
        for turn in self._turns:
            yield from (turn.waiting[first] for first in sorted(turn.waiting))
            turn.waiting.clear()

    def exhausted(self) -> dict[int, Met]:
        """Return what the families met that have ended for this reason, by their places."""
        return {turn.place: turn.met for turn in self._turns if self._is_exhausted(turn)}

    def _is_exhausted(self, turn: FamilyTurn) -> bool:
        return turn.met.since_new >= self._patience

    def _up_to_the_end(self, turn: FamilyTurn, done: Done) -> Done:
        kept = 0
        for line, states in zip(done.lines, done.states, strict=True):
            if self._is_exhausted(turn):
                break
            turn.met.add(from_line(line), states)
            kept += 1
        return replace(done, lines=done.lines[:kept])


def _limits(order: Sequence[tuple[int, int]], scenarios: int | None) -> Counter[int] | None:
    """Return by place how many scenarios each family has in a run of a number of them."""
    if scenarios is None:
        return None
    rounds, rest = divmod(scenarios, len(order))
    limits = Counter({place: rounds * own for place, own in Counter(place for place, _ in order).items()})
    limits.update(place for place, _ in order[:rest])
    return limits
