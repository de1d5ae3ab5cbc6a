"""consistent_cut, on hand-written histories."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest
from msgspec.structs import replace

from onceproof.harness.checkers.consistent_cut import ConsistentCut
from onceproof.harness.model.job_settings import CheckpointMode

if TYPE_CHECKING:
    from tests.harness.conftest import Run

CHECKER = ConsistentCut()


def test_a_correct_run_with_kills_passes(sound_run: Run) -> None:
    assert sound_run.check(CHECKER) == []


def test_sinks_that_commit_one_after_another_pass(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).checkpoint(2, 6)
    # Sink 1 commits both of its transactions before sink 0 commits its first.
    run.commit("t1-0-1.1", "t1-1-1.1", "t0-0-1.1", "t0-1-1.1").finish()
    assert run.check(CHECKER) == []


def test_a_lost_notification_repaired_by_the_next_checkpoint_passes(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit("t0-0-1.1").checkpoint(2, 4).commit().checkpoint(3, 6).commit()
    assert run.finish().check(CHECKER) == []


def test_a_transaction_visible_before_any_checkpoint_is_an_early_commit(run: Run) -> None:
    run.start("1.1")
    run.history.transaction_visible(run.tick(), "t0-0-1.1", 0, "1.1", 0, [("bee", 1)])
    run.checkpoint(1, 2)
    assert run.check(CHECKER) == [("early commit", "transaction t0-0-1.1")]


def test_a_transaction_that_only_a_later_checkpoint_lists_is_an_early_commit(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit()
    run.history.transaction_visible(run.tick(), "t0-1-1.1", 0, "1.1", 1, [("bee", 2)])
    run.checkpoint(2, 3)
    assert run.check(CHECKER) == [("early commit", "transaction t0-1-1.1")]


def test_an_early_commit_causes_no_further_wrong_cuts(run: Run) -> None:
    run.start("1.1")
    run.history.transaction_visible(run.tick(), "t0-0-1.1", 0, "1.1", 0, [("bee", 1)])
    run.checkpoint(1, 2).commit("t1-0-1.1").checkpoint(2, 6).commit().finish()
    assert [anomaly for anomaly, _ in run.check(CHECKER)].count("wrong cut") == 0


def test_a_sink_subtask_that_commits_its_later_transaction_first_is_out_of_order(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).checkpoint(2, 6).commit("t0-1-1.1", "t0-0-1.1")
    assert run.check(CHECKER) == [("out of order", "transaction t0-0-1.1")]


def test_two_sink_subtasks_need_not_commit_in_the_order_of_epochs(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).checkpoint(2, 6).commit("t0-0-1.1", "t0-1-1.1", "t1-0-1.1", "t1-1-1.1")
    assert run.check(CHECKER) == []


def test_a_commit_that_failed_may_follow_later_ones(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).checkpoint(2, 6).commit_failed("t0-0-1.1")
    run.commit("t0-1-1.1", "t1-0-1.1", "t1-1-1.1", "t0-0-1.1")
    assert run.check(CHECKER) == []


def test_only_the_failed_commit_itself_is_excused(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).checkpoint(2, 6).commit_failed("t1-0-1.1").commit(
        "t0-1-1.1", "t0-0-1.1"
    )
    assert run.check(CHECKER) == [("out of order", "transaction t0-0-1.1")]


def test_an_attempt_that_commits_its_own_output_first_skipped_a_commit(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit("t0-0-1.1").fault().start("1.2", restored=1)
    run.pending.clear()
    run.checkpoint(2, 6).commit("t0-1-1.2")
    assert run.check(CHECKER) == [("skipped commit", "transaction t0-1-1.2")]


def test_a_restore_may_commit_in_any_order_before_new_output(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).fault().start("1.2", restored=1).commit("t1-0-1.1", "t0-0-1.1")
    assert run.checkpoint(2, 6).commit("t1-1-1.2", "t0-1-1.2").check(CHECKER) == []


def test_a_restore_from_an_older_checkpoint_than_the_latest_is_stale(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).checkpoint(2, 3).start("1.2", restored=1)
    assert run.check(CHECKER) == [("stale restore", "attempt 1.2")]


def test_a_restart_without_the_completed_checkpoint_is_stale(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).start("1.2")
    assert run.check(CHECKER) == [("stale restore", "attempt 1.2")]


def test_a_job_that_has_lost_its_checkpoints_begins_anew_before_any_row(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).fault("lose_folder")
    run.pending.clear()
    run.start("2.1").checkpoint(1, 6).commit().finish()
    assert run.check(CHECKER) == []


def test_a_job_that_has_lost_its_checkpoints_must_not_begin_anew_behind_rows(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit().fault("lose_folder").start("2.1")
    assert run.check(CHECKER) == [("stale restore", "attempt 2.1")]


def test_a_restart_without_state_before_any_checkpoint_passes(run: Run) -> None:
    run.start("1.1").fault().start("1.2").checkpoint(1, 6).commit().finish()
    assert run.check(CHECKER) == []


def test_rows_of_records_behind_the_barrier_make_a_wrong_cut(run: Run) -> None:
    # The record at offset 2 overtook the barrier: its row is in the transaction, the cut is before it.
    run.start("1.1").checkpoint(1, 2, [("bee", 1), ("owl", 1), ("bee", 2)]).commit()
    assert run.check(CHECKER) == [("wrong cut", "checkpoint 1")]
    (violation,) = CHECKER.check(run.scenario, run.history, run.oracle)
    assert violation.witness["not of the cut"] == [["bee", 2]]
    assert violation.witness["cut"] == {"words": 2}


def test_a_row_missing_from_a_checkpoint_makes_a_wrong_cut(run: Run) -> None:
    run.start("1.1").checkpoint(1, 3, [("bee", 1), ("owl", 1)]).commit()
    assert run.check(CHECKER) == [("wrong cut", "checkpoint 1")]


def test_new_input_without_new_transactions_makes_a_wrong_cut(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit()
    run.history.checkpoint_completed(run.tick(), 2, "1.1", {"words": 4}, ())
    assert run.check(CHECKER) == [("wrong cut", "checkpoint 2")]


def test_a_checkpoint_without_new_input_and_without_transactions_passes(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit()
    run.history.checkpoint_completed(run.tick(), 2, "1.1", {"words": 2}, ())
    assert run.check(CHECKER) == []


def test_a_wrong_cut_is_found_when_its_last_transaction_is_visible(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2, [("bee", 1)]).commit("t0-0-1.1")
    assert run.check(CHECKER) == []
    assert run.commit("t1-0-1.1").check(CHECKER) == [("wrong cut", "checkpoint 1")]


# Records in flight, and at-least-once.


def test_rows_of_records_in_flight_may_be_missing_from_the_cut(run: Run) -> None:
    run.start("1.1").checkpoint(1, 3, rows=[("bee", 1)], in_flight=2).commit()
    assert run.check(CHECKER) == []


def test_rows_missing_from_a_cut_without_records_in_flight_are_a_wrong_cut(run: Run) -> None:
    run.start("1.1").checkpoint(1, 3, rows=[("bee", 1)]).commit()
    assert run.check(CHECKER) == [("wrong cut", "checkpoint 1")]


def test_a_row_from_behind_the_cut_is_wrong_even_with_records_in_flight(run: Run) -> None:
    run.start("1.1").checkpoint(1, 1, rows=[("bee", 1), ("owl", 1)], in_flight=5).commit()
    assert run.check(CHECKER) == [("wrong cut", "checkpoint 1")]


def test_at_least_once_may_show_rows_from_behind_the_cut(run: Run) -> None:
    run.scenario = replace(run.scenario, mode=CheckpointMode("at_least_once"))
    run.start("1.1").checkpoint(1, 1, rows=[("bee", 1), ("owl", 1)]).commit()
    assert run.check(CHECKER) == []


def test_at_least_once_must_show_all_rows_before_the_cut(run: Run) -> None:
    run.scenario = replace(run.scenario, mode=CheckpointMode("at_least_once"))
    run.start("1.1").checkpoint(1, 2, rows=[("bee", 1)]).commit()
    assert run.check(CHECKER) == [("wrong cut", "checkpoint 1")]


def batches(run: Run, attempt: str, *epochs: int) -> list[str]:
    """Show what checkpoint 1 and 2 list of subtask 0, as batches of a write-ahead sink, in an order."""
    run.start("1.1").checkpoint(1, 2).checkpoint(2, 4)
    if attempt != "1.1":
        run.fault().start(attempt, restored=2)
    for epoch in epochs:
        name = f"t0-{epoch}-1.1"
        run.history.transaction_visible(run.tick(), name, 0, "1.1", epoch, run.contents[name][3], waits=True)
    return [anomaly for anomaly, _ in run.check(CHECKER)]


def test_restored_write_ahead_batches_may_be_committed_in_any_order(run: Run) -> None:
    assert batches(run, "1.2", 1, 0) == []


def test_write_ahead_batches_of_the_running_attempt_keep_their_order(run: Run) -> None:
    assert batches(run, "1.1", 1, 0) == ["out of order"]


REFUSED = "refused"
"""The target answers that it has not taken a batch; the ones behind it are tried all the same."""
HELD = "held"
"""It answers with an error, so the ones behind it wait."""
LATE = "late"
"""It answers with an error, and takes the batch at some later time."""
Try: TypeAlias = int | tuple[int, str] | None
"""The epoch of a batch that is sent, or of one that is not and why not; None: a checkpoint completes."""


def in_order(run: Run, *tries: Try) -> list[str]:
    """Show tries of the running attempt's subtask 0."""
    run.start("1.1")
    checkpoint = 0
    for tried in tries:
        if tried is None:
            checkpoint += 1
            run.checkpoint(checkpoint, checkpoint)
        elif isinstance(tried, int):
            name = f"t0-{tried}-1.1"
            rows = run.contents[name][3]
            run.history.transaction_visible(run.tick(), name, 0, "1.1", tried, rows, waits=True)
        else:
            epoch, how = tried
            if how == LATE:
                run.history.fault_fired(run.tick(), "late_commit", "committing", "sink-0")
            run.history.commit_failed(run.tick(), f"t0-{epoch}-1.1", holds_back=how == HELD)
    return [anomaly for anomaly, _ in run.check(CHECKER)]


