"""exactly_once, on hand-written histories."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.model.scenario import Scenario

if TYPE_CHECKING:
    from tests.harness.conftest import Run

CHECKER = ExactlyOnce()


def test_a_correct_run_with_kills_passes(sound_run: Run) -> None:
    assert sound_run.check(CHECKER) == []


def test_a_job_without_input_and_without_output_passes(
    make_scenario: Callable[..., Scenario], run: Run
) -> None:
    run.start("1.1").finish()
    run.oracle = type(run.oracle)(run.oracle._family, make_scenario(records={"words": ()}))
    assert run.check(CHECKER) == []


def test_the_order_of_rows_and_of_commits_does_not_count(run: Run) -> None:
    run.start("1.1").checkpoint(
        1, 6, [("bee", 2), ("toad", 1), ("owl", 2), ("owl", 1), ("ant", 1), ("bee", 1)]
    )
    run.commit("t1-0-1.1", "t0-0-1.1").finish()
    assert run.check(CHECKER) == []


def test_a_transaction_that_is_never_committed_is_lost(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit("t0-0-1.1").checkpoint(2, 6).commit(
        "t0-1-1.1", "t1-1-1.1"
    ).finish()
    assert run.check(CHECKER) == [("lost", "the end of the run")]
    (violation,) = CHECKER.check(run.scenario, run.history, run.oracle)
    assert violation.witness == {
        "rows": [{"row": ["owl", 1], "expected": 1, "visible": 0, "transactions": []}],
        "count": 1,
    }


def test_rows_missing_in_a_run_that_was_cut_off_are_not_lost(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit("t0-0-1.1")
    run.history.budget_exhausted(run.tick())
    assert run.check(CHECKER) == []


def test_records_applied_twice_give_phantom_rows(run: Run) -> None:
    # Offsets are missing from the snapshot: the whole input is read again on top of the counts.
    run.start("1.1").checkpoint(1, 6).commit().fault().start("1.2", restored=1)
    run.checkpoint(2, 6, [("bee", 3), ("owl", 3), ("bee", 4)]).commit().finish()
    assert run.check(CHECKER) == [("phantom", "transaction t0-1-1.2")]


def test_output_committed_twice_under_two_names_is_duplicated(run: Run) -> None:
    run.start("1.1").checkpoint(1, 6).commit().fault().start("1.2", restored=1)
    run.checkpoint(2, 6, [("owl", 1)]).commit().finish()
    assert run.check(CHECKER) == [("duplicated", "transaction t1-1-1.2")]
    (violation,) = CHECKER.check(run.scenario, run.history, run.oracle)
    assert violation.witness["rows"][0]["visible"] == 2
    assert violation.witness["rows"][0]["transactions"] == ["t1-0-1.1", "t1-1-1.2"]


def test_duplicates_are_found_in_a_run_that_was_cut_off(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit().checkpoint(2, 2, [("bee", 1)]).commit()
    assert run.check(CHECKER) == [("duplicated", "transaction t0-1-1.1")]


def test_a_row_that_differs_in_its_last_column_is_a_wrong_value(run: Run) -> None:
    rows = [("bee", 1), ("owl", 1), ("bee", 2), ("toad", 1), ("ant", 1), ("owl", 7)]
    run.start("1.1").checkpoint(1, 6, rows).commit().finish()
    assert run.check(CHECKER) == [("wrong value", "transaction t1-0-1.1")]


def test_a_wrong_value_does_not_hide_a_lost_row_of_the_same_key(run: Run) -> None:
    rows = [("bee", 9), ("owl", 1), ("toad", 1), ("ant", 1), ("owl", 2)]
    run.start("1.1").checkpoint(1, 6, rows).commit().finish()
    assert [anomaly for anomaly, _ in run.check(CHECKER)] == ["lost", "wrong value"]


def test_a_row_of_a_key_that_the_input_does_not_hold_is_a_phantom(run: Run) -> None:
    run.start("1.1").checkpoint(1, 6).commit().checkpoint(2, 6, [("yak", 1)]).commit().finish()
    assert run.check(CHECKER) == [("phantom", "transaction t1-1-1.1")]


def test_the_witness_shows_a_few_rows_and_their_number(
    make_scenario: Callable[..., Scenario], run: Run
) -> None:
    many = make_scenario(records={"words": tuple((index, f"w{index}") for index in range(40))})
    run.oracle = type(run.oracle)(run.oracle._family, many)
    run.start("1.1").finish()
    (violation,) = CHECKER.check(many, run.history, run.oracle)
    assert violation.witness["count"] == 40
    assert len(violation.witness["rows"]) == 5


def test_rows_that_looks_find_and_lose_count_as_they_are_in_the_end(run: Run) -> None:
    rows = [row for row, count in run.oracle.rows().items() for _ in range(count)]
    run.start("1")
    run.history.rows_found(run.tick(), "look 1", "1", [*rows, rows[0]])
    assert run.finish().check(CHECKER) == [("duplicated", "transaction look 1")]
    run.history.events.pop()
    run.history.rows_gone(run.tick(), "look 2", [rows[0]])
    assert run.finish().check(CHECKER) == []


def test_an_attempt_that_answers_a_key_twice_has_answered_again(run: Run) -> None:
    run.oracle.answers = lambda row: row[0]
    run.start("1.1").checkpoint(1, 1).commit().fault().start("1.2", restored=1)
    run.checkpoint(2, 6).commit().finish()
    # (bee, 1) is of the first attempt, and (bee, 2) is the first of the second one.
    assert run.check(CHECKER) == [("answered again", "transaction t1-1-1.2")]
    (violation,) = CHECKER.check(run.scenario, run.history, run.oracle)
    assert violation.witness == {
        "step": 9,
        "attempt": "1.2",
        "row": ["owl", 2],
        "transactions": ["t1-1-1.2", "t1-1-1.2"],
        "times": 2,
    }


def test_each_attempt_may_answer_a_key_again(run: Run) -> None:
    run.oracle.answers = lambda row: row[0]
    run.start("1.1").checkpoint(1, 2).commit().fault().start("1.2", restored=1)
    run.checkpoint(2, 5).commit().fault().start("1.3", restored=2)
    run.checkpoint(3, 6).commit().finish()
    assert run.check(CHECKER) == []


def test_an_answer_in_flight_may_come_with_that_of_the_next_attempt(run: Run) -> None:
    run.oracle.answers = lambda row: row[0]
    run.start("1.1").checkpoint(1, 0, in_flight=2).commit().fault().start("1.2", restored=1)
    run.checkpoint(2, 6).commit().finish()
    assert run.check(CHECKER) == []


def test_rows_that_are_no_answers_may_be_repeated(run: Run) -> None:
    run.oracle.answers = lambda row: None
    run.start("1.1").checkpoint(1, 6).commit().finish()
    assert run.check(CHECKER) == []
