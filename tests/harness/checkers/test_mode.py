"""mode: at-least-once, on hand-written histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.mode import Mode
from onceproof.harness.model.job_settings import CheckpointMode

if TYPE_CHECKING:
    from collections.abc import Callable

    from onceproof.harness.model.scenario import Scenario
    from tests.harness.conftest import Run

CHECKER = Mode()


@pytest.fixture
def counted(run: Run, make_scenario: Callable[..., Scenario]) -> Run:
    """A run of a job that may count records twice."""
    run.scenario = make_scenario(mode=CheckpointMode("at_least_once"))
    return run


def test_mode_judges_at_least_once_and_exactly_once_the_rest(counted: Run, run: Run) -> None:
    counted.start("1.1").checkpoint(1, 2).finish()
    assert counted.check(ExactlyOnce()) == []
    assert counted.check(CHECKER) != []


def test_a_run_without_a_failure_has_every_row_once(counted: Run) -> None:
    counted.start("1.1").checkpoint(1, 2).commit().checkpoint(2, 6).commit().finish()
    assert counted.check(CHECKER) == []


def test_a_row_that_is_repeated_without_a_failure_is_an_anomaly(counted: Run) -> None:
    counted.start("1.1").checkpoint(1, 2).commit()
    counted.checkpoint(2, 6, rows=[("bee", 1), ("bee", 2), ("toad", 1), ("ant", 1), ("owl", 2)]).commit()
    assert counted.finish().check(CHECKER) == [("repeated without a failure", "transaction t0-1-1.1")]


def test_after_a_failure_rows_may_be_repeated(counted: Run) -> None:
    counted.start("1.1").checkpoint(1, 2).commit().fault().start("1.2", restored=1)
    counted.checkpoint(2, 6, rows=[("bee", 1), ("bee", 2), ("toad", 1), ("ant", 1), ("owl", 2)]).commit()
    assert counted.finish().check(CHECKER) == []


def test_an_unexpected_row_is_a_phantom_unless_the_family_excuses_it(counted: Run) -> None:
    counted.start("1.1").checkpoint(1, 2).commit().fault().start("1.2", restored=1)
    counted.checkpoint(2, 6, rows=[("bee", 2), ("bee", 3), ("toad", 1), ("ant", 1), ("owl", 2)]).commit()
    assert counted.finish().check(CHECKER) == [("phantom", "transaction t0-1-1.2")]
    counted.oracle.at_least_once = "effects"
    assert counted.check(CHECKER) == []


def test_a_row_missing_at_the_end_is_lost_even_after_a_failure(counted: Run) -> None:
    counted.start("1.1").checkpoint(1, 2).commit().fault().start("1.2", restored=1)
    counted.checkpoint(2, 6, rows=[("bee", 2), ("toad", 1), ("ant", 1)]).commit()
    assert counted.check(CHECKER) == [], "it may still come"
    assert counted.finish().check(CHECKER) == [("lost", "the end of the run")]


@pytest.fixture
def begun_anew(run: Run, make_scenario: Callable[..., Scenario]) -> Run:
    """A run of a job without checkpoints that has failed behind the commit of its first sink subtask."""
    run.scenario = make_scenario(without_checkpoints=True)
    run.start("1.1").write(6).commit("t0-0-1.1").fault().start("1.2")
    return run


def test_without_checkpoints_each_attempt_may_show_every_row(begun_anew: Run) -> None:
    begun_anew.write(6).commit("t0-0-1.2", "t1-0-1.2").finish()
    assert begun_anew.check(CHECKER) == []
    assert begun_anew.check(ExactlyOnce()) == []


def test_without_checkpoints_rows_of_an_earlier_attempt_are_no_excuse(begun_anew: Run) -> None:
    begun_anew.write(6).commit("t1-0-1.2")
    assert begun_anew.check(CHECKER) == []
    assert begun_anew.finish().check(CHECKER) == [("lost", "transaction t0-0-1.1")]


def test_without_checkpoints_an_attempt_repeats_nothing_of_its_own(begun_anew: Run) -> None:
    begun_anew.write(6).commit("t0-0-1.2", "t1-0-1.2", "t1-0-1.2").finish()
    assert begun_anew.check(CHECKER) == [("repeated within an attempt", "transaction t1-0-1.2")]


def test_without_checkpoints_none_completes(begun_anew: Run) -> None:
    assert begun_anew.checkpoint(1, 2).check(CHECKER) == [("unasked checkpoint", "checkpoint 1")]


def test_without_checkpoints_attempts_behind_a_savepoint_go_on_from_its_rows(begun_anew: Run) -> None:
    begun_anew.checkpoint(1, 2, is_savepoint=True).commit("t0-0-1.2", "t1-0-1.2").start("2.1", restored=1)
    begun_anew.write(6).fault().start("2.2", restored=1).write(6).commit("t0-1-2.2", "t1-1-2.2")
    assert begun_anew.finish().check(CHECKER) == []


def test_without_checkpoints_a_row_before_a_savepoint_does_not_come_again(begun_anew: Run) -> None:
    begun_anew.checkpoint(1, 2, is_savepoint=True).commit("t0-0-1.2", "t1-0-1.2").start("2.1", restored=1)
    begun_anew.offset = 0
    begun_anew.write(6).commit("t0-1-2.1", "t1-1-2.1").finish()
    assert begun_anew.check(CHECKER) == [("repeated within an attempt", "transaction t0-1-2.1")]


def test_without_checkpoints_a_row_before_a_savepoint_is_not_lost(begun_anew: Run) -> None:
    begun_anew.checkpoint(1, 2, is_savepoint=True).start("2.1", restored=1)
    begun_anew.write(6).commit("t0-1-2.1", "t1-1-2.1").finish()
    assert [anomaly for anomaly, _ in begun_anew.check(CHECKER)] == ["lost"]
