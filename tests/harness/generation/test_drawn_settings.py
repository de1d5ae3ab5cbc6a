"""Settings that few scenarios have: drawn beside everything else, written down, shrunk and listed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.explanation.decisions import decisions_of
from onceproof.harness.generation import drawn_settings
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    JOB_FAILED,
    JOB_FINISHED,
    SAVEPOINT_COMPLETED,
)
from onceproof.harness.model.job_settings import Restarts
from onceproof.harness.model.scenario import Scenario, from_json, to_json
from onceproof.harness.model.system import find_system, prepared
from onceproof.harness.shrinking.reductions import cost_of, simpler_settings
from onceproof.harness.trials.trial import try_scenario

SEEDS = range(400)
SAVEPOINTS = (CHECKPOINT_COMPLETED, SAVEPOINT_COMPLETED)


@pytest.fixture(scope="module")
def family() -> Family:
    return load_family("word_count")


@pytest.fixture(scope="module")
def drawn(family: Family) -> list[Scenario]:
    return [generate(family, seed) for seed in SEEDS]


def plain(scenario: Scenario) -> Scenario:
    asked = tuple([replace(each, state_backend=None) for each in scenario.asked])
    return replace(scenario, restarts=UNSET, leaves_max_parallelism=UNSET, operations=asked or UNSET)


def test_few_scenarios_have_them_and_all_else_is_as_without(
    family: Family, drawn: list[Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn_settings, "RESTARTS", 0.0)
    monkeypatch.setattr(drawn_settings, "LEFT_TO_THE_ENGINE", 0.0)
    monkeypatch.setattr(drawn_settings, "OTHER_BACKEND", 0.0)
    monkeypatch.setattr(drawn_settings, "WITHOUT_CHECKPOINTS", 0.0)
    for seed, each in zip(SEEDS, drawn, strict=True):
        as_before = plain(generate(family, seed))
        if not each.takes_checkpoints:
            stops = tuple([request for request in as_before.asked if request.kind != "cancel"])
            as_before = replace(as_before, without_checkpoints=True, operations=stops or UNSET)
        assert as_before == plain(each)
    assert 0.03 < sum(each.restarts is not UNSET for each in drawn) / len(drawn) < 0.1
    assert 0.01 < sum(not each.takes_checkpoints for each in drawn) / len(drawn) < 0.06
    assert 0.06 < sum(each.leaves_max_parallelism is True for each in drawn) / len(drawn) < 0.14


def test_jobs_end_by_each_strategy_and_the_next_submission_finishes(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn_settings, "RESTARTS", 1.0)
    ended = Counter[str]()
    for seed in range(150):
        scenario = generate(family, seed)
        trial = try_scenario(family, scenario)
        assert trial.verdict.violations == (), seed
        kinds = [kind for _, kind, _, _ in trial.history.events]
        if JOB_FAILED in kinds:
            assert isinstance(scenario.restarts, Restarts)
            if any(fault.kind == "change_input" for fault in scenario.faults):
                continue
            ended[scenario.restarts.strategy] += 1
            assert ATTEMPT_STARTED in kinds[kinds.index(JOB_FAILED) :]
            assert JOB_FINISHED in kinds
    assert set(ended) == {"none", "fixed_delay", "failure_rate", "exponential_delay"}


def test_they_are_written_down_listed_as_decisions_and_shrunk_away(drawn: list[Scenario]) -> None:
    one = next(each for each in drawn if each.restarts is not UNSET and each.leaves_max_parallelism is True)
    assert from_json(to_json(one)) == one
    withouts = [decision.without for decision in decisions_of(one)]
    assert replace(one, restarts=UNSET) in withouts
    assert replace(one, leaves_max_parallelism=UNSET) in withouts
    simpler = list(simpler_settings(one))
    assert replace(one, restarts=UNSET) in simpler
    assert cost_of(replace(one, restarts=UNSET)) < cost_of(one)


def test_a_system_that_submits_no_job_anew_runs_it_without_a_limit(drawn: list[Scenario]) -> None:
    one = next(each for each in drawn if each.restarts is not UNSET)
    assert prepared(find_system("local"), one).restarts is UNSET
    assert prepared(find_system("simulated"), one) == one
    without = next(each for each in drawn if not each.takes_checkpoints)
    assert prepared(find_system("local"), without).takes_checkpoints


def test_stops_move_state_to_the_other_backend_in_either_direction(drawn: list[Scenario]) -> None:
    moves = {
        (each.state_backend or "hashmap", operation.state_backend)
        for each in drawn
        for operation in each.asked
        if operation.state_backend
    }
    assert {("hashmap", "rocksdb"), ("rocksdb", "hashmap")} <= moves


def test_attempts_without_checkpoints_begin_anew_or_from_a_savepoint(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn_settings, "WITHOUT_CHECKPOINTS", 1.0)
    attempts = Counter[int]()
    from_savepoints = 0
    for seed in range(40):
        scenario = generate(family, seed)
        trial = try_scenario(family, scenario)
        assert trial.verdict.violations == (), seed
        restored = [each[3]["restored"] for each in trial.history.events if each[1] == ATTEMPT_STARTED]
        savepoints = {None, *(each[2] for each in trial.history.events if each[1] in SAVEPOINTS)}
        assert set(restored) <= savepoints
        from_savepoints += len(set(restored)) > 1
        attempts[len(restored)] += 1
        decisions = [decision.without for decision in decisions_of(scenario)]
        assert replace(scenario, without_checkpoints=UNSET) in decisions
    assert sum(count for number, count in attempts.items() if number > 1) > 5
    assert from_savepoints > 3


def test_a_family_of_a_user_always_takes_checkpoints(sales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn_settings, "WITHOUT_CHECKPOINTS", 1.0)
    own = load_family(str(sales))
    assert all(generate(own, seed).takes_checkpoints for seed in range(20))
