"""Savepoints in the simulated world: asked for at a point, stopped with, gone on from, never lost."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.engine.connectors.two_phase import TwoPhaseCommitSinkFunction
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.job_settings import CheckpointMode
from onceproof.harness.model.mutants.patching import replaced
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
from onceproof.harness.shrinking.fewer_requests import fewer_operations
from onceproof.harness.shrinking.reductions import cost_of
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.trials.trial import try_scenario

FAMILY = load_family("word_count")


def calm(*operations: Operation) -> Scenario:
    """A scenario with input enough, no faults, and these requests."""
    scenario = next(
        each
        for each in (generate(FAMILY, seed) for seed in range(200))
        if each.record_count() > 60 and each.max_parallelism >= 4 and each.is_exactly_once
    )
    mode = CheckpointMode()
    return replace(scenario, mode=mode, faults=(), operations=operations, checkpoint_timeout_ms=100_000)


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


def test_a_savepoint_to_stop_with_that_expires_is_an_error_without_a_fault():
    scenario = calm(Operation("stop", "element", occurrence=40))
    hurried = replace(scenario, checkpoint_timeout_ms=5, tolerable_failures=1_000_000)
    violations = try_scenario(FAMILY, hurried, continued=False).verdict.violations
    assert "restart without a fault" in [violation.anomaly for violation in violations]


def test_savepoints_are_taken_beside_checkpoints():
    # Once all tasks run, and before any has finished.
    seen = met(calm(Operation("savepoint", "element", occurrence=40)))
    assert (seen["savepoint_completed"], seen["job_stopped"], seen["attempt_started"]) == (1, 0, 1)
    assert seen["checkpoint_completed"] > 1


def test_requests_survive_json_and_are_checked():
    scenario = calm(Operation("stop", "element", occurrence=3, parallelism=2, claims=True))
    assert from_json(to_json(scenario)) == scenario
    wrong = replace(scenario, operations=(Operation("savepoint", "element", parallelism=2),))
    with pytest.raises(ScenarioError, match=r"operations\[0\]: how the job resumes belongs to a stop"):
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


def rescales(*parallelisms: int, point: Point = "element", occurrence: int = 40) -> tuple[Operation, ...]:
    return tuple(
        Operation("rescale", point, occurrence=occurrence * number, parallelism=parallelism)
        for number, parallelism in enumerate(parallelisms, 1)
    )


def attempts_of(scenario: Scenario) -> list[tuple[int, int | None]]:
    """Run it soundly; return the parallelism of each attempt, and the checkpoint that it has restored."""
    trial = try_scenario(FAMILY, scenario, continued=False)
    assert trial.verdict.violations == ()
    started = [payload for _, kind, _, payload in trial.history.events if kind == "attempt_started"]
    return [(payload["parallelism"], payload["restored"]) for payload in started]


def test_a_running_job_is_rescaled_from_its_latest_checkpoint_without_a_failure():
    scenario = replace(calm(*rescales(4, 1, occurrence=90)), parallelism=2, checkpoint_interval_ms=20)
    trial = try_scenario(FAMILY, scenario, continued=False)
    assert trial.verdict.violations == ()
    events = [each for each in trial.history.events if each[1] in ("attempt_started", "job_rescaled")]
    assert [kind for _, kind, _, _ in events] == ["attempt_started", *["job_rescaled", "attempt_started"] * 2]
    assert [payload["parallelism"] for _, _, _, payload in events] == [2, 4, 4, 1, 1]
    assert events[4][3]["restored"] > events[2][3]["restored"]
    assert {"task_failed", "fault_fired"}.isdisjoint(kind for _, kind, _, _ in trial.history.events)


def test_a_rescale_to_the_size_that_runs_changes_nothing():
    assert attempts_of(replace(calm(*rescales(2)), parallelism=2)) == [(2, None)]


def test_a_rescale_is_put_off_while_the_outcome_of_a_checkpoint_is_open():
    # All have acknowledged, and the answer to the write of the metadata is late.
    tasks = sum(replace(calm(), parallelism=2).parallelisms())
    asked = Operation("rescale", "acknowledged", checkpoint=1, occurrence=tasks, after=30, parallelism=3)
    late = (Fault("late_write", "metadata_written", checkpoint=1, delay=60),)
    scenario = replace(calm(asked), parallelism=2, faults=late, schedule=Schedule())
    assert attempts_of(scenario) == [(2, None), (3, 1)]


def test_a_rescale_of_a_job_that_is_down_is_kept_for_its_next_attempt():
    faults = (Fault("kill_all", "element", occurrence=60),)
    asked = Operation("rescale", "element", occurrence=60, after=2, parallelism=3)
    scenario = replace(calm(asked), parallelism=2, faults=faults, restart_delay_ms=30)
    first, second = attempts_of(scenario)
    assert (first[0], second[0]) == (2, 3)
    assert "job_rescaled" not in met(scenario)


def test_sinks_are_closed_as_a_rescale_ends_their_attempt():
    closed = []
    close = TwoPhaseCommitSinkFunction.close

    def note(sink: TwoPhaseCommitSinkFunction) -> None:
        closed.append(sink.attempt)
        close(sink)

    with replaced(TwoPhaseCommitSinkFunction, "close", note):
        assert len(attempts_of(replace(calm(*rescales(4)), parallelism=2))) == 2
    assert "1.1" in closed


def test_a_cancelled_job_leaves_what_its_savepoint_holds_to_the_job_started_from_it():
    asked = Operation("cancel", "element", occurrence=90, parallelism=3)
    scenario = replace(calm(asked), parallelism=2, checkpoint_interval_ms=20)
    trial = try_scenario(FAMILY, scenario, continued=False)
    assert trial.verdict.violations == ()
    events = trial.history.events
    (end,) = [place for place, event in enumerate(events) if event[1] == "job_stopped"]
    assert events[end][3] == {"cancelled": True}
    begun = next(place for place, event in enumerate(events) if place > end and event[1] == "attempt_started")
    taken = [event for event in events[:end] if event[1] == "checkpoint_completed"][-1]
    assert events[begun][3] == {"parallelism": 3, "restored": taken[2]}
    visible = [event[2] for event in events[:end] if event[1] == "transaction_visible"]
    left = set(taken[3]["transactions"]) - set(visible)
    assert left, "what the savepoint has prepared was committed"
    assert left <= {event[2] for event in events[begun:] if event[1] == "transaction_visible"}


def test_a_cancel_whose_savepoint_fails_leaves_the_job_running():
    asked = Operation("cancel", "element", occurrence=90)
    scenario = replace(calm(asked), parallelism=2, checkpoint_interval_ms=20, schedule=Schedule())
    for checkpoint in range(1, 8):
        refused = Fault("fail_write", "metadata_written", checkpoint=checkpoint)
        trial = try_scenario(FAMILY, replace(scenario, faults=(refused,)), continued=False)
        assert trial.verdict.violations == ()
        if "job_stopped" not in {event[1] for event in trial.history.events}:
            assert trial.history.statistics.attempts == 1
            return
    pytest.fail("no savepoint of a cancel has failed")


def test_a_process_that_dies_as_it_begins_from_a_savepoint_begins_from_it_again():
    asked = Operation("cancel", "element", occurrence=90)
    for occurrence in range(1, 12):
        faults = (Fault("fail_delete", "completed", occurrence=occurrence),)
        scenario = replace(calm(asked), parallelism=2, checkpoint_interval_ms=20, faults=faults)
        trial = try_scenario(FAMILY, scenario, continued=False)
        assert trial.verdict.violations == ()


class FixedSize(SimulatedSystem):
    """The simulation of a job whose user cannot rescale it."""

    capabilities = SimulatedSystem.capabilities - {Capability.RESCALE_RUNNING, Capability.CANCEL}


def test_rescale_is_not_applicable_where_a_running_job_cannot_be_rescaled():
    scenario = replace(calm(*rescales(4, 1)), parallelism=2)
    trial = try_scenario(FAMILY, scenario, system=FixedSize(), continued=False)
    assert trial.history.statistics.not_applicable == {("rescale", "element"): 2}
    assert trial.history.statistics.attempts == 1
    assert trial.scenario.operations is UNSET


def test_cancel_is_not_applicable_where_a_job_cannot_be_cancelled_with_a_savepoint():
    asked = Operation("cancel", "element", occurrence=90)
    trial = try_scenario(FAMILY, calm(asked), system=FixedSize(), continued=False)
    assert trial.history.statistics.not_applicable == {("cancel", "element"): 1}
    assert trial.scenario.operations is UNSET


def test_shrunk_rescale_keeps_a_parallelism_and_loses_the_rest():
    asked = Operation("rescale", "element", "sink-0", occurrence=9, after=8, parallelism=4)
    candidates = list(fewer_operations(calm(asked)))
    assert candidates[0].asked == ()
    for each in candidates:
        check(each)
    assert {each.asked[0].parallelism for each in candidates[1:]} == {1, 2, 3, 4}
    assert all(cost_of(each) < cost_of(calm(asked)) for each in candidates)
