"""fencing, on hand-written histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.checkers.fencing import Fencing

if TYPE_CHECKING:
    from tests.harness.conftest import Run

CHECKER = Fencing()


def test_a_correct_run_with_kills_passes(sound_run: Run) -> None:
    assert sound_run.check(CHECKER) == []


def test_an_old_transaction_listed_before_the_restart_may_be_committed(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).fault().start("1.2", restored=1).commit()
    assert run.check(CHECKER) == []


def test_an_old_transaction_not_listed_before_the_restart_is_a_zombie_commit(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit().fault().start("1.2", restored=1)
    run.history.transaction_visible(run.tick(), "t0-1-1.1", 0, "1.1", 1, [("bee", 2)])
    assert run.check(CHECKER) == [("zombie commit", "transaction t0-1-1.1")]


def test_an_old_transaction_listed_only_after_the_restart_is_a_zombie_commit(run: Run) -> None:
    run.start("1.1").fault().start("1.2")
    run.history.checkpoint_completed(run.tick(), 1, "1.2", {"words": 2}, ("old",))
    run.history.transaction_visible(run.tick(), "old", 0, "1.1", 0, [("bee", 1)])
    assert run.check(CHECKER) == [("zombie commit", "transaction old")]


def test_a_checkpoint_completed_by_a_dead_attempt_is_a_zombie(run: Run) -> None:
    run.start("1.1").fault().start("1.2")
    run.history.checkpoint_completed(run.tick(), 1, "1.1", {"words": 2}, ())
    assert run.check(CHECKER) == [("zombie checkpoint", "checkpoint 1")]


def test_a_snapshot_of_an_older_attempt_is_foreign(run: Run) -> None:
    run.start("1.1").fault("kill_process", "acknowledged").start("2.1")
    run.history.checkpoint_completed(run.tick(), 1, "2.1", {"words": 0}, (), ("1.1", "2.1"))
    assert run.check(CHECKER) == [("foreign snapshot", "checkpoint 1")]


def test_a_checkpoint_with_unknown_writers_passes(run: Run) -> None:
    run.start("1.1")
    run.history.checkpoint_completed(run.tick(), 1, "1.1", {"words": 0}, ())
    assert run.check(CHECKER) == []


def test_a_checkpoint_found_complete_by_a_new_process_before_it_restores_passes(run: Run) -> None:
    run.start("1.1").fault("kill_process", "metadata_written").checkpoint(1, 2).start(
        "2.1", restored=1
    ).commit()
    assert run.check(CHECKER) == []


def test_a_transaction_that_becomes_visible_again_is_an_anomaly(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit().commit("t0-0-1.1")
    assert run.check(CHECKER) == [("visible twice", "transaction t0-0-1.1")]


def test_rows_that_were_visible_and_are_gone_are_an_anomaly(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit()
    run.history.transaction_hidden(run.tick(), "t0-0-1.1")
    assert run.check(CHECKER) == [("hidden", "transaction t0-0-1.1")]


def test_rows_that_a_look_finds_no_more_are_hidden(run: Run) -> None:
    run.start("1")
    run.history.rows_found(run.tick(), "look 1", "1", [("ant", 1), ("bee", 1)])
    run.history.rows_gone(run.tick(), "look 2", [("bee", 1)])
    assert run.check(CHECKER) == [("hidden", "look 2")]
