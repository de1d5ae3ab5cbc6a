"""A strategy of a search: the smallest jobs with one fault or two, in a random order without repetition.

It chooses from the space that `onceproof enumerate` runs whole. A single fault is followed by some of the
second faults that can strike after it, because those are hundreds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Final

from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.search.search_strategy import Reached
from onceproof.harness.trials.enumeration.space import (
    Passage,
    base_scenario,
    cases,
    faults_at,
    with_faults,
)
from onceproof.harness.trials.enumeration.units import AIMED_AT, AIMED_AT_NEXT
from onceproof.harness.trials.enumeration.watched_world import watched_run

SMALL_SCOPE: Final = "small scope"
SECONDS_EACH: Final = 8
"""How many second faults follow a first one."""


class SmallScope:
    """Single faults of the smallest jobs, each with some second faults behind it."""

    watches = False

    def __init__(self, families: Sequence[Family]) -> None:
        self._jobs = [(family, base) for family in families for base in _bases(family)]
        self._singles: list[tuple[Family, Scenario, Fault]] = []
        self._pairs: deque[Scenario] = deque()

    def next(self, random: Random) -> Scenario:
        """Return the next scenario; the space begins anew where all first faults are through."""
        chance = Chance(random)
        if self._pairs:
            return self._pairs.popleft()
        if not self._singles:
            self._singles = self._all_singles()
        place = chance.integer(0, len(self._singles) - 1)
        self._singles[place], self._singles[-1] = self._singles[-1], self._singles[place]
        family, base, first = self._singles.pop()
        single = with_faults(base, first)
        _, passages, struck = watched_run(family, single)
        if struck:
            at = struck[0][1]
            seconds = faults_at(_up_to(AIMED_AT_NEXT, passages[at:]), [(first, passages[at])])
            chosen = chance.sample(seconds, SECONDS_EACH)
            self._pairs.extend([with_faults(base, first, second) for second in chosen])
        return single

    def observe(self, scenario: Scenario, reached: Reached) -> None:
        """Learn nothing."""

    def _all_singles(self) -> list[tuple[Family, Scenario, Fault]]:
        return [
            (family, base, fault)
            for family, base in self._jobs
            for fault in faults_at(_up_to(AIMED_AT, watched_run(family, base)[1]))
        ]


def _bases(family: Family) -> list[Scenario]:
    """Return the undisturbed scenarios of a family; none if it generates no input that is small enough."""
    try:
        return [base_scenario(family, case) for case in cases()]
    except FamilyError:
        return []


def _up_to(checkpoint: int, passages: Sequence[Passage]) -> list[Passage]:
    return [passage for passage in passages if passage.checkpoint <= checkpoint]
