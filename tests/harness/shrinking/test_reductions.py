"""The reductions: the cost of a scenario, and candidates that are valid, smaller and different."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Fault, Scenario, Schedule, check
from onceproof.harness.model.step_limits import ample_horizon, ample_timeout_ms
from onceproof.harness.shrinking.reductions import (
    cost_of,
    ddmin,
    earlier_faults,
    fault_subsets,
    fewer_subtasks,
    fewer_values,
    first_choices,
    is_readable,
    listed_records,
    record_prefixes,
    shorter_intervals,
    simpler_faults,
    simpler_schedules,
    simpler_settings,
    size_of,
    slower_sources,
    until_horizon,
    with_ample_time,
    with_consecutive_timestamps,
    with_records,
)
from onceproof.harness.shrinking.small_scope import small_scenarios
from onceproof.harness.systems.simulation.simulated_system import record_preemptions

Make = Callable[..., Scenario]
FAMILY = load_family("word_count")
GENERATED = [generate(FAMILY, seed) for seed in range(60)]
# The generator draws few scenarios whose schedule does not draw each step.
GENERATED += [replace(scenario, schedule=Schedule()) for scenario in GENERATED[:20]]

REDUCTIONS = [
    simpler_schedules,
    fault_subsets,
    record_prefixes,
    fewer_subtasks,
    simpler_faults,
    simpler_settings,
    fewer_values,
    earlier_faults,
    shorter_intervals,
]


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda reduction: reduction.__name__)
def test_every_candidate_is_valid_and_differs_from_its_scenario(
    reduction: Callable[[Scenario], Iterator[Scenario]],
) -> None:
    made = 0
    for scenario in GENERATED:
        for candidate in reduction(scenario):
            check(candidate)
            made += candidate != scenario
    assert made > len(GENERATED)


def test_a_slow_source_replaces_records_under_a_readable_schedule() -> None:
    fair = next(each for each in GENERATED if each.schedule.kind == "fair" and each.record_count() > 6)
    candidates = list(slower_sources(fair))
    assert [each.record_count() for each in candidates] == [
        each.record_count() for each in record_prefixes(fair)
    ]
    for candidate in candidates:
        check(candidate)
        assert candidate.schedule.priorities == {"poll": -1}
        assert size_of(candidate).schedule == 1
    storing = replace(fair, schedule=Schedule("priority", 0, {"store": -1}, (), 100))
    assert {each.schedule.priorities["poll"] for each in slower_sources(storing)} == {-2}


def test_a_slow_source_is_not_tried_with_few_records_or_a_drawn_schedule() -> None:
    fair = next(each for each in GENERATED if each.schedule.kind == "fair" and each.record_count() > 6)
    short = with_records(fair, listed_records(fair)[:6])
    drawing = replace(fair, schedule=Schedule("uniform", 3, {}, (), 100))
    assert list(slower_sources(short)) == list(slower_sources(drawing)) == []


def test_leaving_out_a_record_or_a_fault_or_a_choice_lowers_the_cost(make_scenario: Make) -> None:
    scenario = make_scenario(
        faults=(Fault("kill_all", "completed"),),
        schedule=Schedule("preemptions", preemptions=((3, "a"), (4, "b"))),
    )
    fewer_choices = Schedule("preemptions", preemptions=((3, "a"),))
    smaller = [
        with_records(scenario, listed_records(scenario)[1:]),
        make_scenario(schedule=scenario.schedule),
        make_scenario(faults=scenario.faults, schedule=fewer_choices),
    ]
    assert all(cost_of(candidate) < cost_of(scenario) for candidate in smaller)


def test_a_listed_schedule_costs_less_than_one_that_draws_every_step(make_scenario: Make) -> None:
    long_list = tuple((step, "deliver") for step in range(300))
    order = [
        Schedule(),
        Schedule("priority", 0, {"store": -1}),
        Schedule("preemptions", preemptions=long_list),
        Schedule("priority", 9, {"store": -1, "poll": 1, "deliver": 2}),
        Schedule("uniform", 9),
    ]
    costs = [cost_of(make_scenario(schedule=schedule)) for schedule in order]
    assert costs == sorted(costs)
    assert len(set(costs)) == len(costs)


def test_the_size_counts_choices_that_a_fair_schedule_would_not_make(make_scenario: Make) -> None:
    assert size_of(make_scenario()).schedule == 0
    assert size_of(make_scenario(schedule=Schedule("priority", 0, {"store": -1}))).schedule == 1
    assert size_of(make_scenario(schedule=Schedule("uniform", 5)), choices=228).schedule == 228


def test_a_schedule_that_draws_its_steps_is_never_readable(make_scenario: Make) -> None:
    assert is_readable(make_scenario())
    assert not is_readable(make_scenario(schedule=Schedule("uniform", 5)))
    assert not is_readable(make_scenario(faults=(Fault("kill_all", "completed"),) * 3))


def test_records_left_out_leave_the_others_in_their_splits(make_scenario: Make) -> None:
    scenario = make_scenario(records={"a": ((0, "x"), (2, "y")), "b": ((1, "z"),)})
    assert listed_records(scenario) == [("a", (0, "x")), ("b", (1, "z")), ("a", (2, "y"))]
    assert with_records(scenario, listed_records(scenario)[1:]).records == {
        "a": ((2, "y"),),
        "b": ((1, "z"),),
    }


def test_timestamps_are_renumbered_over_all_splits(make_scenario: Make) -> None:
    scenario = make_scenario(records={"a": ((7, "x"), (90, "y")), "b": ((8, "z"),)})
    assert with_consecutive_timestamps(scenario).records == {"a": ((0, "x"), (2, "y")), "b": ((1, "z"),)}


def test_ddmin_keeps_exactly_the_needed_items() -> None:
    needed = {3, 17, 18, 40}
    runs = []

    def still_fails(kept: list[int]) -> bool:
        runs.append(len(kept))
        return needed <= set(kept)

    assert ddmin(range(60), still_fails) == sorted(needed)
    assert len(runs) < 120


def test_ddmin_keeps_no_items_if_none_is_needed() -> None:
    assert ddmin(range(5), lambda kept: True) == []
    assert ddmin([], lambda kept: True) == []


def test_ddmin_keeps_items_that_are_needed_only_together() -> None:
    kept = ddmin(range(8), lambda rest: len(rest) >= 5)
    assert len(kept) == 5


def test_small_scenarios_are_small_valid_and_repeatable() -> None:
    for scenario in GENERATED[:20]:
        drawn = list(islice(small_scenarios(scenario), 100))
        for candidate in drawn:
            check(candidate)
            assert candidate.record_count() <= 6
            assert len(candidate.faults) <= 2
        assert drawn == list(islice(small_scenarios(scenario), 100))


def test_a_scenario_without_records_has_small_scenarios_as_well(make_scenario: Make) -> None:
    for candidate in islice(small_scenarios(make_scenario(records={"words": ()})), 50):
        check(candidate)
        assert candidate.record_count() == 0


def test_few_of_many_faults_are_tried_and_every_subset_of_few(make_scenario: Make) -> None:
    kinds = tuple(Fault("kill_all", "completed", after=number) for number in range(16))

    def sizes(number: int) -> Counter[int]:
        return Counter(len(each.faults) for each in fault_subsets(make_scenario(faults=kinds[:number])))

    assert sizes(3) == {0: 1, 1: 3, 2: 3}
    assert sum(sizes(5).values()) == 2**5 - 1
    assert sizes(6) == {0: 1, 1: 6, 2: 15}
    assert sizes(16) == {0: 1, 1: 16}


def test_fewer_choices_are_the_first_of_them(make_scenario: Make) -> None:
    listed = tuple((step, "poll source-0") for step in range(16))
    scenario = make_scenario(schedule=Schedule("preemptions", preemptions=listed))
    found = [each.schedule.preemptions for each in first_choices(scenario)]
    assert found == [listed[:2], listed[:4], listed[:8], listed[:12]]
    assert not list(first_choices(make_scenario(schedule=Schedule("preemptions"))))


def test_a_horizon_is_lowered_to_the_size_and_never_raised(make_scenario: Make) -> None:
    scenario = make_scenario(schedule=Schedule("uniform", 4, horizon=100_000))
    ample = with_ample_time(scenario)
    assert ample == replace(scenario, schedule=replace(scenario.schedule, horizon=ample_horizon(scenario)))
    assert with_ample_time(ample) is ample
    short = make_scenario(schedule=Schedule("uniform", 4, horizon=10))
    fair = make_scenario()
    assert [with_ample_time(short), with_ample_time(fair)] == [short, fair]


def test_a_checkpoint_expires_as_soon_as_the_size_allows_and_no_later(make_scenario: Make) -> None:
    late = make_scenario(checkpoint_timeout_ms=1_000_000)
    ample = with_ample_time(late)
    assert ample == replace(late, checkpoint_timeout_ms=ample_timeout_ms(late))
    assert ample.checkpoint_timeout_ms < 1_000_000
    assert with_ample_time(ample) is ample


@pytest.mark.parametrize("kind", ["uniform", "priority"])
def test_no_choice_behind_the_horizon_differs_from_a_fair_one(kind: str) -> None:
    scenario = next(each for each in GENERATED if each.schedule.kind == kind)
    scenario = replace(scenario, schedule=replace(scenario.schedule, horizon=60))
    cut = until_horizon(scenario)
    assert cut.step_budget == 60
    assert record_preemptions(FAMILY, cut) == record_preemptions(FAMILY, scenario)
    assert record_preemptions(FAMILY, cut).preemptions


def test_the_usual_watermark_interval_is_simplest_and_then_the_shortest(make_scenario: Make) -> None:
    usual, shortest, drawn = (make_scenario(watermark_interval_ms=each) for each in (UNSET, 1, 37))
    assert cost_of(usual) < cost_of(shortest) < cost_of(drawn)
    tried = [each.watermark_interval_ms for each in simpler_settings(drawn)]
    assert {UNSET, 1} <= set(tried)
