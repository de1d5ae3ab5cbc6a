"""The input of a simulated job changes: the engine's source of files notices, and the job says so."""

from __future__ import annotations

import pytest

from onceproof.harness.checkers.liveness import Liveness
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import TOPIC_CHANGES
from onceproof.harness.model.history import FAULT_FIRED, JOB_FAILED, JOB_FINISHED
from onceproof.harness.model.scenario import Fault
from onceproof.harness.trials.trial import Trial, try_scenario
from tests.harness.systems.words import scenario_with
from tests.planted.catalogue import find_mutant

WORD_COUNT = load_family("word_count")
KILL = Fault("kill_process", "completed", occurrence=2)
LIVENESS = Liveness()
MEANS = pytest.mark.parametrize("means", ["", "replaced"])


def changed(means: str) -> Fault:
    return Fault("change_input", "completed", occurrence=2, means=means)  # type: ignore[arg-type]


def trial_of(*faults: Fault, **changes: object) -> Trial:
    return try_scenario(WORD_COUNT, scenario_with(*faults, **changes), continued=True, twice=True)


@MEANS
def test_job_that_reads_a_changed_input_again_fails_and_names_the_file(means: str) -> None:
    trial = trial_of(changed(means), KILL)
    assert trial.verdict.violations == ()
    [cause] = [payload["cause"] for _, kind, _, payload in trial.history.events if kind == JOB_FAILED]
    [name] = [payload["task"] for _, kind, each, payload in trial.history.events if each == "change_input"]
    assert cause.startswith(f"file {name} is not the one that was read up to byte")


def test_file_that_is_open_and_was_replaced_is_read_to_its_end() -> None:
    trial = trial_of(changed("replaced"))
    assert trial.verdict.violations == ()
    assert JOB_FINISHED in [event[1] for event in trial.history.events]


def test_file_that_is_open_and_was_cut_is_noticed_without_a_restart() -> None:
    trial = trial_of(changed(""))
    assert trial.verdict.violations == ()
    assert JOB_FAILED in [event[1] for event in trial.history.events]


def test_job_that_gives_up_for_another_reason_is_no_report_of_the_change() -> None:
    trial = trial_of(changed(""), KILL)
    events = trial.history.events
    place = next(place for place, event in enumerate(events) if event[1] == JOB_FAILED)
    step, kind, subject, _ = events[place]
    events[place] = step, kind, subject, {"cause": "a disk is full"}
    found = LIVENESS.check(trial.scenario, trial.history, None)  # type: ignore[arg-type]
    assert [violation.anomaly for violation in found] == ["job failed"]


@MEANS
def test_input_without_an_end_is_in_no_file_and_does_not_change(means: str) -> None:
    trial = trial_of(changed(means), KILL, endless=True)
    assert trial.verdict.violations == ()
    struck = [event[2] for event in trial.history.events if event[1] == FAULT_FIRED]
    assert "change_input" not in struck


@pytest.mark.parametrize("means", TOPIC_CHANGES)
def test_simulation_has_no_topic_that_changes(means: str) -> None:
    trial = trial_of(changed(means), KILL)
    assert trial.verdict.violations == ()
    struck = [event[2] for event in trial.history.events if event[1] == FAULT_FIRED]
    assert struck == [KILL.kind]


@MEANS
def test_change_that_is_taken_for_the_end_of_a_split_is_found(means: str) -> None:
    with find_mutant("file-that-has-changed-is-at-its-end").applied():
        trial = trial_of(changed(means), KILL)
    assert "completeness" in trial.verdict.failed_properties()


def test_rows_of_two_files_are_found() -> None:
    with find_mutant("content-of-a-file-is-not-compared").applied():
        trial = trial_of(changed("replaced"), KILL)
    assert trial.verdict.signature is not None
    assert trial.verdict.signature[0] == "exactly_once"
