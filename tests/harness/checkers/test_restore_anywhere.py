"""restore_anywhere: what came of a restored checkpoint, judged with what was visible before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.checkers.restore_anywhere import Restored, check_restored

if TYPE_CHECKING:
    from tests.harness.conftest import Run


def anomalies(run: Run) -> list[str]:
    found = check_restored(run.scenario, Restored(3, 2, run.history), run.oracle)
    assert {violation.property for violation in found} <= {"restore_anywhere"}
    return [violation.anomaly for violation in found]


def test_what_was_visible_and_what_follows_make_the_whole(run: Run) -> None:
    run.start("1.1").checkpoint(1, 4).commit().start("2.1", 1).checkpoint(2, 6).commit().finish()
    assert anomalies(run) == []


def test_a_row_that_comes_again_and_one_that_never_comes_are_told(run: Run) -> None:
    run.start("1.1").checkpoint(1, 4).commit().start("2.1", 1).checkpoint(2, 6, [("owl", 2)]).commit()
    run.finish()
    assert "lost" in anomalies(run)
    (violation, *_) = check_restored(run.scenario, Restored(3, 2, run.history), run.oracle)
    assert violation.where == "checkpoint 3 at parallelism 2"


def test_a_job_that_does_not_end_is_told_as_that(run: Run) -> None:
    run.start("1.1").checkpoint(1, 4).commit()
    assert anomalies(run) == ["not finished"]


def test_a_checkpoint_that_cannot_be_restored_is_told_before_anything_that_follows_from_it(run: Run) -> None:
    run.start("1.1")
    run.history.error(run.tick(), "count-0", "StateError", "restore", "no such state")
    (violation,) = check_restored(run.scenario, Restored(3, 2, run.history), run.oracle)
    assert (violation.anomaly, violation.witness["raised"]) == ("refused", "StateError")
