"""The strategies: valid scenarios, of every kind, fast; profiles; and a seed of its own for each shard."""

from __future__ import annotations

from collections import Counter
from time import perf_counter

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from harness.family import load_family
from harness.scenario import ACTION_CLASSES, VALID, Fault, Scenario, check, from_json, to_json
from harness.profiles import PROFILE_VARIABLE, PROFILES
from harness.strategies import (
    SHARDS,
    faults,
    generated,
    in_shard,
    register_profiles,
    shard_seed,
    structured,
)

FAMILY = load_family("word_count")
QUICK = settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("strategy", [generated(FAMILY), structured(FAMILY)], ids=["generated", "structured"])
def test_every_scenario_is_valid_and_comes_back_from_json(strategy: st.SearchStrategy[Scenario]) -> None:
    @QUICK
    @given(strategy)
    def holds(scenario: Scenario) -> None:
        check(scenario)
        assert from_json(to_json(scenario)) == scenario
        assert scenario.checkpoint_timeout_ms > 0

    holds()


def test_structured_scenarios_are_not_the_small_ones_that_lists_favour() -> None:
    sizes: list[int] = []
    kinds: Counter[str] = Counter()

    @settings(QUICK, max_examples=400)
    @in_shard("sizes", 0)
    @given(structured(FAMILY))
    def collect(scenario: Scenario) -> None:
        sizes.append(scenario.record_count())
        kinds[scenario.schedule.kind] += 1

    collect()
    assert sum(sizes) / len(sizes) > 6
    assert max(sizes) > 20
    assert set(kinds) == {"fair", "uniform", "priority"}


def test_faults_of_every_kind_are_drawn_and_each_at_points_of_its_own() -> None:
    drawn: Counter[str] = Counter()

    @settings(QUICK, max_examples=600)
    @in_shard("faults", 0)
    @given(faults())
    def collect(fault: Fault) -> None:
        drawn[fault.kind] += 1
        assert fault.point in VALID[fault.kind]

    collect()
    assert set(drawn) == set(VALID)


def test_hypothesis_finds_and_shrinks_among_structured_scenarios() -> None:
    found = find(
        structured(FAMILY),
        lambda scenario: scenario.record_count() >= 3 and any(fault.rescale_to for fault in scenario.faults),
        settings=settings(QUICK, max_examples=2000, phases=(Phase.generate, Phase.shrink)),
    )
    assert found.record_count() == 3
    assert len(found.faults) == 1


def test_a_seed_is_drawn_in_about_a_millisecond() -> None:
    count = 300
    drawn = []

    @settings(QUICK, max_examples=count, phases=(Phase.generate,))
    @given(generated(FAMILY))
    def collect(scenario: Scenario) -> None:
        drawn.append(scenario)

    begin = perf_counter()
    collect()
    # Ten times what it takes where nothing else runs.
    assert (perf_counter() - begin) / count < 0.01
    assert len(drawn) >= count


def test_profiles_do_not_derandomize_and_do_not_shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    before = settings.get_current_profile_name()
    monkeypatch.setenv("CI", "1")
    try:
        for name, examples in PROFILES.items():
            monkeypatch.setenv(PROFILE_VARIABLE, name)
            assert register_profiles() == name
            loaded = settings.get_profile(name)
            assert loaded.max_examples == examples // SHARDS
            assert not loaded.derandomize
            assert Phase.shrink not in loaded.phases
    finally:
        settings.load_profile(before)


def test_each_shard_of_each_family_and_campaign_has_a_seed_of_its_own() -> None:
    seeds = {
        shard_seed(family, shard, campaign) for family in "ab" for shard in range(8) for campaign in (0, 1)
    }
    assert len(seeds) == 2 * 8 * 2
    assert shard_seed("a", 3, 7) == shard_seed("a", 3, 7)


def test_the_campaign_seed_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEPROOF_SEED", "7")
    assert shard_seed("a", 3) == shard_seed("a", 3, 7)


def test_the_same_shard_draws_the_same_and_another_one_does_not() -> None:
    def drawn_in(shard: int) -> list[str]:
        drawn: list[str] = []

        @settings(QUICK, max_examples=20)
        @in_shard("word_count", shard)
        @given(generated(FAMILY))
        def collect(scenario: Scenario) -> None:
            drawn.append(to_json(scenario))

        collect()
        return drawn

    assert drawn_in(0) == drawn_in(0)
    assert drawn_in(0) != drawn_in(1)


def test_all_action_classes_can_be_given_a_priority() -> None:
    assert len(set(ACTION_CLASSES)) == 10
