"""The shrinker, on failures that the tests define by a function of the scenario."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count, islice
from statistics import median

import pytest
from msgspec.structs import replace

from onceproof.harness.checkers import Signature
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Fault, Scenario, Schedule
from onceproof.harness.model.step_limits import STEPS_PER_RECORD, patient_step_budget
from onceproof.harness.shrinking.reductions import cost_of, listed_records, with_records
from onceproof.harness.shrinking.shrinker import BUDGET_DIVISOR, MOST_RUNS, _Search, shrink

LOST: Signature = ("exactly_once", "lost")
DUPLICATED: Signature = ("exactly_once", "duplicated")
STUCK: Signature = ("liveness", "stuck")
FAMILY = load_family("word_count")


def generated(holds: Callable[[Scenario], bool]) -> Scenario:
    return next(scenario for seed in range(10_000) if holds(scenario := generate(FAMILY, seed)))


def kills(scenario: Scenario) -> list[Fault]:
    return [fault for fault in scenario.faults if fault.kind.startswith("kill")]


def needs_two_records_and_a_late_kill(scenario: Scenario) -> Signature | None:
    bees = [value for split in scenario.records.values() for _, value in split if value == "bee"]
    late = any(fault.after >= 3 for fault in kills(scenario))
    return LOST if late and len(bees) >= 2 else None


def large(scenario: Scenario) -> bool:
    return (
        needs_two_records_and_a_late_kill(scenario) == LOST
        and scenario.record_count() > 40
        and 3 <= len(scenario.faults) <= 6
        and scenario.schedule.kind == "uniform"
    )


def test_the_shrinker_removes_all_that_the_failure_does_not_need() -> None:
    result = shrink(generated(large), needs_two_records_and_a_late_kill, LOST)
    scenario = result.scenario
    assert [value for split in scenario.records.values() for _, value in split] == ["bee", "bee"]
    assert [fault.after for fault in scenario.faults] == [3]
    assert scenario.schedule.kind == "fair"
    assert scenario.parallelisms() == (1, 1, 1)
    assert len(scenario.records) == 1
    assert scenario.seed is None
    assert (result.before.records > 40, result.before.faults >= 3) == (True, True)
    assert (result.after.records, result.after.faults, result.after.schedule) == (2, 1, 0)


def test_a_shrink_takes_few_runs() -> None:
    drawn = (scenario for seed in count() if large(scenario := generate(FAMILY, seed)))
    results = [shrink(each, needs_two_records_and_a_late_kill, LOST) for each in islice(drawn, 25)]
    assert median(result.runs for result in results) < 100
    # Where a small scenario has to be drawn, there are as many tries as that is given.
    assert max(result.runs for result in results) <= MOST_RUNS


def test_shrinking_the_same_scenario_twice_gives_the_same_result() -> None:
    scenario = generated(large)
    first, second = (shrink(scenario, needs_two_records_and_a_late_kill, LOST) for _ in range(2))
    assert (first.scenario, first.runs) == (second.scenario, second.runs)


def test_needed_faults_among_many_are_found_in_few_runs() -> None:
    needed = {Fault("kill_all", "completed", after=number) for number in (2, 9, 17)}
    many = tuple(Fault("kill_all", "completed", after=number) for number in range(24))
    scenario = replace(generated(large), faults=many, schedule=Schedule())

    def fails(candidate: Scenario) -> Signature | None:
        return LOST if len(needed.intersection(candidate.faults)) == 3 else None

    search = _Search(scenario, fails, LOST, float("inf"))
    search.reduce_coarsely(float("inf"))
    assert set(search.best.faults) == needed
    assert search.runs < 120


def test_only_the_same_signature_counts() -> None:
    def fails(scenario: Scenario) -> Signature | None:
        # Without its kills the scenario fails with another signature, which is another failure.
        return needs_two_records_and_a_late_kill(scenario) or DUPLICATED

    result = shrink(generated(large), fails, LOST)
    assert fails(result.scenario) == LOST
    assert kills(result.scenario)


def test_a_failure_by_an_order_of_steps_shrinks_to_a_few_choices() -> None:
    needed = {(7, "deliver count-0/1"), (9, "store source-0 1")}
    scenario = generated(lambda s: s.schedule.kind == "uniform" and s.record_count() > 20)

    def fails(candidate: Scenario) -> Signature | None:
        schedule = candidate.schedule
        drawn = schedule.kind == "uniform" and schedule.seed == scenario.schedule.seed
        listed = needed <= set(schedule.preemptions)
        return LOST if drawn or listed else None

    def record_preemptions(candidate: Scenario) -> Schedule:
        choices = sorted({*needed, *((step, f"poll source-{step % 2}") for step in range(0, 120, 2))})
        return Schedule("preemptions", preemptions=tuple(choices))

    result = shrink(scenario, fails, LOST, record_preemptions=record_preemptions)
    assert set(result.scenario.schedule.preemptions) == needed
    assert result.before.schedule == 62
    assert result.after.schedule == 2


def test_a_failure_by_slow_storage_shrinks_to_one_priority() -> None:
    def fails(candidate: Scenario) -> Signature | None:
        schedule = candidate.schedule
        slow = schedule.priorities.get("store", 0) < schedule.priorities.get("poll", 0)
        return LOST if slow or schedule.kind == "uniform" else None

    scenario = generated(lambda s: s.schedule.kind == "uniform")
    schedule = shrink(scenario, fails, LOST).scenario.schedule
    assert schedule.priorities in ({"store": -1}, {"poll": 1})
    assert schedule.seed == 0


def test_a_failure_without_a_smaller_one_is_returned_unchanged() -> None:
    scenario = generated(large)
    result = shrink(scenario, lambda candidate: LOST if candidate == scenario else None, LOST)
    assert result.scenario == scenario
    assert result.after == result.before


def test_at_the_limit_of_runs_the_smallest_so_far_is_the_result() -> None:
    made: list[Scenario] = []

    def fails(scenario: Scenario) -> Signature | None:
        made.append(scenario)
        return needs_two_records_and_a_late_kill(scenario)

    scenario = generated(large)
    result = shrink(scenario, fails, LOST, 20)
    assert needs_two_records_and_a_late_kill(result.scenario) == LOST
    # A few more runs confirm the result.
    assert len(made) == result.runs <= 25
    assert cost_of(result.scenario) < cost_of(scenario)


def test_the_shrinker_reads_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine shrinks just as far: a shrinker that asked for the time would fail here."""

    def stopped(*_: object) -> float:
        raise AssertionError("the shrinker has asked for the time")

    for name in ("perf_counter", "monotonic", "process_time", "time"):
        monkeypatch.setattr(time, name, stopped)
    result = shrink(generated(large), needs_two_records_and_a_late_kill, LOST)
    assert (result.after.records, result.after.faults) == (2, 1)


