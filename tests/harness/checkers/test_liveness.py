"""liveness, on hand-written histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from onceproof.harness.checkers.liveness import Liveness
from onceproof.harness.model.history import RESTART_WAIT
from onceproof.harness.model.job_settings import Restarts

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


def test_a_job_may_give_up_where_its_restart_strategy_says_so(run: Run) -> None:
    run.scenario = replace(run.scenario, restarts=Restarts("fixed_delay", 1))
    run.start("1.1").history.wait_begun(run.tick(), RESTART_WAIT, 3, 30)
    run.start("1.2").history.job_failed(run.tick(), "a second failure")
    run.start("2.1").history.job_finished(run.tick())
    assert run.check(CHECKER) == []


def test_a_job_that_gives_up_a_restart_too_early_is_an_anomaly(run: Run) -> None:
    run.scenario = replace(run.scenario, restarts=Restarts("failure_rate", 2, window_ms=50))
    run.start("1.1").history.wait_begun(run.tick(), RESTART_WAIT, 3, 30)
    run.start("1.2").history.job_failed(run.tick(), "a second failure")
    run.start("2.1").history.job_finished(run.tick())
    assert run.check(CHECKER) == [("job failed", "step 4")]


def test_a_job_that_restarts_against_its_strategy_is_an_anomaly(run: Run) -> None:
    run.scenario = replace(run.scenario, restarts=Restarts("none"))
    run.start("1.1").history.wait_begun(run.tick(), RESTART_WAIT, 3, 30)
    run.start("1.2").history.job_finished(run.tick())
    assert run.check(CHECKER) == [("restarted too often", "step 2")]


def test_failures_count_in_the_life_of_one_process(run: Run) -> None:
    run.scenario = replace(run.scenario, restarts=Restarts("fixed_delay", 1))
    for process in ("1", "2", "3"):
        run.start(f"{process}.1").history.wait_begun(run.tick(), RESTART_WAIT, 3, 30)
        run.start(f"{process}.2")
    run.history.job_finished(run.tick())
    assert run.check(CHECKER) == []
