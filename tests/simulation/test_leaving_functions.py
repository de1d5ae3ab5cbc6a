"""Functions of a simulated job that leave: they exit, or raise what is no error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import FAULT_FIRED, INPUT_READ, JOB_FINISHED, TASK_FAILED
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.leaving_functions import RAISED, raised_by
from onceproof.harness.trials.trial import Trial, try_scenario
from tests.harness.systems.words import scenario_with
from tests.planted.catalogue import find_mutant

WORD_COUNT = load_family("word_count")


def trial_of(means: str, **details: int) -> Trial:
    """Let a function leave among the records of a job with two checkpoints behind it."""
    fault = Fault("function_leaves", "element", "count-0", occurrence=25, means=means, **details)  # type: ignore[arg-type]
    return try_scenario(WORD_COUNT, scenario_with(fault), continued=False)


@pytest.mark.parametrize("means", RAISED)
def test_function_that_leaves_is_a_failure_of_its_task(means: str) -> None:
    trial = trial_of(means)
    assert trial.verdict.violations == ()
    [failed] = [event for event in trial.history.events if event[1] == TASK_FAILED]
    assert failed[2] == "count-0"
    assert failed[3]["cause"].startswith(raised_by(means).__name__)  # type: ignore[arg-type]
    assert trial.history.statistics.attempts == 2


@pytest.mark.parametrize("means", RAISED)
def test_history_tells_by_which_means_a_function_left(means: str) -> None:
    [fired] = [event for event in trial_of(means).history.events if event[1] == FAULT_FIRED]
    assert fired[3].get("means", "") == means


@pytest.mark.parametrize("means", ["fork", "chdir"])
def test_what_takes_a_process_of_its_own_is_an_exit_in_the_simulation(
    means: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    process = os.getpid()
    trial = trial_of(means)
    assert (os.getpid(), Path.cwd(), list(tmp_path.iterdir())) == (process, tmp_path, [])
    [failed] = [event for event in trial.history.events if event[1] == TASK_FAILED]
    assert failed[3]["cause"].startswith("SystemExit")


def test_function_leaves_while_its_task_calls_it_and_no_steps_later() -> None:
    assert trial_of("", after=7).history.trace_hash == trial_of("").history.trace_hash


def test_exit_that_ends_the_process_is_success_and_the_input_is_asked_for() -> None:
    with find_mutant("exit-of-a-function-ends-the-process").applied():
        trial = trial_of("")
    assert JOB_FINISHED in [event[1] for event in trial.history.events]
    assert ("completeness", "unread input") in [
        (each.property, each.anomaly) for each in trial.verdict.violations
    ]


def test_record_at_which_a_function_left_is_lost_if_its_task_goes_on() -> None:
    with find_mutant("record-at-which-a-function-left-is-done").applied():
        trial = trial_of("stop_iteration")
    assert trial.verdict.signature is not None
    assert trial.verdict.signature[0] == "exactly_once"


def test_how_far_the_input_was_read_is_no_step_of_the_trace() -> None:
    """The event comes behind the hash, so it is in every history, and no trace hash knows it."""
    history = try_scenario(WORD_COUNT, scenario_with(), continued=False).history
    step, kind, _, payload = history.events[-1]
    assert (step, kind) == (history.statistics.steps, INPUT_READ)
    assert payload == {"read": {"x": 30, "y": 30}, "input": {"x": 30, "y": 30}}


@pytest.mark.parametrize("mutant", ["split-that-ends-ends-the-others", "job-finishes-before-its-last-commit"])
def test_success_that_comes_too_early_is_found_without_an_oracle(mutant: str) -> None:
    records = {"x": (), "y": tuple((time, "ant") for time in range(9))}
    with find_mutant(mutant).applied():
        trial = try_scenario(
            WORD_COUNT, scenario_with(records=records, source_parallelism=1), continued=False
        )
    assert "completeness" in trial.verdict.failed_properties()
