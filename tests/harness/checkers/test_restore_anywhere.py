"""restore_anywhere: the run of a restored job, judged together with the rows visible before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.checkers.restore_anywhere import RestoredRun, check_restored

if TYPE_CHECKING:
    from tests.harness.conftest import Run


def anomalies(run: Run) -> list[str]:
    found = check_restored(run.scenario, RestoredRun(3, 2, run.history), run.oracle)
    assert {violation.property for violation in found} <= {"restore_anywhere"}
    return [violation.anomaly for violation in found]


def test_rows_before_and_after_the_checkpoint_together_pass(run: Run) -> None:
    run.start("1.1").checkpoint(1, 4).commit().start("2.1", 1).checkpoint(2, 6).commit().finish()
    assert anomalies(run) == []


def test_a_repeated_row_and_a_missing_row_are_violations(run: Run) -> None:
    run.start("1.1").checkpoint(1, 4).commit().start("2.1", 1).checkpoint(2, 6, [("owl", 2)]).commit()
    run.finish()
    assert "lost" in anomalies(run)
    (violation, *_) = check_restored(run.scenario, RestoredRun(3, 2, run.history), run.oracle)
    assert violation.where == "checkpoint 3 at parallelism 2"


def test_a_restored_job_that_does_not_finish_is_a_violation(run: Run) -> None:
    run.start("1.1").checkpoint(1, 4).commit()
    assert anomalies(run) == ["not finished"]


def test_a_checkpoint_that_cannot_be_restored_is_refused_and_nothing_else(run: Run) -> None:
    run.start("1.1")
    run.history.error(run.tick(), "count-0", "StateError", "restore", "no such state")
    (violation,) = check_restored(run.scenario, RestoredRun(3, 2, run.history), run.oracle)
    assert (violation.anomaly, violation.witness["raised"]) == ("refused", "StateError")
