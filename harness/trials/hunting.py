"""A hunt: scenarios of all families for hours, which can be stopped and goes on.

The rules this module lives by:

- Usual scenarios and those without patterns take turns, because they find different bugs
  (harness/docs/power.md). Mutated ones find fewer for the same processor time, so a hunt has none.
- The usual scenarios of a family are those of a run of the same seed, in the same order: a replay by seed
  works. No replay by seed gives the others; one that fails is kept as a file.
- Families take turns, a batch each. One that has met nothing new for ``patience`` scenarios gets a turn in
  every EXHAUSTED_TURNS rounds only, so its share goes to the others, until it meets something new again.
- What has ended is counted in the order of each family. So a stored moment has no gaps, and a hunt that goes
  on from it neither leaves a scenario out nor counts one twice.
- The counts of a night of millions of scenarios fit into memory: no list grows with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from onceproof.harness.checkers import Signature
from onceproof.harness.checkers.outcome import Outcome, from_line
from onceproof.harness.generation.generator import UNAIMED
from onceproof.harness.model.family import Family
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.seeds import turn_order
from onceproof.harness.trials.family_turns import FamilyTurn, Met
from onceproof.harness.trials.hunt_state import (
    FamilyState,
    HuntState,
    family_state,
    met_of,
    tally_of,
)
from onceproof.harness.trials.pool import Batch, Done
from onceproof.harness.trials.supervision import is_lost_in_generate, without_records
from onceproof.harness.trials.tally import FamilyTally, Tally
from onceproof.harness.trials.trial import scenario_of

EXHAUSTED_TURNS: Final = 8
SIZE: Final = 8
"""Of a batch. Behind each one the hunt may be stopped."""
MOST_SEEDS: Final = 5


@dataclass(slots=True)
class _HuntedFamily:
    """One family of a hunt."""

    family: Family
    met: Met
    usual: FamilyTurn
    unaimed: FamilyTurn
    seeds: list[int]
    """The first of its usual scenarios."""
    is_exhausted: bool


@dataclass(frozen=True, slots=True)
class NewFailure:
    """The first scenario of a hunt that fails in one way."""

    key: tuple[str, Signature]
    outcome: Outcome
    scenario: Scenario


class Hunt:
    """The scenarios of a hunt, and what came of them.

    Args:
        families: in the order of their turns.
        patience: after how many scenarios without anything new a family is exhausted.
        say: called with a line when a family becomes exhausted, or meets something new again.
        state: the stored moment from which it goes on; None for a new hunt.
        turns: how many turns each family has in a round; empty: one each.
    """

    def __init__(
        self,
        families: Sequence[Family],
        patience: int,
        say: Callable[[str], None],
        state: HuntState | None = None,
        turns: Sequence[int] = (),
    ) -> None:
        self.tally = Tally() if state is None else tally_of(state)
        self._patience = patience
        self._say = say
        self._rounds = 0
        self._order = turn_order(tuple(turns) or (1,) * len(families))
        stored = {} if state is None else {each.name: each for each in state.families}
        self._families = [
            _hunted(family, place, stored.get(family.name), patience) for place, family in enumerate(families)
        ]

    def batches(self) -> Iterator[Batch]:
        """Yield batches for ever."""
        while True:
            all_exhausted = all(each.is_exhausted for each in self._families)
            for place, _ in self._order:
                each = self._families[place]
                # Not all of them in the same round.
                is_its_turn = (self._rounds + place) % EXHAUSTED_TURNS == 0
                if is_its_turn or all_exhausted or not each.is_exhausted:
                    yield from _next_of(each)
            self._rounds += 1

    def take(self, done: Done) -> list[NewFailure]:
        """Count a batch; return the failures of kinds that are new."""
        assert done.place is not None
        hunted = self._families[done.place]
        turn = hunted.unaimed if done.unaimed else hunted.usual
        return [failure for each in turn.take(done) for failure in self._count(hunted, each)]

    def exhausted(self) -> dict[str, Met]:
        """Return what the families have met that meet nothing new, by name."""
        return {each.family.name: each.met for each in self._families if each.is_exhausted}

    def stored_families(self) -> list[FamilyState]:
        """Return what is stored of the families."""
        return [
            family_state(
                each.family.name,
                self.tally.families.get(each.family.name) or FamilyTally(),
                each.met,
                usual=each.usual.taken,
                unaimed=each.unaimed.taken,
                seeds=each.seeds,
            )
            for each in self._families
        ]

    def _count(self, hunted: _HuntedFamily, done: Done) -> Iterator[NewFailure]:
        for line, states in zip(done.lines, done.states, strict=True):
            outcome = from_line(line)
            assert outcome.seed is not None, "scenarios of a hunt are drawn"
            self._add(outcome)
            if not done.unaimed and len(hunted.seeds) < MOST_SEEDS:
                hunted.seeds.append(outcome.seed)
            self._note_exhaustion(hunted, hunted.met.add(outcome, states))
            if outcome.passed:
                continue
            assert outcome.signature is not None
            key = (outcome.family, outcome.signature)
            if self.tally.groups[key].count == 1:
                if is_lost_in_generate(outcome):
                    scenario = without_records(hunted.family, outcome.seed)
                else:
                    scenario = _scenario(hunted.family, outcome.seed, done.unaimed)
                yield NewFailure(key, outcome, scenario)

    def _add(self, outcome: Outcome) -> None:
        """Count an outcome in the tally, without what the state of a stopped hunt does not keep."""
        tally = self.tally
        tally.add(outcome)
        tally.traces = 0
        tally.examples.clear()
        for counts in (tally.replayed, tally.recovery_steps, tally.families[outcome.family].replayed):
            counts.clear()

    def _note_exhaustion(self, hunted: _HuntedFamily, is_new: bool) -> None:
        met, name = hunted.met, hunted.family.name
        if hunted.is_exhausted and is_new:
            hunted.is_exhausted = False
            self._say(f"{name} has met something new again after {met.scenarios:,} scenarios")
        elif not hunted.is_exhausted and met.since_new >= self._patience:
            hunted.is_exhausted = True
            self._say(
                f"{name} is exhausted: nothing new in its last {met.since_new:,} scenarios beside {met}; its"
                " share goes to the others"
            )


def _hunted(family: Family, place: int, stored: FamilyState | None, patience: int) -> _HuntedFamily:
    if stored is None:
        return _HuntedFamily(family, Met(), FamilyTurn(place), FamilyTurn(place), [], False)
    met = met_of(stored)
    usual, unaimed = (FamilyTurn(place, given=ended, taken=ended) for ended in (stored.usual, stored.unaimed))
    return _HuntedFamily(family, met, usual, unaimed, list(stored.seeds), met.since_new >= patience)


def _next_of(hunted: _HuntedFamily) -> Iterator[Batch]:
    """Yield a batch of usual scenarios, and one of those without patterns."""
    for turn, unaimed in ((hunted.usual, False), (hunted.unaimed, True)):
        batch = turn.batch(SIZE)
        assert batch is not None, "the families of a hunt have no limit"
        yield replace(batch, unaimed=unaimed)


def _scenario(family: Family, seed: int, unaimed: bool) -> Scenario:
    """Return the scenario of a hunt; one without patterns has no seed, because no replay by seed gives it."""
    return replace(scenario_of(family, seed, UNAIMED), seed=None) if unaimed else scenario_of(family, seed)
