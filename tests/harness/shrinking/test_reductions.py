"""Making scenarios smaller: the measure, and candidates that are valid, smaller and different."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import pytest
from msgspec.structs import replace

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import load_family
from onceproof.harness.model.scenario import Fault, Scenario, Schedule, check
from onceproof.harness.shrinking.reductions import (
    beginnings,
    cost_of,
    earlier_checkpoints,
    fault_subsets,
    fewer_subtasks,
    is_readable,
    listed_records,
    plainer_faults,
    plainer_settings,
    plainer_values,
    renumbered,
    schedules,
    size_of,
    slower_sources,
    sooner_checkpoints,
    with_records,
    without_items,
)
from onceproof.harness.shrinking.small_scope import small_scenarios

Make = Callable[..., Scenario]
FAMILY = load_family("word_count")
GENERATED = [generate(FAMILY, seed) for seed in range(60)]
# Few are drawn with a schedule that does not draw each step.
GENERATED += [replace(scenario, schedule=Schedule()) for scenario in GENERATED[:20]]

REDUCTIONS = [
    schedules,
    fault_subsets,
    beginnings,
    fewer_subtasks,
    plainer_faults,
    plainer_settings,
    plainer_values,
    earlier_checkpoints,
    sooner_checkpoints,
]


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda reduction: reduction.__name__)
def test_every_candidate_is_a_valid_scenario_other_than_the_one_it_came_from(
    reduction: Callable[[Scenario], Iterator[Scenario]],
) -> None:
    made = 0
    for scenario in GENERATED:
        for candidate in reduction(scenario):
            check(candidate)
            made += candidate != scenario
    assert made > len(GENERATED)


def test_a_slow_source_stands_in_for_many_records_under_a_schedule_of_few_choices() -> None:
    fair = next(each for each in GENERATED if each.schedule.kind == "fair" and each.record_count() > 6)
    candidates = list(slower_sources(fair))
    assert [each.record_count() for each in candidates] == [each.record_count() for each in beginnings(fair)]
    for candidate in candidates:
        check(candidate)
        assert candidate.schedule.priorities == {"poll": -1}
        assert size_of(candidate).schedule == 1
    storing = replace(fair, schedule=Schedule("priority", 0, {"store": -1}, (), 100))
    assert {each.schedule.priorities["poll"] for each in slower_sources(storing)} == {-2}


def test_a_slow_source_is_not_tried_where_few_records_are_left_or_the_schedule_draws() -> None:
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


def test_the_size_counts_what_a_fair_schedule_would_not_have_done(make_scenario: Make) -> None:
    assert size_of(make_scenario()).schedule == 0
    assert size_of(make_scenario(schedule=Schedule("priority", 0, {"store": -1}))).schedule == 1
    assert size_of(make_scenario(schedule=Schedule("uniform", 5)), choices=228).schedule == 228


def test_a_schedule_that_draws_its_steps_is_not_readable_however_small_the_rest(make_scenario: Make) -> None:
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
    assert renumbered(scenario).records == {"a": ((0, "x"), (2, "y")), "b": ((1, "z"),)}


def test_what_is_left_out_leaves_exactly_what_is_needed() -> None:
    needed = {3, 17, 18, 40}
    runs = []

    def still_fails(kept: list[int]) -> bool:
        runs.append(len(kept))
        return needed <= set(kept)

    assert without_items(range(60), still_fails) == sorted(needed)
    assert len(runs) < 120


def test_nothing_is_left_where_nothing_is_needed() -> None:
    assert without_items(range(5), lambda kept: True) == []
    assert without_items([], lambda kept: True) == []


def test_what_is_needed_only_together_stays_together() -> None:
    kept = without_items(range(8), lambda rest: len(rest) >= 5)
    assert len(kept) == 5


def test_small_scenarios_are_small_valid_and_the_same_each_time() -> None:
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
