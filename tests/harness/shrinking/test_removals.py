"""What stays large is left without each of its parts, and the scenario says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.checkers import Signature
from onceproof.harness.explanation.descriptions import needed_text
from onceproof.harness.model.scenario import (
    Fault,
    Needed,
    Operation,
    Scenario,
    ScenarioError,
    Schedule,
    check,
    read_scenario,
    to_json,
)
from onceproof.harness.model.step_limits import patient_step_budget
from onceproof.harness.shrinking.reductions import cost_of, listed_records, size_of, with_records
from onceproof.harness.shrinking.removals import is_large, needed_of, single_removals
from onceproof.harness.shrinking.shrinker import _Search, shrink

Make = Callable[..., Scenario]
LOST: Signature = ("exactly_once", "lost")
MANY = {"a": tuple((time, f"w{time}") for time in range(8)), "b": tuple((time, "b") for time in range(8))}


def scenario_with_each_part(make_scenario: Make) -> Scenario:
    return make_scenario(
        records={"a": ((0, "x"), (2, "y")), "b": ((1, "z"),)},
        faults=(Fault("kill_all", "completed"), Fault("kill_task", "committed")),
        operations=(Operation("savepoint", "element"),),
        schedule=Schedule("preemptions", preemptions=((3, "poll source-0"), (4, "deliver count-0/0"))),
    )


def with_ample_budget(scenario: Scenario) -> Scenario:
    return replace(scenario, step_budget=patient_step_budget(scenario))


def test_each_part_is_left_out_alone(make_scenario: Make) -> None:
    scenario = scenario_with_each_part(make_scenario)
    without = list(single_removals(scenario))
    assert len({to_json(each) for each in without}) == 3 + 2 + 1 + 2
    for each in without:
        check(each)
        assert cost_of(each) < cost_of(scenario)
    assert [each.record_count() for each in without].count(2) == 3
    assert [len(each.faults) for each in without].count(1) == 2
    assert [len(each.asked) for each in without].count(0) == 1
    assert [len(each.schedule.preemptions) for each in without].count(1) == 2


def test_priorities_changes_and_the_seed_are_parts_of_a_schedule(make_scenario: Make) -> None:
    schedule = Schedule("priority", 4, {"poll": 1, "store": -1}, ((9, "poll", 0),), 100)
    scenario = make_scenario(records={"a": ()}, schedule=schedule)
    assert [each.schedule for each in single_removals(scenario)] == [
        replace(schedule, priorities={"store": -1}),
        replace(schedule, priorities={"poll": 1}),
        replace(schedule, changes=()),
        replace(schedule, seed=0),
    ]


def test_a_failure_that_needs_many_records_says_so(make_scenario: Make) -> None:
    tried: list[Scenario] = []

    def fails(candidate: Scenario) -> Signature | None:
        tried.append(candidate)
        return LOST if candidate.record_count() >= 12 and candidate.faults else None

    original = make_scenario(records=MANY, faults=(Fault("kill_all", "completed"),))
    result = shrink(original, fails, LOST, 300)
    small = result.scenario
    assert (result.after.records, result.after.faults) == (12, 1)
    assert small.needed == Needed(LOST, 12, 1, 0, 0)
    # After it nothing else was run, and each with its whole step budget.
    without = [with_ample_budget(each) for each in single_removals(replace(small, needed=UNSET))]
    assert tried[-13:] == without
    assert needed_text(small) == (
        "The failure needs its 12 records and 1 fault: removing any one of them makes it disappear."
    )


def test_parts_are_left_out_until_all_are_needed_or_few_are_left(make_scenario: Make) -> None:
    for fewest, left in ((12, 12), (3, 10)):
        search = _Search(
            make_scenario(records=MANY),
            lambda each, fewest=fewest: LOST if each.record_count() >= fewest else None,  # type: ignore[misc]
            LOST,
            most_runs=0,
        )
        assert search.leave_out_each_part(1000) == (left == 12)
        assert search.smallest.record_count() == left


def test_nothing_is_said_of_a_small_scenario(make_scenario: Make) -> None:
    original = make_scenario(records=MANY)
    small = shrink(original, lambda each: LOST if each.record_count() > 2 else None, LOST).scenario
    assert (small.record_count(), small.needed, needed_text(small)) == (3, UNSET, "")


def test_nothing_is_said_where_there_were_too_few_runs(make_scenario: Make) -> None:
    def fails(candidate: Scenario) -> Signature | None:
        return LOST if candidate.record_count() >= 12 else None

    small = shrink(make_scenario(records=MANY), fails, LOST, 30).scenario
    assert (small.record_count(), small.needed) == (12, UNSET)


def test_what_was_said_of_a_larger_scenario_does_not_outlive_it(make_scenario: Make) -> None:
    large = make_scenario(records=MANY)
    stated = replace(large, needed=needed_of(large, LOST))
    small = shrink(stated, lambda each: LOST if each.record_count() > 1 else None, LOST).scenario
    assert (small.record_count(), small.needed) == (2, UNSET)


def test_a_changed_file_is_refused_with_what_to_delete(make_scenario: Make, tmp_path: Path) -> None:
    scenario = scenario_with_each_part(make_scenario)
    path = tmp_path / "small.json"
    stated = replace(scenario, needed=needed_of(scenario, LOST))
    path.write_text(to_json(stated, indent=2))
    assert read_scenario(path) == stated
    path.write_text(to_json(with_records(stated, listed_records(stated)[1:])))
    with pytest.raises(ScenarioError, match=r"needed.records is 3, but the scenario has 2: .* delete needed"):
        read_scenario(path)


def test_large_is_more_than_ten_records_or_twenty_choices(make_scenario: Make) -> None:
    choices = tuple((step, "poll source-0") for step in range(21))
    listed = Schedule("preemptions", preemptions=choices)
    assert is_large(size_of(make_scenario(schedule=listed)))
    assert not is_large(size_of(make_scenario(schedule=replace(listed, preemptions=choices[:20]))))
    assert is_large(size_of(make_scenario(records={"a": tuple((time, "x") for time in range(11))})))
