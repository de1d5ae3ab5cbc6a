"""liveness, on hand-written histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.checkers.liveness import Liveness

if TYPE_CHECKING:
    from tests.harness.conftest import Run

CHECKER = Liveness()


def test_a_job_that_finished_after_its_kills_passes(sound_run: Run) -> None:
    assert sound_run.check(CHECKER) == []


def test_leaks_found_after_the_end_do_not_hide_that_the_job_finished(sound_run: Run) -> None:
    sound_run.history.leak(sound_run.tick(), "open transaction", "t0-4-2.2")
    assert sound_run.check(CHECKER) == []


def test_a_run_that_used_up_its_budget_is_stuck_with_its_last_progress(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit().fault().start("1.2", restored=1)
    run.history.budget_exhausted(1000)
    assert run.check(CHECKER) == [("stuck", "step 1000")]
    (violation,) = CHECKER.check(run.scenario, run.history, run.oracle)
    assert violation.witness["last checkpoint"] == {"step": 2, "which": 1}
    assert violation.witness["last attempt"]["which"] == "1.2"


def test_a_job_that_gave_up_is_an_anomaly_with_its_cause(run: Run) -> None:
    run.start("1.1")
    run.history.job_failed(run.tick(), "no restarts left")
    assert run.check(CHECKER) == [("job failed", "step 2")]
    (violation,) = CHECKER.check(run.scenario, run.history, run.oracle)
    assert violation.witness["cause"] == "no restarts left"


def test_a_run_that_just_ended_is_unfinished(run: Run) -> None:
    assert run.start("1.1").check(CHECKER) == [("unfinished", "step 1")]


def test_a_run_without_any_event_is_unfinished(run: Run) -> None:
    assert run.check(CHECKER) == [("unfinished", "step 0")]
