"""A tenth of the scenarios leads to the least covered situations, whatever runs them."""

from __future__ import annotations

import pytest

from onceproof.harness.checkers.situations import NAMES, situations_of
from onceproof.harness.generation import generator, rare_paths
from onceproof.harness.generation.generator import generate
from onceproof.harness.generation.rare_paths import QUOTA, RARE_PATHS, RarePath
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem

FAMILY = load_family("word_count")
FEW = 30


def without_paths(seed, stage, any_backend):
    return (), ()


def test_one_scenario_in_ten_takes_a_rare_path_and_the_others_stay() -> None:
    seeds = range(600)
    drawn = [generate(FAMILY, seed) for seed in seeds]
    with replaced(generator, "draw_rare_path", without_paths):
        plain = [generate(FAMILY, seed) for seed in seeds]
    moved = sum(one != other for one, other in zip(drawn, plain, strict=True))
    assert 0.7 * QUOTA < moved / len(seeds) < 1.3 * QUOTA
    assert drawn[:50] == [generate(FAMILY, seed) for seed in range(50)]


@pytest.mark.parametrize("name", RARE_PATHS)
def test_rare_path_leads_to_its_situation(name: str) -> None:
    assert name in NAMES
    only: dict[str, RarePath] = {name: RARE_PATHS[name]}
    with replaced(rare_paths, "QUOTA", 1.0), replaced(rare_paths, "RARE_PATHS", only):
        for seed in range(FEW):
            scenario = generate(FAMILY, seed)
            if name in situations_of(scenario, SimulatedSystem().run(FAMILY, scenario)):
                return
    raise AssertionError(f"none of {FEW} scenarios was in the situation")


def test_what_a_family_does_not_allow_for_is_not_drawn() -> None:
    clocks = {"clock": RARE_PATHS["clock set back between checkpoints"]}
    steady = load_family("clock_windows")
    with replaced(rare_paths, "QUOTA", 1.0), replaced(rare_paths, "RARE_PATHS", clocks):
        kinds = {fault.kind for seed in range(40) for fault in generate(steady, seed).faults}
        others = {fault.kind for seed in range(40) for fault in generate(FAMILY, seed).faults}
    assert "clock_back" in others - kinds