def stuck_with_two_bees(scenario: Scenario) -> Signature | None:
    return STUCK if needs_two_records_and_a_late_kill(scenario) else None


def test_a_stuck_run_uses_part_of_its_budget_and_is_confirmed_with_all() -> None:
    tries: list[Scenario] = []

    def fails(candidate: Scenario) -> Signature | None:
        tries.append(candidate)
        return stuck_with_two_bees(candidate)

    result = shrink(generated(large), fails, STUCK)
    assert (result.after.records, result.after.faults) == (2, 1)
    # The result has the step budget of a generated scenario of its size, and was stuck with all of it.
    assert result.scenario.step_budget == patient_step_budget(result.scenario)
    assert result.scenario in tries
    with_part_of_budget = sum(
        candidate.step_budget == patient_step_budget(candidate) // BUDGET_DIVISOR for candidate in tries
    )
    assert with_part_of_budget > len(tries) - 8


def test_a_slow_run_does_not_count_as_stuck() -> None:
    def fails(candidate: Scenario) -> Signature | None:
        slow = candidate.step_budget < 0.5 * patient_step_budget(candidate)
        return STUCK if slow else stuck_with_two_bees(candidate)

    result = shrink(generated(large), fails, STUCK)
    assert fails(result.scenario) == STUCK
    assert (result.after.records, result.after.faults) == (2, 1)


def test_records_needed_only_for_time_shrink_with_the_interval() -> None:
    """Neither records nor interval can be reduced alone: they must fit together."""
    scenario = replace(
        generated(lambda s: s.record_count() > 12),
        checkpoint_interval_ms=60,
        faults=(),
        schedule=Schedule("priority", 0, {"store": -1}, (), 100),
    )
    scenario = with_records(scenario, listed_records(scenario)[:12])
    spare = scenario.checkpoint_interval_ms - STEPS_PER_RECORD * scenario.record_count()

    def fails(candidate: Scenario) -> Signature | None:
        reading = STEPS_PER_RECORD * candidate.record_count()
        return LOST if candidate.checkpoint_interval_ms - reading == spare else None

    assert shrink(scenario, fails, LOST).after.records <= 2


def test_a_candidate_that_fails_only_with_a_costlier_seed_is_refused() -> None:
    """A schedule without random choices costs less than one with a seed."""
    schedule = Schedule("priority", 0, {"store": -1}, (), 100)
    scenario = replace(generated(large), schedule=schedule, checkpoint_interval_ms=200)
    search = _Search(
        scenario, lambda candidate: LOST if candidate.schedule.seed else None, LOST, float("inf")
    )
    search.reduce()
    assert search.cost == cost_of(search.best) == cost_of(search.smallest) < cost_of(scenario)
    nearly = replace(scenario, checkpoint_interval_ms=199)
    search = _Search(
        scenario, lambda candidate: LOST if candidate.schedule.seed else None, LOST, float("inf")
    )
    assert not search._improves(nearly)
    assert search.best is scenario


def test_a_job_with_more_steps_than_its_size_asks_for_keeps_its_patience() -> None:
    patient = generated(large)
    patient = replace(patient, step_budget=3 * patient_step_budget(patient))

    def fails(candidate: Scenario) -> Signature | None:
        slow = candidate.step_budget < 1.5 * patient_step_budget(candidate)
        return STUCK if slow else stuck_with_two_bees(candidate)

    result = shrink(patient, fails, STUCK)
    assert result.scenario.step_budget == 3 * patient_step_budget(result.scenario)
    assert (result.after.records, result.after.faults) == (2, 1)
