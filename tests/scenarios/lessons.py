"""The planted lessons of the textbook: how a lesson fails, and whether its corrected twin passes."""

from __future__ import annotations

from pathlib import Path

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.examination import Examined, examine
from onceproof.harness.trials.trial import SIMULATED, try_scenario

TEXTBOOK = Path(__file__).parents[2] / "scenarios" / "textbook"
SHRINK_RUNS = 60
"""What a small scenario needs is measured in less time than a large one takes."""


def examined_lesson(address: str, seeds: int, first: int = 0) -> Examined | None:
    """Return the examination of the first scenario in which a family fails; None if it passes all seeds.

    A ``first`` seed whose scenario is small is shrunk in less time.
    """
    family = load_family(address)
    for seed in range(first, first + seeds):
        scenario = generate(family, seed)
        if not try_scenario(family, scenario).verdict.passed:
            return examine(SIMULATED, family, scenario, None, SHRINK_RUNS)
    return None


def passes(address: str, seeds: int) -> bool:
    """Return whether a family passes the scenarios of its first seeds."""
    family = load_family(address)
    return all(try_scenario(family, generate(family, seed)).verdict.passed for seed in range(seeds))
