"""Mutations of scenarios: valid, repeatable, and within what a family's oracle allows for."""

from __future__ import annotations

from random import Random

import pytest

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Scenario, from_json, to_json
from onceproof.harness.model.step_limits import with_ample_limits
from onceproof.harness.search.mutation import mutated
from onceproof.harness.trials.trial import try_scenario

FAMILIES = ("word_count", "random_job", "window_sum", "clock_windows")


def chain_of(family: Family, seed: int, length: int) -> list[Scenario]:
    """Return a scenario and its descendants, each a mutation of the one before it."""
    chance = Chance(Random(seed))
    chain = [generate(family, seed)]
    for number in range(1, length):
        chain.append(mutated(family, chain[-1], generate(family, seed * 1000 + number), chance))
    return chain


@pytest.mark.parametrize("name", FAMILIES)
def test_descendants_of_a_scenario_are_valid_and_have_no_seed(name: str) -> None:
    family = load_family(name)
    for seed in range(5):
        for descendant in chain_of(family, seed, 8)[1:]:
            assert from_json(to_json(descendant)) == descendant
            assert descendant.seed is None


def test_same_seed_gives_the_same_mutations() -> None:
    family = load_family("word_count")
    assert chain_of(family, 3, 20) == chain_of(family, 3, 20)
    assert chain_of(family, 3, 20) != chain_of(family, 4, 20)


def test_mutations_change_each_part_of_a_scenario() -> None:
    family = load_family("word_count")
    changed = set()
    for seed in range(25):
        before, *_, after = chain_of(family, seed, 6)
        changed |= {
            name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)
        }
        kinds_before = sorted(fault.kind for fault in before.faults)
        if kinds_before == sorted(fault.kind for fault in after.faults) and before.faults != after.faults:
            changed.add("a fault at another place or time")
    assert changed >= {
        "a fault at another place or time",
        "faults",
        "schedule",
        "records",
        "parallelism",
        "checkpoint_interval_ms",
        "mode",
        "operations",
    }


@pytest.mark.parametrize("name", FAMILIES)
def test_what_a_family_does_not_allow_for_never_comes_in(name: str) -> None:
    family = load_family(name)
    options = options_of(family)
    for seed in range(12):
        for each in chain_of(family, seed, 12):
            barriers = each.checkpoint_mode.barriers
            assert options.at_least_once is not None or barriers != "at_least_once"
            assert not options.needs_steady_time or all(fault.kind != "clock_back" for fault in each.faults)


def test_scenario_that_stops_or_never_ends_has_an_ample_timeout() -> None:
    family = load_family("word_count")
    descendants = [each for seed in range(60) for each in chain_of(family, seed, 8)[1:]]
    held = [each for each in descendants if each.is_endless or any(one.kind == "stop" for one in each.asked)]
    assert held
    for each in held:
        assert each.checkpoint_timeout_ms >= with_ample_limits(each).checkpoint_timeout_ms


def test_sound_engine_passes_mutated_scenarios() -> None:
    family = load_family("tickets")
    for descendant in [each for seed in range(6) for each in chain_of(family, seed, 12)[4::4]]:
        verdict = try_scenario(family, descendant, twice=False, continued=False).verdict
        assert verdict.passed, to_json(descendant)
