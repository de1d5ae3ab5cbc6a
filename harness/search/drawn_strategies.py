"""Strategies that draw every scenario anew, whatever earlier ones reached."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from onceproof.harness.generation.generator import PRIORITIES, UNAIMED, USUAL, Drawing, generate
from onceproof.harness.model.chance import SEED_LIMIT, Chance
from onceproof.harness.model.family import Family
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.search.search_strategy import Reached

UNIFORM: Final = "uniform"
PRIORITY: Final = "priorities"
SITUATIONS: Final = "situations"
BY_TURNS: Final = "by turns"

DRAWINGS: Final[dict[str, tuple[Drawing, ...]]] = {
    UNIFORM: (UNAIMED,),
    PRIORITY: (PRIORITIES,),
    SITUATIONS: (USUAL,),
    BY_TURNS: (USUAL, UNAIMED),
}
"""By the name of a strategy, what its faults and schedules are drawn from, by turns."""


class DrawnScenarios:
    """Scenarios of the generator; the families take turns, and so do the drawings of each."""

    watches = False

    def __init__(self, families: Sequence[Family], drawings: Sequence[Drawing]) -> None:
        self._families = families
        self._drawings = drawings
        self._turn = 0

    def next(self, random: Random) -> Scenario:
        """Return a scenario of the family whose turn it is."""
        round_number, place = divmod(self._turn, len(self._families))
        self._turn += 1
        drawing = self._drawings[round_number % len(self._drawings)]
        return generate(self._families[place], Chance(random).integer(0, SEED_LIMIT), drawing)

    def observe(self, scenario: Scenario, reached: Reached) -> None:
        """Learn nothing."""