@pytest.mark.parametrize(
    "tries",
    [
        (None, (0, REFUSED), None, (0, REFUSED), (1, REFUSED), None, 0, 1, 2),
        (None, (0, HELD), None, (0, HELD), None, 0, 1, 2),
    ],
)
def test_refused_batches_that_come_oldest_first_pass(run: Run, tries: tuple[Try, ...]) -> None:
    assert in_order(run, *tries) == []


@pytest.mark.parametrize(
    "tries",
    [
        (None, (0, REFUSED), None, (0, REFUSED), 1, None, 0, 2),
        (None, (0, REFUSED), None, (0, REFUSED), (1, REFUSED), None, (0, REFUSED), 1, 2),
    ],
)
def test_batch_may_overtake_one_refused_right_before_it(run: Run, tries: tuple[Try, ...]) -> None:
    assert in_order(run, *tries) == []


def test_two_refused_batches_that_come_in_reverse_are_out_of_order(run: Run) -> None:
    tries = (None, (0, REFUSED), None, (0, REFUSED), (1, REFUSED), None, 1, 0)
    assert in_order(run, *tries) == ["out of order"]


def test_batch_that_was_not_tried_since_a_later_one_was_listed_is_late(run: Run) -> None:
    assert in_order(run, None, (0, REFUSED), None, 1, 0) == ["out of order"]


