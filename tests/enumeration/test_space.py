"""The space of an enumeration: faults at the passages of a run, and second faults after them."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from onceproof.harness.model.family import Family, FamilyError, Workload
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS, JOB_FAULTS, KILLS
from onceproof.harness.model.scenario import ACTION_CLASSES, Fault, Scenario, Schedule, check
from onceproof.harness.systems.simulation.world import World
from tests.enumeration.space import (
    DELAY,
    MOST_RECORDS,
    PRIORITY_SCHEDULES,
    SHAPES,
    Case,
    Passage,
    base_scenario,
    cases,
    faults_at,
    schedules,
    with_faults,
)
from tests.enumeration.watched_world import watched_run

SMALLEST = Case(SHAPES[0], Schedule())
SAMPLE = 7
"""One fault in this many is tried."""


@pytest.fixture(scope="module")
def family() -> Family:
    return load_family("word_count")


@pytest.fixture(scope="module")
def base(family: Family) -> Scenario:
    return base_scenario(family, SMALLEST)


def test_jobs_are_the_smallest_on_all_schedules(family: Family) -> None:
    assert len(cases()) == 2 * (1 + PRIORITY_SCHEDULES)
    for case in cases():
        scenario = base_scenario(family, case)
        check(scenario)
        assert scenario.record_count() == MOST_RECORDS
        assert tuple(scenario.parallelisms()) == tuple(case.shape)


def test_each_class_of_actions_is_first_in_one_schedule_and_last_in_another() -> None:
    orders = [schedule.priorities for schedule in schedules() if schedule.kind == "priority"]
    assert len({tuple(sorted(order.items())) for order in orders}) == PRIORITY_SCHEDULES
    for name in ACTION_CLASSES:
        ranks = {order[name] for order in orders}
        assert min(ranks) == 0
        assert max(ranks) == len(ACTION_CLASSES) - 1


def test_an_undisturbed_run_has_a_checkpoint_in_the_middle_and_one_at_the_end(
    family: Family, base: Scenario
) -> None:
    history, _, _ = watched_run(family, base)
    cuts = [sum(event[3]["cut"].values()) for event in history.events if event[1] == "checkpoint_completed"]
    assert len(cuts) == 2
    assert 0 < cuts[0] <= cuts[1] == MOST_RECORDS


def test_a_watched_run_equals_the_run_without_watching(family: Family, base: Scenario) -> None:
    fault = Fault("duplicate_message", "acknowledged", "count-0", 1, delay=3)
    for scenario in (base, with_faults(base, fault)):
        assert watched_run(family, scenario)[0].trace_hash == World(family, scenario).run().trace_hash


def test_a_first_fault_fires_or_finds_no_task_to_kill(family: Family, base: Scenario) -> None:
    _, passages, _ = watched_run(family, base)
    faults = faults_at(passages)
    assert len(faults) == len(set(faults))
    struck: Counter[int] = Counter()
    tried = faults[::SAMPLE]
    for fault in tried:
        history = World(family, with_faults(base, fault)).run()
        struck[sum(history.statistics.coverage.values())] += 1
        assert history.statistics.coverage in ({}, {(fault.kind, fault.point): 1})
    assert set(struck) <= {0, 1}
    assert struck[1] > 0.95 * len(tried)


def test_all_kinds_are_tried_at_all_points_that_an_undisturbed_run_passes(
    family: Family, base: Scenario
) -> None:
    _, passages, _ = watched_run(family, base)
    tried = {(fault.kind, fault.point) for fault in faults_at(passages)}
    # A sink aborts a transaction only when something has failed, and a task declines a checkpoint.
    assert tried == {
        (kind, point)
        for kind in JOB_FAULTS
        for point in FAULTS[kind].points
        if point not in ("aborted", "declined")
    }


@pytest.mark.parametrize(
    "first",
    [
        Fault("kill_task", "committing", "sink-0", 1),
        Fault("kill_process", "completed", "coordinator", 1),
        Fault("lose_message", "acknowledged", "count-0", 1),
        Fault("fail_commit", "committing", "sink-0", 0),
        Fault("late_put", "snapshotted", "sink-0", 1, delay=DELAY),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.point}",
)
def test_a_second_fault_strikes_after_the_first_at_its_own_passage(
    family: Family, base: Scenario, first: Fault
) -> None:
    _, passages, [(_, at)] = watched_run(family, with_faults(base, first))
    after: Counter[str] = Counter()
    seconds = faults_at(passages[at:], [(first, passages[at])])
    kills = [each for each in seconds if each.kind in KILLS and each.point in ("restoring", "completed")]
    for second in dict.fromkeys([*seconds[::SAMPLE], *kills]):
        _, _, struck = watched_run(family, with_faults(base, first, second))
        assert struck[0] == (first, at)
        if len(struck) == 2:
            assert struck[1][0] == second
            assert struck[1][1] >= at
            after[second.point] += second.kind in KILLS
    # A kill is met again in the recovery from another kill.
    assert (after["restoring"] > 0) == (first.kind in KILLS or first.kind == "fail_commit")
    assert after["completed"]


def test_a_fault_hides_its_passage_from_later_faults() -> None:
    passages = [Passage(True, "restored", "sink-0", 0, number) for number in (1, 2)]
    [first] = faults_at(passages[:1])[:1]
    assert first.occurrence == 1
    seconds = faults_at(passages[1:], [(first, passages[0])])
    assert {fault.occurrence for fault in seconds} == {1}
    others = faults_at([Passage(True, "restored", "count-0", 0, 2)], [(first, passages[0])])
    assert {fault.occurrence for fault in others} == {2}


def test_a_family_without_small_input_is_refused(family: Family) -> None:
    class Large:
        name = "large"
        generator_version = 1

        def generate(self, random: Random) -> Workload:
            return Workload({"only": [(0, "a")]})

    with pytest.raises(FamilyError, match="'large': of 1000 workloads none has 1 splits of 4 records"):
        base_scenario(Large(), SMALLEST)  # type: ignore[arg-type]
