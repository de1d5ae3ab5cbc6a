"""The strategies of a search: repeatable, different from each other, and led by what scenarios reach."""

from __future__ import annotations

from random import Random

import pytest

from onceproof.harness.generation.generator import UNAIMED, USUAL, generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Scenario, check, to_json
from onceproof.harness.search.kept_scenarios import COUNTED, COVERAGE, NOVELTY, KeptScenarios, patterns_of
from onceproof.harness.search.search_strategy import Reached
from onceproof.harness.trials.search_trials import STRATEGIES, make_strategy

WORD_COUNT = load_family("word_count")
COUNT = 20


def reached(number: int) -> Reached:
    """Return something new for each number."""
    return Reached(frozenset({f"situation {number}"}), frozenset({f"kind/{number}"}), frozenset({number}))


def scenarios_of(name: str, seed: int, count: int = COUNT) -> list[Scenario]:
    """Return the scenarios of a strategy that finds something new in each of them."""
    strategy = make_strategy(name, [WORD_COUNT])
    random = Random(seed)
    found = []
    for number in range(count):
        scenario = strategy.next(random)
        found.append(scenario)
        strategy.observe(scenario, reached(number))
    return found


@pytest.mark.parametrize("name", STRATEGIES)
def test_same_seed_gives_the_same_valid_scenarios(name: str) -> None:
    first, again, other = (scenarios_of(name, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    for scenario in first:
        check(scenario)


def test_no_two_strategies_choose_the_same_scenarios() -> None:
    of_each = {name: tuple(map(to_json, scenarios_of(name, 1))) for name in STRATEGIES}
    # Novelty and coverage differ by what they find new, and here both find all of it new.
    assert len({of_each[name] for name in STRATEGIES if name != NOVELTY}) == len(STRATEGIES) - 1


def test_uniform_scenarios_have_uniform_schedules_and_no_aimed_stop() -> None:
    for seed in range(60):
        scenario = generate(WORD_COUNT, seed, UNAIMED)
        assert scenario.schedule.kind == "uniform"
        assert scenario.records == generate(WORD_COUNT, seed).records


def test_usual_drawing_is_the_default() -> None:
    assert generate(WORD_COUNT, 5, USUAL) == generate(WORD_COUNT, 5)


def test_priority_scenarios_all_have_priority_schedules() -> None:
    assert {scenario.schedule.kind for scenario in scenarios_of("priorities", 1)} == {"priority"}


def test_small_scope_repeats_no_scenario_and_has_at_most_two_faults() -> None:
    scenarios = scenarios_of("small scope", 1, 40)
    assert len({to_json(each) for each in scenarios}) == len(scenarios)
    assert {len(each.faults) for each in scenarios} == {1, 2}


def test_only_what_is_new_is_kept_and_mutated() -> None:
    strategy = KeptScenarios([WORD_COUNT], COUNTED[COVERAGE], share=1.0)
    random = Random(1)
    for _ in range(10):
        scenario = strategy.next(random)
        assert scenario.seed is not None, "there is nothing to mutate"
        strategy.observe(scenario, Reached(frozenset(), frozenset(), frozenset({1})))
    strategy.observe(scenario, reached(1))
    assert strategy.next(random).seed is None


def test_novelty_and_coverage_see_different_news() -> None:
    assert COUNTED[NOVELTY](reached(3)) == {3}
    assert COUNTED[COVERAGE](reached(3)) == {"situation 3", "kind/3"}


def test_coverage_counts_situations_that_come_together() -> None:
    both = Reached(frozenset({"a", "b"}), frozenset(), frozenset())
    assert patterns_of(both) == {"a", "b", "a + b"}


def test_families_take_turns_and_keep_their_own() -> None:
    families = [WORD_COUNT, load_family("tickets")]
    for name in STRATEGIES[:-1]:
        strategy = make_strategy(name, families)
        random = Random(0)
        assert [strategy.next(random).family for _ in range(4)] == ["word_count", "tickets"] * 2