def test_batch_behind_an_error_may_not_be_sent_first(run: Run) -> None:
    assert in_order(run, None, (0, HELD), None, (0, HELD), None, 1, 0) == ["out of order"]


def test_batch_that_the_target_takes_late_says_nothing_of_the_order(run: Run) -> None:
    tries = (None, (0, REFUSED), None, (0, REFUSED), (1, LATE), 1, None, 0, 2)
    assert in_order(run, *tries) == []


def test_a_restore_leaves_write_ahead_batches_to_the_next_checkpoint(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).fault().start("1.2", restored=1).checkpoint(2, 4)
    name = "t0-1-1.2"
    run.history.transaction_visible(run.tick(), name, 0, "1.2", 1, run.contents[name][3], waits=True)
    assert run.check(CHECKER) == []


def test_a_job_that_stops_with_everything_committed_passes(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).checkpoint(2, 6).commit()
    run.history.job_stopped(run.tick())
    assert run.check(CHECKER) == []


@pytest.mark.parametrize("waits", [False, True], ids=["a transaction", "a batch"])
def test_output_of_the_restored_checkpoint_does_not_wait_for_a_stop(run: Run, waits: bool) -> None:
    run.start("1.1").checkpoint(1, 2).checkpoint(2, 6)
    for name in ("t0-0-1.1", "t1-0-1.1", "t1-1-1.1"):
        rows, epoch = run.contents[name][3], int(name[3])
        run.history.transaction_visible(run.tick(), name, int(name[1]), "1.1", epoch, rows, waits=waits)
    run.fault().start("1.2", restored=2)
    run.history.job_stopped(run.tick())
    assert [anomaly for anomaly, _ in run.check(CHECKER)] == ["stopped before its commits"]


def test_a_job_that_stops_with_a_transaction_prepared_has_stopped_too_early(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit().checkpoint(2, 6).commit("t0-1-1.1")
    run.history.job_stopped(run.tick())
    assert run.check(CHECKER) == [("stopped before its commits", "step 7")]


@pytest.mark.parametrize(("restored", "found"), [(2, []), (1, [("stale restore", "attempt 2")])])
def test_a_checkpoint_that_is_seen_from_outside_is_only_one_to_restore(
    run: Run, restored: int, found: list[tuple[str, str]]
) -> None:
    history = run.history
    history.attempt_started(run.tick(), "1", 1, None, outside=True)
    for checkpoint in (1, 2):
        # Its rows are not visible yet.
        history.checkpoint_completed(run.tick(), checkpoint, "1", {"words": checkpoint}, (), outside=True)
    history.attempt_started(run.tick(), "2", 1, restored, outside=True)
    history.job_stopped(run.tick(), outside=True)
    assert run.finish().check(CHECKER) == found
