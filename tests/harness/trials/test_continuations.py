"""A failure of restore_anywhere is explained, drawn and shrunk as the job that was restored."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.checkers import restore_anywhere
from onceproof.harness.checkers.outcome import outcome_of
from onceproof.harness.checkers.verdict import is_same_failure
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import ATTEMPT_STARTED, CHECKPOINT_COMPLETED, INPUT_READ, JOB_FINISHED
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.reporting.report_builder import failure_of
from onceproof.harness.trials.examination import examine
from onceproof.harness.trials.failures import FailureCase, explanation_of, store_failure
from onceproof.harness.trials.tally import Tally
from onceproof.harness.trials.trial import SIMULATED, scenario_of, try_scenario

CAUSE = "forgetful.py:53 in total: Total keeps `self.totals` outside Flink state"


@pytest.fixture
def family(forgetful: Path) -> Family:
    """A family whose job has its totals in no checkpoint."""
    return load_family(str(forgetful))


@pytest.fixture
def calm(family: Family) -> Scenario:
    """A scenario in which nothing goes wrong, so that only a restore shows the bug."""
    drawn = scenario_of(family, scenario_seed(0, family.name, 2))
    return replace(drawn, faults=(), operations=UNSET, mode=UNSET, seed=None)


def case_of(family: Family, scenario: Scenario, folder: Path, most_runs: int) -> FailureCase:
    """Examine a failure as a run does."""
    trial = try_scenario(family, scenario)
    assert trial.verdict.signature is not None
    examined = examine(SIMULATED, family, scenario, trial.verdict.signature, most_runs)
    tally = Tally()
    tally.add(outcome_of(trial.scenario, trial.history, trial.verdict))
    [group] = tally.groups.values()
    return store_failure(examined, SIMULATED, family, "forgetful.py", scenario, folder, group)


def test_the_run_passes_and_the_restored_job_is_shown(family: Family, calm: Scenario) -> None:
    trial = try_scenario(family, calm, trace=True)
    continuation = trial.continuation
    assert continuation is not None
    assert {each.property for each in trial.verdict.violations} == {restore_anywhere.PROPERTY}
    # The run itself is as it was: its hash is that of the run alone.
    assert trial.history.trace_hash == SIMULATED.run(family, calm).trace_hash
    events = trial.shown.events
    completed = next(event for event in events if event[1] == CHECKPOINT_COMPLETED)
    assert (completed[0], completed[2]) == (0, continuation.checkpoint)
    assert completed[3]["cut"] == continuation.cut
    started = [event for event in events if event[1] == ATTEMPT_STARTED]
    assert [event[3]["restored"] for event in started] == [continuation.checkpoint]
    assert [event[1] for event in events[-2:]] == [JOB_FINISHED, INPUT_READ]
    assert trial.shown.trace is not None
    [drawn] = trial.shown.trace["attempts"]
    assert drawn["restored"] == continuation.checkpoint


def test_explanation_and_rows_are_those_of_the_restored_job(
    family: Family, calm: Scenario, tmp_path: Path
) -> None:
    case = case_of(family, calm, tmp_path, most_runs=0)
    trial = try_scenario(family, calm, trace=True)
    continuation = trial.continuation
    assert continuation is not None
    checkpoint, parallelism = continuation.checkpoint, continuation.parallelism
    restored = (
        f"Restored from checkpoint {checkpoint} with parallelism {parallelism}, the job ends with wrong rows."
    )
    assert case.explanation.sentence.startswith(restored)
    assert case.explanation.cause.startswith(CAUSE)
    # Without a confirmed cause it says what is known.
    assert explanation_of(trial).cause.startswith(
        f"The run that took checkpoint {checkpoint} passes. A job restored from it with parallelism"
        f" {parallelism} fails, with nothing going wrong any more. Attempt "
    )
    assert "contains an unexpected row" in case.explanation.first_divergence
    assert any(f"starts from checkpoint {checkpoint}" in line for line in case.explanation.story)
    failure = failure_of(case)
    assert any(row.mark != "equal" for row in failure.rows)
    assert failure.trace is not None
    assert [attempt.restored for attempt in failure.trace.attempts] == [checkpoint]


def test_shrunk_scenario_fails_as_a_continuation_too(family: Family, calm: Scenario, tmp_path: Path) -> None:
    case = case_of(family, calm, tmp_path, most_runs=30)
    assert case.scenario.record_count() < calm.record_count()
    assert is_same_failure(case.verdict.signature, case.signature)
    assert case.verdict.signature[0] == "restore_anywhere"
    assert case.explanation.cause.startswith(CAUSE)
    assert any("[" in line for line in case.explanation.story)
