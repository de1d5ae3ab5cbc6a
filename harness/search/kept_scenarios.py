"""Strategies that keep the scenarios which reached something new, and mutate them.

The rules this module lives by:

- Families take turns, and each has its own memory: what is new for one job may be old for another.
- A part of the scenarios is drawn anew for ever. Mutations stay near what is kept, and a search that only
  mutates never leaves it.
- Of what is kept the latest is mutated most: it is where something new was found last.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from random import Random
from typing import Final

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.chance import SEED_LIMIT, Chance
from onceproof.harness.model.family import Family
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.search.mutation import mutated
from onceproof.harness.search.search_strategy import Reached

NOVELTY: Final = "novelty"
COVERAGE: Final = "coverage"

MUTATED: Final = 0.6
"""The share of scenarios that are mutated ones, once something is kept."""
LATEST: Final = 16
MOST_KEPT: Final = 512
"""Of a family; the oldest go first."""


def states_of(reached: Reached) -> frozenset[Hashable]:
    """Return what novelty counts: abstract states of the protocol."""
    return frozenset(reached.states)


def patterns_of(reached: Reached) -> frozenset[str]:
    """Return what coverage counts: situations, pairs of them, and faults at their points."""
    ordered = sorted(reached.situations)
    pairs = [f"{one} + {other}" for place, one in enumerate(ordered) for other in ordered[place + 1 :]]
    return frozenset([*ordered, *pairs, *reached.faults])


COUNTED: Final[dict[str, Callable[[Reached], frozenset[Hashable]]]] = {
    NOVELTY: states_of,
    COVERAGE: patterns_of,
}


class Kept:
    """The memory of one family: what its scenarios have reached, and those that reached something new."""

    def __init__(
        self,
        family: Family,
        seen: Iterable[Hashable] = (),
        scenarios: Iterable[Scenario] = (),
        most: int = MOST_KEPT,
    ) -> None:
        """Begin with what a memory before had seen and kept. ``most`` scenarios are kept."""
        self.seen = set(seen)
        self.scenarios = list(scenarios)
        self._family = family
        self._most = most

    def observe(self, counted: frozenset[Hashable], scenario: Callable[[], Scenario]) -> bool:
        """Keep a scenario if it reached something new; return whether it did."""
        if counted <= self.seen:
            return False
        self.seen |= counted
        self.scenarios.append(scenario())
        del self.scenarios[: -self._most]
        return True

    def mutant(self, chance: Chance) -> Scenario:
        """Return a mutation of a scenario that is kept; there must be one."""
        return self.mutant_with(generate(self._family, chance.integer(0, SEED_LIMIT)), chance)

    def mutant_with(self, drawn: Scenario, chance: Chance) -> Scenario:
        """Return a mutation of a scenario that is kept, which may take parts of ``drawn``."""
        base = chance.choice(self.scenarios[-LATEST:] if chance.chance(0.5) else self.scenarios)
        return mutated(self._family, base, drawn, chance)


class KeptScenarios:
    """Scenarios drawn anew, and mutations of those that reached what no scenario before them had."""

    watches = True

    def __init__(
        self,
        families: Sequence[Family],
        counted: Callable[[Reached], frozenset[Hashable]],
        share: float = MUTATED,
    ) -> None:
        """``counted`` says what of a run can be new; ``share`` of the scenarios are mutated ones."""
        self._families = families
        self._counted = counted
        self._share = share
        self._turn = 0
        self._kept = {family.name: Kept(family) for family in families}

    def next(self, random: Random) -> Scenario:
        """Return a new scenario of the family whose turn it is, or a mutated one."""
        family = self._families[self._turn % len(self._families)]
        self._turn += 1
        chance = Chance(random)
        drawn = generate(family, chance.integer(0, SEED_LIMIT))
        kept = self._kept[family.name]
        if not chance.chance(self._share) or not kept.scenarios:
            return drawn
        return kept.mutant_with(drawn, chance)

    def observe(self, scenario: Scenario, reached: Reached) -> None:
        """Keep a scenario that reached something new."""
        self._kept[scenario.family].observe(self._counted(reached), lambda: scenario)
