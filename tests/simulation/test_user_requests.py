"""Savepoints in the simulated world: asked for at a point, stopped with, gone on from, never lost."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import (
    Fault,
    Operation,
    Scenario,
    ScenarioError,
    Schedule,
    check,
    from_json,
    to_json,
)
from onceproof.harness.trials.trial import try_scenario

FAMILY = load_family("word_count")


def calm(*operations: Operation) -> Scenario:
    """A scenario with input enough, no faults, and these requests."""
    scenario = next(
        each
        for each in (generate(FAMILY, seed) for seed in range(200))
        if each.record_count() > 60 and each.max_parallelism >= 4 and each.is_exactly_once
    )
    return replace(scenario, faults=(), operations=operations, checkpoint_timeout_ms=100_000)


def met(scenario: Scenario) -> Counter[str]:
    trial = try_scenario(FAMILY, scenario, continued=False)
    assert trial.verdict.violations == ()
    return Counter(kind for _, kind, _, _ in trial.history.events)


@pytest.mark.parametrize("parallelism", [0, 1, 4])
@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("backend", [None, "rocksdb"])
def test_a_job_stops_and_is_restored_from_its_savepoint(parallelism, claims, backend):
    stop = Operation("stop", "element", occurrence=40, parallelism=parallelism, state_backend=backend)
    seen = met(calm(replace(stop, claims=claims)))
    assert (seen["job_stopped"], seen["job_finished"], seen["attempt_started"]) == (1, 1, 2)


def test_savepoints_are_taken_beside_checkpoints():
    # Once all tasks run, and before any has finished.
    seen = met(calm(Operation("savepoint", "element", occurrence=40)))
    assert (seen["savepoint_completed"], seen["job_stopped"], seen["attempt_started"]) == (1, 0, 1)
    assert seen["checkpoint_completed"] > 1


def test_requests_survive_json_and_are_checked():
    scenario = calm(Operation("stop", "element", occurrence=3, parallelism=2, claims=True))
    assert from_json(to_json(scenario)) == scenario
    wrong = replace(scenario, operations=(Operation("savepoint", "element", parallelism=2),))
    with pytest.raises(ScenarioError, match=r"operations\[0\]: how the job goes on belongs to a stop"):
        check(wrong)


def test_a_process_without_a_checkpoint_names_its_savepoint_anew():
    scenario = replace(
        calm(
            Operation("savepoint", "element", occurrence=40),
            Operation("savepoint", "element", occurrence=190),
        ),
        checkpoint_interval_ms=100_000,
        schedule=Schedule(),
        faults=(Fault("kill_process", "element", occurrence=130),),
    )
    trial = try_scenario(FAMILY, scenario, continued=False)
    assert trial.verdict.violations == ()
    before, after = [event for event in trial.history.events if event[1] == "savepoint_completed"]
    assert before[2] < after[2]
    events = [event[1] for event in trial.history.events]
    assert events.index("checkpoint_completed") > events.index("savepoint_completed")
