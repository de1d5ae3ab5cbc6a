"""Shrinking with few runs, on systems that are slow and not deterministic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from onceproof.harness.checkers import Violation
from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.explanation.decisions import decisions_of
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import History
from onceproof.harness.model.job_settings import CheckpointMode
from onceproof.harness.model.program_measures import SetUpProblem
from onceproof.harness.model.scenario import Fault, Operation, Scenario, Schedule, check
from onceproof.harness.model.system import System, find_system
from onceproof.harness.systems.structured.points import prepared
from onceproof.harness.trials.real_shrinking import MOST_RUNS, MOST_TRIES, RealRuns, shrink
from onceproof.harness.trials.trial import Trial, scenario_of

SIGNATURE = ("exactly_once", "duplicated")
PASSED = Verdict(())
FAILED = Verdict((Violation(*SIGNATURE, "the end of the run"),))


@pytest.fixture(scope="module")
def system() -> System:
    return find_system("structured_streaming")


def scenario_with(*faults: Fault) -> Scenario:
    drawn = scenario_of(load_family("word_count"), 6)
    return msgspec.structs.replace(drawn, faults=faults, mode=msgspec.UNSET)


def counting(fails: Callable[[Scenario], bool], **limits: Any) -> tuple[RealRuns, list[Scenario]]:
    """Runs scenarios that fail by a function of the test, and records all of them."""
    made: list[Scenario] = []

    def try_one(scenario: Scenario) -> Trial:
        check(scenario)
        made.append(scenario)
        return Trial(History(), FAILED if fails(scenario) else PASSED, scenario)

    return RealRuns(try_one, **limits), made


def has_fatal_fault(scenario: Scenario) -> bool:
    return any((fault.kind, fault.point) == ("kill_task", "committed") for fault in scenario.faults)


FATAL = Fault("kill_task", "committed")


def test_one_record_and_one_fault_remain_if_they_suffice(system: System) -> None:
    faults = (
        Fault("lose_message", "notified"),
        Fault("kill_all", "committing", occurrence=2),
        Fault("kill_process", "completed", checkpoint=1, rescale_to=2),
    )
    runs, made = counting(lambda scenario: any(fault.point == "committed" for fault in scenario.faults))
    shrunk = shrink(scenario_with(*faults), runs, system)
    assert shrunk.signature == SIGNATURE
    assert shrunk.is_finished
    assert runs.runs == len(made) < MOST_RUNS
    # What cannot strike is no part of it; the death of the driver is dearer than that of the query.
    assert [fault.kind for fault in shrunk.before.faults] == ["kill_all", "kill_process"]
    assert shrunk.scenario.faults == (Fault("kill_task", "committed", checkpoint=1),)
    assert shrunk.scenario.record_count() <= 1
    assert shrunk.scenario.seed is None
    assert shrunk.scenario.schedule == Schedule()
    assert prepared(shrunk.scenario) == shrunk.scenario
    assert shrunk.trial is not None
    assert shrunk.trial.scenario == shrunk.scenario


def test_the_record_that_causes_the_failure_remains(system: System) -> None:
    [wanted] = [value for _, value in scenario_with().records["words-2"][:1]]

    def fails(scenario: Scenario) -> bool:
        words = [value for records in scenario.records.values() for _, value in records]
        return wanted in words and has_fatal_fault(scenario)

    runs, _ = counting(fails, most_runs=100)
    shrunk = shrink(scenario_with(FATAL), runs, system)
    left = shrunk.scenario.records.values()
    assert [value for records in left for _, value in records] == [wanted]


def test_the_occurrence_of_a_fault_is_scaled_to_fewer_records() -> None:
    late = Fault("kill_all", "element", occurrence=12)

    def fails(scenario: Scenario) -> bool:
        return any(fault.occurrence <= scenario.record_count() for fault in scenario.faults)

    runs, _ = counting(fails)
    shrunk = shrink(scenario_with(late), runs, find_system("local"))
    assert shrunk.scenario.record_count() == 1
    assert shrunk.scenario.faults == (Fault("kill_task", "element"),)


def test_a_failure_without_a_fault_is_shrunk_to_no_faults(system: System) -> None:
    runs, _ = counting(lambda scenario: True)
    shrunk = shrink(scenario_with(FATAL, FATAL), runs, system)
    assert shrunk.scenario.faults == ()


def test_settings_and_requests_go_where_the_failure_does_not_need_them() -> None:
    drawn = scenario_with(FATAL)
    scenario = msgspec.structs.replace(
        drawn,
        mode=CheckpointMode("unaligned", min_pause_ms=4),
        buffer_records=3,
        watermark_interval_ms=2,
        state_backend="rocksdb",
        operations=(Operation("savepoint", "completed"), Operation("stop", "completed", parallelism=1)),
    )

    def fails(candidate: Scenario) -> bool:
        return has_fatal_fault(candidate) and candidate.checkpoint_mode.barriers == "unaligned"

    runs, _ = counting(fails, most_runs=100)
    small = shrink(scenario, runs, find_system("local")).scenario
    assert small.checkpoint_mode == CheckpointMode("unaligned")
    assert [decision.text for decision in decisions_of(small)] == [
        "kill a task at committed",
        "unaligned checkpoints",
    ]


@pytest.mark.parametrize("most_runs", [1, 3])
def test_the_limit_of_runs_is_respected(system: System, most_runs: int) -> None:
    runs, made = counting(has_fatal_fault, most_runs=most_runs)
    shrunk = shrink(scenario_with(FATAL), runs, system)
    assert shrunk.signature == SIGNATURE
    assert not shrunk.is_finished
    assert runs.runs == len(made) == most_runs


def test_without_runs_to_shrink_in_the_scenario_is_run_once(system: System) -> None:
    runs, made = counting(has_fatal_fault, most_runs=0)
    shrunk = shrink(scenario_with(FATAL), runs, system)
    assert len(made) == 1
    assert shrunk.scenario == shrunk.before
    assert shrunk.signature == SIGNATURE


def test_a_scenario_that_does_not_fail_again_is_not_shrunk(system: System) -> None:
    runs, made = counting(lambda scenario: False)
    shrunk = shrink(scenario_with(FATAL), runs, system, SIGNATURE)
    assert shrunk.signature is None
    assert made == [shrunk.before] * MOST_TRIES


def test_a_scenario_that_fails_with_another_signature_is_not_shrunk(system: System) -> None:
    runs, _ = counting(has_fatal_fault)
    shrunk = shrink(scenario_with(FATAL), runs, system, ("no_leaks", "open transaction"))
    assert shrunk.signature is None
    assert shrunk.scenario == shrunk.before


def test_a_scenario_that_fails_at_the_second_try_is_shrunk(system: System) -> None:
    passes = [True]
    runs, _ = counting(lambda scenario: has_fatal_fault(scenario) and not (passes and passes.pop()))
    shrunk = shrink(scenario_with(FATAL), runs, system, SIGNATURE)
    assert shrunk.signature == SIGNATURE
    assert shrunk.scenario.record_count() <= 1


def test_no_scenario_is_run_twice(system: System) -> None:
    runs, made = counting(has_fatal_fault)
    shrunk = shrink(scenario_with(FATAL), runs, system)
    assert runs.fails(shrunk.scenario) == SIGNATURE
    assert len(set(map(repr, made))) == len(made) == runs.runs


def test_an_input_that_the_family_refuses_does_not_count(system: System) -> None:
    whole = scenario_with(FATAL).record_count()

    def fails(scenario: Scenario) -> bool:
        if scenario.record_count() < whole:
            raise FamilyError("words.py:3: too few words")
        return has_fatal_fault(scenario)

    runs, _ = counting(fails, most_runs=100)
    shrunk = shrink(scenario_with(FATAL), runs, system)
    assert shrunk.is_finished
    assert shrunk.scenario.record_count() == whole


def test_an_interrupt_returns_the_smallest_so_far(system: System) -> None:
    def fails(scenario: Scenario) -> bool:
        if len(made) == 7:
            raise KeyboardInterrupt
        return has_fatal_fault(scenario) and scenario.record_count() > 5

    runs, made = counting(fails)
    shrunk = shrink(scenario_with(FATAL), runs, system)
    assert len(made) == 7
    assert runs.was_interrupted
    assert shrunk.signature == SIGNATURE
    assert shrunk.scenario.record_count() < shrunk.before.record_count()


def test_a_try_that_is_stuck_before_any_fault_is_followed_by_another(system: System) -> None:
    tries = 0

    def try_one(scenario: Scenario) -> Trial:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise SetUpProblem("the first row did not come")
        return Trial(History(), FAILED if has_fatal_fault(scenario) else PASSED, scenario)

    shrunk = shrink(scenario_with(FATAL), RealRuns(try_one), system)
    assert shrunk.signature == SIGNATURE
    assert shrunk.is_finished
