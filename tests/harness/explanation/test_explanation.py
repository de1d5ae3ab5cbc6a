"""Explanations of failures told by hand: the sentence, the cause, the first divergence, the story."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from onceproof.harness.checkers import Violation
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.explanation.explanation import LONGEST_STORY, Explanation, explain
from onceproof.harness.explanation.sentences import sentence_of

if TYPE_CHECKING:
    from tests.harness.conftest import Run


def explained(run: Run, trace: dict[str, Any] | None = None) -> Explanation:
    return explain(run.scenario, run.history, trace, judge(run.scenario, run.history, run.oracle))


def test_a_transaction_that_a_restore_dropped_is_named_with_its_checkpoint_and_attempt(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit("t0-0-1.1").fault("kill_all", "completed")
    run.start("1.2", restored=1).pending.clear()
    told = explained(run.checkpoint(2, 6).commit().finish())
    assert told.sentence == "Row (owl, 1) never became visible; it should be there once."
    assert told.cause == (
        "Transaction t1-0-1.1 was pre-committed and listed by checkpoint 1, complete at step 2; attempt 1.2,"
        " restored from it at step 5, did not commit it, nor did anyone else."
    )
    assert told.first_divergence == "step 7: skipped commit of transaction t0-1-1.2"
    assert told.witness["rows"][0]["row"] == ["owl", 1]


def test_a_commit_before_completion_is_the_cause_of_the_duplicate_behind_it(run: Run) -> None:
    run.start("1.1")
    run.history.transaction_visible(run.tick(), "t0-0-1.1", 0, "1.1", 0, [("bee", 1)])
    told = explained(run.fault().start("1.2").checkpoint(1, 6).commit().finish())
    assert told.sentence == "Row (bee, 1) is there twice instead of once, by t0-0-1.1 and t0-0-1.2."
    assert told.cause == (
        "Transaction t0-0-1.1 was committed at step 2, when no completed checkpoint listed it, nor did any"
        " later."
    )


def test_a_commit_that_is_made_again_after_a_death_is_told_with_both_and_the_death(run: Run) -> None:
    run.start("1.1").checkpoint(1, 6).commit().fault("kill_task", "committed").start("2.1", restored=1)
    told = explained(run.commit("t0-0-1.1").finish())
    assert told.cause == (
        "Transaction t0-0-1.1 was visible at step 3. At step 5 * was killed at the point committed of *;"
        " attempt 2.1, which began from checkpoint 1 at step 6, committed it once more at step 7, as if that"
        " had not been done."
    )


def test_records_behind_the_barrier_are_told_where_nothing_was_restored(run: Run) -> None:
    rows = [("bee", 1), ("owl", 1), ("bee", 2)]
    told = explained(run.start("1.1").checkpoint(1, 2, rows).commit().checkpoint(2, 6, []).commit())
    assert told.sentence == (
        "With everything committed that checkpoint 1 lists, the rows are not those of the input before it:"
        " (bee, 2) too many."
    )
    assert told.cause.startswith("Records behind the barrier of checkpoint 1 were processed before it")


def test_state_that_a_rescale_lost_is_told_by_the_key_that_began_anew(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit().fault()
    run.history.attempt_started(run.tick(), "1.2", 3, 1)
    run.attempt, run.epoch = "1.2", 1
    rows = [("bee", 1), ("toad", 1), ("ant", 1), ("owl", 2)]
    told = explained(run.checkpoint(2, 6, rows).commit().finish())
    assert told.sentence == "Row (bee, 2) never became visible; it should be there once."
    assert "restored from checkpoint 1 at step 6, from parallelism 2 to 3" in told.cause
    assert told.cause.endswith("For bee it began anew: what checkpoint 1 holds of it did not come back.")


def test_input_applied_again_to_restored_state_is_told_as_a_restore_that_does_not_fit_its_cut(
    run: Run,
) -> None:
    run.start("1.1").checkpoint(1, 6).commit().fault().start("1.2", restored=1)
    told = explained(run.checkpoint(2, 6, [("bee", 3)]).commit().finish())
    assert told.sentence == "Row (bee, 3), committed by t0-1-1.2, follows from nothing in the input."
    assert told.cause.endswith("What was restored is not the state of that checkpoint's cut (words at 6).")


def test_a_snapshot_of_a_dead_attempt_is_told_with_both_attempts(run: Run) -> None:
    run.start("1.1").fault("kill_process", "acknowledged").start("2.1")
    run.history.checkpoint_completed(run.tick(), 1, "2.1", {"words": 0}, (), ("1.1", "2.1"))
    told = explained(run)
    assert told.sentence == (
        "A checkpoint of attempt 2.1 completed at step 4 with a snapshot that attempt 1.1 had written."
    )
    assert told.cause.startswith("Checkpoint 1 took an acknowledgement that attempt 1.1 had sent")


def test_where_no_cause_fits_the_last_faults_are_named_and_nothing_is_claimed(run: Run) -> None:
    run.start("1.1").fault("lose_message", "triggered").fault("kill_task", "element")
    run.history.budget_exhausted(1000)
    told = explained(run)
    assert told.sentence == "The job was not done after 1000 steps, and no checkpoint ever completed."
    assert told.cause == (
        "Before that, at step 2 a message was lost at the point triggered of *;"
        " at step 3 * was killed at the point element of *."
    )


def test_a_failure_without_any_fault_is_told_as_a_matter_of_order(run: Run) -> None:
    run.start("1.1")
    run.history.error(run.tick(), "sink-0", "KeyError", "restore", "'state'")
    told = explained(run)
    assert told.sentence == "sink-0 raised KeyError in restore at step 2: 'state'."
    assert told.cause == "No fault had struck: the order of steps alone led to this."


def test_every_anomaly_of_a_told_history_has_a_sentence_of_its_own(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).checkpoint(2, 3).commit("t0-1-1.1", "t0-0-1.1", "t0-0-1.1")
    run.history.transaction_hidden(run.tick(), "t0-0-1.1")
    run.history.transaction_visible(run.tick(), "old", 0, "0.9", 0, [("yak", 1)])
    run.history.checkpoint_completed(run.tick(), 3, "0.9", {"words": 3}, (), ())
    run.start("1.2", restored=1).finish()
    run.history.leak(run.tick(), "open transaction", "t1-1-1.2")
    run.history.task_failed(run.tick(), "sink-0", "1.2", "no reason", False)
    verdict = judge(run.scenario, run.history, run.oracle)
    sentences = [sentence_of(violation) for violation in verdict.violations]
    assert len(verdict.violations) >= 9
    for violation, sentence in zip(verdict.violations, sentences, strict=True):
        assert sentence.endswith(".")
        # The name of the anomaly alone would be the way out for one without a sentence.
        assert not sentence.startswith(violation.property.replace("_", " ") + ":"), sentence


def test_the_story_marks_the_rows_in_question_and_leaves_empty_transactions_out(run: Run) -> None:
    run.start("1.1").checkpoint(1, 6, [("bee", 1), ("bee", 1), ("toad", 1)]).commit().finish()
    story = explained(run).story
    assert story[0] == "step 1: attempt 1.1 starts from the beginning, parallelism 2"
    assert (
        "step 3: transaction t0-0-1.1 becomes visible: (bee, 1) [duplicated], (bee, 1) [duplicated]" in story
    )
    assert story[-1] == "step 5: the job is done"


def test_checkpoints_in_a_row_that_cover_the_same_input_are_told_once(run: Run) -> None:
    run.start("1.1").checkpoint(1, 6).commit()
    for checkpoint in range(2, 30):
        run.checkpoint(checkpoint, 6)
    story = explained(run.finish()).story
    assert sum("is complete" in line for line in story) == 2


def test_a_long_story_loses_its_middle(run: Run) -> None:
    run.start("1.1")
    for _ in range(60):
        run.fault()
    story = explained(run.finish()).story
    assert len(story) == LONGEST_STORY + 1
    assert "... 38 events later" in story


def test_a_message_that_outlived_its_attempt_or_was_lost_is_told_from_the_trace(run: Run) -> None:
    run.start("1.1").fault("kill_process", "acknowledged").start("2.1").checkpoint(1, 6).commit().finish()
    arrows = [
        {"kind": "acknowledge", "from": ["sink-0", 1], "to": ["coordinator", 4], "label": "1", "lost": False},
        {"kind": "notify", "from": ["coordinator", 4], "to": None, "label": "1", "lost": True},
        {"kind": "record", "from": ["source-0", 1], "to": None, "label": "bee", "lost": True},
    ]
    story = explained(run, {"arrows": arrows}).story
    late = (
        "the acknowledgement of checkpoint 1 that sink-0 sent at step 1, in attempt 1.1, reaches coordinator"
    )
    assert f"step 4: {late}" in story
    assert "step 4: the completion notice of checkpoint 1 that coordinator sent is lost" in story
    assert not any("bee," in line and "lost" in line for line in story)


def test_a_passed_run_has_a_story_and_nothing_to_explain(sound_run: Run) -> None:
    told = explained(sound_run)
    assert told.sentence == "Every property holds."
    assert told.story[-1].endswith("the job is done")


@pytest.mark.parametrize("times", [2, 3])
def test_how_many_rows_are_affected_is_told_beside_the_witness(run: Run, times: int) -> None:
    run.start("1.1").checkpoint(1, 6).commit()
    run.checkpoint(2, 6, [("yak", number) for number in range(times)]).commit().finish()
    assert explained(run).sentence.endswith(f"{times} rows are affected in all.")


def test_what_becomes_of_a_checkpoint_is_told_in_a_sentence() -> None:
    row = {"row": ["hall", -2], "expected": 1, "visible": 0, "transactions": []}
    about = {"checkpoint": 1, "parallelism": 2}
    place = {"operator": "views", "state": "timer", "key group": 5, "missing": [], "surplus": ["[9, 'bob']"]}
    raised = {"task": "count-0", "raised": "StateError", "text": "no such state"}
    for violation, sentence in (
        (
            Violation("restore_anywhere", "lost", "", {**about, "rows": [row], "count": 1}),
            "If a job goes on from checkpoint 1 at parallelism 2: Row (hall, -2) never became visible;"
            " it should be there once.",
        ),
        (
            Violation("restore_anywhere", "refused", "", {**about, **raised}),
            "A job that goes on from checkpoint 1 at parallelism 2 ends with StateError in count-0:"
            " no such state.",
        ),
        (
            Violation("restore_anywhere", "not finished", "", about),
            "A job that goes on from checkpoint 1 at parallelism 2 does not come to its end.",
        ),
        (
            Violation("state_equivalence", "surplus entry", "checkpoint 3", {"cut": {}, "places": [place]}),
            "Checkpoint 3 is not what an undisturbed run holds at the same cut: of views, state timer in key"
            " group 5, it holds too much [9, 'bob'].",
        ),
    ):
        assert sentence_of(violation) == sentence
