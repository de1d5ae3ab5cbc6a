"""Shrinking by few runs, and families that have a query for Structured Streaming only."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from harness.family import Workload, load_family
from harness.history import History
from harness.scenario import Fault, check
from harness.systems import structured_only
from harness.systems.structured_points import prepared
from harness.systems.structured_shrinking import MOST_RUNS, shrink
from harness.trial import Trial, check_family, scenario_of, try_scenario
from harness.verdict import Verdict

SIGNATURE = ("exactly_once", "duplicated")
FATAL = "kill_task", "committed"


def scenario_with(*faults):
    drawn = scenario_of(load_family("word_count"), 6)
    return msgspec.structs.replace(drawn, faults=faults, mode=msgspec.UNSET)


def counting(fails):
    """What runs a scenario, which fails as it is told, and a list of all that were run."""
    runs = []

    def try_one(scenario):
        check(scenario)
        runs.append(scenario)
        violation = SimpleNamespace(signature=lambda: SIGNATURE)
        return Trial(History(), Verdict((violation,) if fails(scenario) else ()), scenario)

    return try_one, runs


def has_fatal_fault(scenario):
    return any((fault.kind, fault.point) == FATAL for fault in scenario.faults)


def test_one_record_and_one_fault_are_left_where_these_are_enough():
    faults = (
        Fault("lose_message", "notified"),
        Fault("kill_all", "committing", occurrence=2),
        Fault("kill_process", "completed", checkpoint=1, rescale_to=2),
    )
    try_one, runs = counting(lambda scenario: any(fault.point == "committed" for fault in scenario.faults))
    shrunk = shrink(scenario_with(*faults), try_one)
    assert shrunk is not None
    assert shrunk.signature == SIGNATURE
    assert shrunk.runs == len(runs) < MOST_RUNS
    # The death of the driver is dearer than that of the query, which is enough.
    assert shrunk.scenario.faults == (Fault("kill_task", "committed", checkpoint=1),)
    assert shrunk.scenario.record_count() <= 1
    assert shrunk.scenario.seed is None
    assert prepared(shrunk.scenario) == shrunk.scenario


def test_the_record_that_matters_is_kept():
    [wanted] = [value for _, value in scenario_with().records["words-2"][:1]]

    def fails(scenario):
        words = [value for records in scenario.records.values() for _, value in records]
        return wanted in words and has_fatal_fault(scenario)

    try_one, _ = counting(fails)
    shrunk = shrink(scenario_with(Fault(*FATAL)), try_one, most_runs=100)
    assert shrunk is not None
    assert [value for records in shrunk.scenario.records.values() for _, value in records] == [wanted]


@pytest.mark.parametrize("most_runs", [1, 3])
def test_the_limit_of_runs_is_kept(most_runs):
    try_one, runs = counting(has_fatal_fault)
    shrunk = shrink(scenario_with(Fault(*FATAL)), try_one, most_runs)
    assert shrunk is not None
    assert shrunk.runs == len(runs) == most_runs


def test_what_does_not_fail_is_not_shrunk():
    try_one, runs = counting(has_fatal_fault)
    assert shrink(scenario_with(), try_one) is None
    assert len(runs) == 1


def test_a_family_with_a_query_only_is_a_family_and_says_where_it_runs():
    word_count = load_family("word_count")
    family = SimpleNamespace(
        name="words",
        generator_version=1,
        tasks=structured_only.tasks,
        job=structured_only.job,
        record_schema=word_count.record_schema,
        row_schema=word_count.row_schema,
        oracle_sql=word_count.oracle_sql,
        generate=lambda random: Workload({"words": [(0, "ant")]}),
        expected=word_count.expected,
    )
    check_family(family)
    verdict = try_scenario(family, scenario_of(family, 0)).verdict
    assert not verdict.passed
    assert "--system structured_streaming" in str(verdict.violations[0].witness)
