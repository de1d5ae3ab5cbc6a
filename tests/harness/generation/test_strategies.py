"""The strategies: valid scenarios, of every kind, fast; profiles; and a seed of its own for each shard."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from onceproof.harness.generation.profiles import PROFILE_VARIABLE, PROFILES, SEED_VARIABLE, chosen_profile
from onceproof.harness.generation.strategies import faults, generated, structured
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS, JOB_FAULTS
from onceproof.harness.model.scenario import ACTION_CLASSES, Fault, Scenario, check, from_json, to_json
from tests.property_shards import SHARDS, in_shard, register_profiles, shard_seed

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


def test_structured_scenarios_are_not_only_small() -> None:
    sizes: list[int] = []
    kinds: Counter[str] = Counter()

    @in_shard("sizes", 0, 4 * 150)
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

    @in_shard("faults", 0, 4 * 600)
    @given(faults())
    def collect(fault: Fault) -> None:
        drawn[fault.kind] += 1
        assert fault.point in FAULTS[fault.kind].points

    collect()
    assert set(drawn) == set(JOB_FAULTS)


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

    begin = process_time()
    collect()
    # Ten times what it takes where nothing else runs.
    assert (process_time() - begin) / count < 0.01
    assert len(drawn) >= count


@pytest.fixture
def profiles(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let a test load profiles, and load the one of all tests again."""
    before = settings.get_current_profile_name()
    monkeypatch.delenv(SEED_VARIABLE, raising=False)
    yield monkeypatch
    settings.load_profile(before)


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_do_not_derandomize(profiles: pytest.MonkeyPatch, name: str) -> None:
    profiles.setenv(PROFILE_VARIABLE, name)
    assert register_profiles() == name
    assert settings.default.max_examples == PROFILES[name]
    assert not settings.default.derandomize


def test_a_shard_makes_its_part_of_the_examples_and_does_not_shrink() -> None:
    tried: list[int] = []

    @in_shard("parts", 0, SHARDS * 30)
    @given(st.integers(0, 10**6))
    def fails(number: int) -> None:
        tried.append(number)
        assert number < 10 or len(tried) < 20

    with pytest.raises(AssertionError):
        fails()
    # The first failure is reported: 20 examples, and one more run to report it.
    assert 20 <= len(tried) <= 22
    tried.clear()

    @in_shard("parts", 0)
    @given(st.integers(0, 10**6))
    def holds(number: int) -> None:
        tried.append(number)

    holds()
    assert len(tried) == PROFILES[chosen_profile()] // SHARDS


ON_A_CI_SERVER = """
import hypothesis
from hypothesis import settings

assert settings.get_current_profile_name() == "ci" and settings.default.derandomize, "no CI server"

from tests.property_shards import register_profiles

assert register_profiles() == "ci"
assert not settings.default.derandomize
assert settings.default.max_examples == 400
assert not settings(max_examples=7).derandomize
assert not settings.default.print_blob
"""


def test_on_a_ci_server_hypothesis_does_not_draw_the_same_each_time() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ONCEPROOF_")}
    ended = subprocess.run(
        [sys.executable, "-c", ON_A_CI_SERVER],
        env=environment | {"CI": "1", "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""


def test_the_tests_of_this_project_run_under_one_of_the_profiles() -> None:
    assert settings.get_current_profile_name() == chosen_profile()


def test_each_shard_of_each_family_campaign_and_profile_has_a_seed_of_its_own() -> None:
    seeds = {
        shard_seed(family, shard, campaign, profile)
        for family in "ab"
        for shard in range(8)
        for campaign in (0, 1)
        for profile in PROFILES
    }
    assert len(seeds) == 2 * 8 * 2 * 3
    assert shard_seed("a", 3, 7, "ci") == shard_seed("a", 3, 7, "ci")


def test_a_shard_uses_the_loaded_profile_and_its_seed(profiles: pytest.MonkeyPatch) -> None:
    profiles.setenv(SEED_VARIABLE, "7")
    profiles.setenv(PROFILE_VARIABLE, "ci")
    register_profiles()
    assert shard_seed("a", 3) == shard_seed("a", 3, 7, "ci")
    settings.load_profile("dev")
    assert shard_seed("a", 3) == shard_seed("a", 3, 7, "dev")


def test_a_nightly_run_prints_its_own_seed(
    profiles: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    profiles.setenv(PROFILE_VARIABLE, "nightly")
    nights = []
    for _ in range(2):
        profiles.delenv(SEED_VARIABLE, raising=False)
        register_profiles()
        nights.append(int(os.environ[SEED_VARIABLE]))
        assert capsys.readouterr().err == f"onceproof: profile nightly, {SEED_VARIABLE}={nights[-1]}\n"
        # A seed that is in the environment is not printed again.
        register_profiles()
        assert capsys.readouterr().err == ""
        assert shard_seed("a", 3) == shard_seed("a", 3, nights[-1], "nightly")
    assert nights[0] != nights[1]


def test_the_same_shard_draws_the_same_and_another_one_does_not() -> None:
    def drawn_in(shard: int) -> list[str]:
        drawn: list[str] = []

        @in_shard("word_count", shard, 4 * 20)
        @given(generated(FAMILY))
        def collect(scenario: Scenario) -> None:
            drawn.append(to_json(scenario))

        collect()
        return drawn

    assert drawn_in(0) == drawn_in(0)
    assert drawn_in(0) != drawn_in(1)


def test_all_action_classes_can_have_a_priority() -> None:
    assert len(set(ACTION_CLASSES)) == 10
