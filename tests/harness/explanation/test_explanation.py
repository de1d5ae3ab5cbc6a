"""Explanations of hand-written failures: the sentence, the cause, the first divergence, the story."""

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


def test_a_transaction_that_a_restore_dropped_is_explained(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit("t0-0-1.1").fault("kill_all", "completed")
    run.start("1.2", restored=1).pending.clear()
    found = explained(run.checkpoint(2, 6).commit().finish())
    assert found.sentence == "Row (owl, 1) never became visible; it is expected once."
    assert found.cause == (
        "Transaction t1-0-1.1 was pre-committed and listed by checkpoint 1, which completed at step 2."
        " Attempt 1.2, restored from that checkpoint at step 5, did not commit it, and no later attempt did."
    )
    assert found.first_divergence == "step 7: skipped commit of transaction t0-1-1.2"
    assert found.witness["rows"][0]["row"] == ["owl", 1]


def test_a_commit_before_completion_is_the_cause_of_a_duplicate(run: Run) -> None:
    run.start("1.1")
    run.history.transaction_visible(run.tick(), "t0-0-1.1", 0, "1.1", 0, [("bee", 1)])
    found = explained(run.fault().start("1.2").checkpoint(1, 6).commit().finish())
    assert (
        found.sentence == "Row (bee, 1) is visible twice instead of once, committed by t0-0-1.1 and t0-0-1.2."
    )
    assert found.cause == (
        "Transaction t0-0-1.1 was committed at step 2, when no completed checkpoint listed it, and no later"
        " checkpoint lists it."
    )


def test_a_commit_in_the_step_of_a_rescale_names_the_rescale(run: Run) -> None:
    run.start("1.1")
    run.history.job_rescaled(run.tick(), 3, 1)
    run.history.transaction_visible(run.step, "t0-0-1.1", 0, "1.1", 0, [("bee", 1)])
    found = explained(run.start("1.2").checkpoint(1, 6).commit().finish())
    said = "the user rescaled the running job to parallelism 3, and its tasks were cancelled"
    assert found.cause.endswith(f" In that step {said}.")
    assert f"step 2: {said}" in found.story


def test_a_rescale_is_a_cause_like_a_fault(run: Run) -> None:
    run.start("1.1")
    run.history.job_rescaled(run.tick(), 1)
    run.start("1.2").fault("kill_task", "element")
    run.history.budget_exhausted(1000)
    assert explained(run).cause == (
        "Before that, at step 2 the user rescaled the running job to parallelism 1, and its tasks were"
        " cancelled; at step 4 a task was killed at the point element."
    )


def test_a_commit_repeated_after_a_kill_is_explained_with_both_steps(run: Run) -> None:
    run.start("1.1").checkpoint(1, 6).commit().fault("kill_task", "committed").start("2.1", restored=1)
    found = explained(run.commit("t0-0-1.1").finish())
    assert found.cause == (
        "Transaction t0-0-1.1 became visible at step 3. At step 5 a task was killed at the point committed."
        " Attempt 2.1, which started from checkpoint 1 at step 6, committed the transaction again at step 7."
    )


def test_rows_of_records_behind_the_barrier_are_explained_without_a_restore(run: Run) -> None:
    rows = [("bee", 1), ("owl", 1), ("bee", 2)]
    found = explained(run.start("1.1").checkpoint(1, 2, rows).commit().checkpoint(2, 6, []).commit())
    assert found.sentence == (
        "All transactions that checkpoint 1 lists are committed, but the rows are not those of the input"
        " before its barrier: (bee, 2) too many."
    )
    assert found.cause == "The transactions of checkpoint 1 hold rows that do not follow from its offsets."


def test_state_lost_by_a_rescale_is_explained_with_its_key(run: Run) -> None:
    run.start("1.1").checkpoint(1, 2).commit().fault()
    run.history.attempt_started(run.tick(), "1.2", 3, 1)
    run.attempt, run.epoch = "1.2", 1
    rows = [("bee", 1), ("toad", 1), ("ant", 1), ("owl", 2)]
    found = explained(run.checkpoint(2, 6, rows).commit().finish())
    assert found.sentence == "Row (bee, 2) never became visible; it is expected once."
    assert "restored from checkpoint 1 at step 6, from parallelism 2 to 3" in found.cause
    assert found.cause.endswith("The rows of key bee begin again, as from empty state.")


def test_input_applied_again_is_explained_as_state_of_another_cut(
    run: Run,
) -> None:
    run.start("1.1").checkpoint(1, 6).commit().fault().start("1.2", restored=1)
    found = explained(run.checkpoint(2, 6, [("bee", 3)]).commit().finish())
    assert found.sentence == "Row (bee, 3), committed by t0-1-1.2, does not follow from the input."
    assert found.cause.endswith(
        "Its rows do not continue what the input before that checkpoint's cut gives (words at 6)."
    )


def test_a_snapshot_of_a_dead_attempt_is_explained_with_both_attempts(run: Run) -> None:
    run.start("1.1").fault("kill_process", "acknowledged").start("2.1")
    run.history.checkpoint_completed(run.tick(), 1, "2.1", {"words": 0}, (), ("1.1", "2.1"))
    found = explained(run)
    assert found.sentence == (
        "A checkpoint of attempt 2.1 completed at step 4 with a snapshot that attempt 1.1 had written."
    )
    assert found.cause.startswith(
        "Checkpoint 1 of attempt 2.1 accepted an acknowledgement that attempt 1.1 had sent"
    )


def test_without_a_fitting_cause_the_last_faults_are_named(run: Run) -> None:
    run.start("1.1").fault("lose_message", "triggered").fault("kill_task", "element")
    run.history.budget_exhausted(1000)
    found = explained(run)
    assert found.sentence == "The job had not finished after 1000 steps, and no checkpoint completed."
    assert found.cause == (
        "Before that, at step 2 a message was lost at the point triggered;"
        " at step 3 a task was killed at the point element."
    )


def test_a_failure_without_any_fault_is_explained_by_the_order_of_steps(run: Run) -> None:
    run.start("1.1")
    run.history.error(run.tick(), "sink-0", "KeyError", "restore", "'state'")
    found = explained(run)
    assert found.sentence == "sink-0 raised KeyError in restore at step 2: 'state'."
    assert found.cause == "No fault had fired before."


def test_every_anomaly_of_a_history_has_a_sentence_of_its_own(run: Run) -> None:
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
        # An anomaly without a sentence would be shown by its name.
        assert not sentence.startswith(violation.property.replace("_", " ") + ":"), sentence


def test_a_window_that_is_answered_again_and_a_stop_that_is_too_early_in_sentences(run: Run) -> None:
    run.oracle.answers = lambda row: row[0]
    run.start("1.1").checkpoint(1, 2).commit().checkpoint(2, 6).commit("t0-1-1.1")
    run.history.job_stopped(run.tick())
    run.start("1.2", restored=2).commit().finish()
    verdict = judge(run.scenario, run.history, run.oracle)
    assert [sentence_of(violation) for violation in verdict.violations] == [
        "Attempt 1.1 gives twice what it may answer once, at last with row (bee, 2), committed by t0-0-1.1"
        " and t0-1-1.1; no restore explains it.",
        "The job said at step 7 that it had stopped, and 1 of the transactions that checkpoints up to 2 list"
        " were not visible.",
    ]


def test_the_story_marks_wrong_rows_and_leaves_out_empty_transactions(run: Run) -> None:
    run.start("1.1").checkpoint(1, 6, [("bee", 1), ("bee", 1), ("toad", 1)]).commit().finish()
    story = explained(run).story
    assert story[0] == "step 1: attempt 1.1 starts from the beginning, parallelism 2"
    assert (
        "step 3: transaction t0-0-1.1 becomes visible: (bee, 1) [duplicated], (bee, 1) [duplicated]" in story
    )
    assert story[-1] == "step 5: the job finishes"


def test_consecutive_checkpoints_of_the_same_input_are_shown_once(run: Run) -> None:
    run.start("1.1").checkpoint(1, 6).commit()
    for checkpoint in range(2, 30):
        run.checkpoint(checkpoint, 6)
    story = explained(run.finish()).story
    assert sum("is complete" in line for line in story) == 2


def test_checkpoints_aborted_in_a_row_for_one_reason_are_one_line(run: Run) -> None:
    run.start("1.1").checkpoint(1, 6).commit()
    first = run.tick()
    run.history.checkpoint_aborted(first, 2, "EXPIRED")
    for checkpoint in (3, 4, 5):
        last = run.tick()
        run.history.checkpoint_aborted(last, checkpoint, "DECLINED")
    run.history.checkpoint_aborted(run.tick(), 6, "EXPIRED")
    aborted = [line for line in explained(run.finish()).story if "aborted" in line]
    assert len(aborted) == 3
    assert aborted[0].startswith(f"step {first}: checkpoint 2 is aborted: ")
    assert aborted[1].startswith(f"step {first + 1}: 3 checkpoints, 3 to 5, are aborted until step {last}: ")
    assert aborted[2].startswith(f"step {last + 1}: checkpoint 6 is aborted: ")


def test_a_long_story_loses_its_middle(run: Run) -> None:
    run.start("1.1")
    for _ in range(60):
        run.fault()
    story = explained(run.finish()).story
    assert len(story) == LONGEST_STORY + 1
    assert "... 38 events later" in story


def test_lost_messages_and_those_of_dead_attempts_come_from_the_trace(run: Run) -> None:
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
    found = explained(sound_run)
    assert found.sentence == "Every property holds."
    assert found.story[-1].endswith("the job finishes")


@pytest.mark.parametrize("times", [2, 3])
def test_the_sentence_says_how_many_rows_are_affected(run: Run, times: int) -> None:
    run.start("1.1").checkpoint(1, 6).commit()
    run.checkpoint(2, 6, [("yak", number) for number in range(times)]).commit().finish()
    assert explained(run).sentence.endswith(f"{times} rows are affected in all.")


def test_a_failed_check_of_a_checkpoint_in_a_sentence() -> None:
    row = {"row": ["hall", -2], "expected": 1, "visible": 0, "transactions": []}
    about = {"checkpoint": 1, "parallelism": 2}
    place = {"operator": "views", "state": "timer", "key group": 5, "missing": [], "surplus": ["[9, 'bob']"]}
    raised = {"task": "count-0", "raised": "StateError", "text": "no such state"}
    for violation, sentence in (
        (
            Violation("restore_anywhere", "lost", "", {**about, "rows": [row], "count": 1}),
            "Restored from checkpoint 1 with parallelism 2, the job ends with wrong rows."
            " Row (hall, -2) never became visible; it is expected once.",
        ),
        (
            Violation("restore_anywhere", "refused", "", {**about, **raised}),
            "Restored from checkpoint 1 with parallelism 2, the job failed with StateError in count-0:"
            " no such state.",
        ),
        (
            Violation("restore_anywhere", "not finished", "", about),
            "Restored from checkpoint 1 with parallelism 2, the job does not finish.",
        ),
        (
            Violation("state_equivalence", "surplus entry", "checkpoint 3", {"cut": {}, "places": [place]}),
            "Checkpoint 3 differs from an undisturbed run at the same cut: state timer of views in key group"
            " 5 has an extra [9, 'bob'].",
        ),
    ):
        assert sentence_of(violation) == sentence


def of_a_program(run: Run, *, dies: bool) -> Run:
    """A program that shows a row, is killed or not, and shows it once more."""
    run.history.attempt_started(run.tick(), "1", 1, None, outside=True)
    run.history.rows_found(run.tick(), "look 1", "1", [("ant", 1)])
    if dies:
        run.history.fault_fired(run.tick(), "kill_process", "committed", "*", outside=True)
        run.history.attempt_started(run.tick(), "2", 1, None, outside=True)
    run.history.rows_found(run.tick(), "look 2", "2" if dies else "1", [("ant", 1)])
    run.history.job_finished(run.tick())
    return run


def test_rows_that_a_program_writes_again_after_a_kill_are_explained(run: Run) -> None:
    assert explained(of_a_program(run, dies=True)).cause == (
        "Row (ant, 1) of start 1 was there at step 2. At step 3 the program was killed after it had shown a"
        " row. Start 2 wrote it again."
    )


def test_a_program_that_is_wrong_undisturbed_is_called_so(run: Run) -> None:
    assert explained(of_a_program(run, dies=False)).cause == ("No fault had fired before.")


def test_rows_of_a_program_that_vanish_are_explained(run: Run) -> None:
    run.history.attempt_started(run.tick(), "1", 1, None, outside=True)
    run.history.rows_found(run.tick(), "look 1", "1", [("ant", 1)])
    run.history.job_stopped(run.tick(), outside=True)
    run.history.attempt_started(run.tick(), "2", 1, None, outside=True)
    run.history.rows_gone(run.tick(), "look 2", [("ant", 1)])
    run.history.job_finished(run.tick())
    assert explained(run).cause.startswith(
        "Row (ant, 1) of start 1 was there at step 2. Start 2 took it away."
    )


def test_rows_of_a_program_that_never_come_name_the_first_death(run: Run) -> None:
    run.history.attempt_started(run.tick(), "1", 1, None, outside=True)
    run.history.fault_fired(run.tick(), "kill_process", "element", "*", outside=True)
    run.history.attempt_started(run.tick(), "2", 1, None, outside=True)
    run.history.job_finished(run.tick())
    cause = explained(run).cause
    assert "never came. At step 2 the program was killed after it was given a record." in cause


def struck(run: Run, *faults: tuple[str, str, str]) -> Run:
    """A program that shows a row, then faults of a kind around a part or a server, and a second start."""
    run.history.attempt_started(run.tick(), "1", 1, None, outside=True)
    run.history.rows_found(run.tick(), "look 1", "1", [("ant", 1)])
    for kind, task, server in faults:
        run.history.fault_fired(run.tick(), kind, "element", task, outside=True, server=server)
    run.history.attempt_started(run.tick(), "2", 1, None, outside=True)
    return run


KILL_AND_CUT = (("kill_process", "*", ""), ("cut_connection", "*", "kafka"))


def test_rows_written_again_name_the_program_and_the_server_that_were_struck(run: Run) -> None:
    struck(run, *KILL_AND_CUT).history.rows_found(run.tick(), "look 2", "2", [("ant", 1)])
    assert explained(run.finish()).cause == (
        "Row (ant, 1) of start 1 was there at step 2. At step 3 the program was killed after it was given a"
        " record. At step 4 a connection to the server kafka was cut after the program was given a record."
        " Start 2 wrote it again."
    )


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (("kill_server", "*", "postgres"), "the server postgres was killed after the program was given"),
        (("pause_server", "*", "kafka"), "the server kafka was paused after the program was given"),
        (
            ("kill_task", "writer", ""),
            "the part writer of the program was killed after the program was given",
        ),
        (("kill_all", "*", ""), "the program was killed after it was given"),
        (("pause_process", "*", ""), "the program was paused after it was given"),
    ],
)
def test_what_was_struck_is_named(run: Run, fault: tuple[str, str, str], text: str) -> None:
    found = explained(struck(run, fault).finish())
    assert f"never came. At step 3 {text} a record." in found.cause
    assert f"step 3: {text} a record" in found.story


def test_rows_that_vanish_after_a_server_died_are_no_work_of_the_program(run: Run) -> None:
    struck(run, ("kill_server", "*", "postgres")).history.rows_gone(run.tick(), "look 2", [("ant", 1)])
    assert explained(run.finish()).cause == (
        "Row (ant, 1) of start 1 was there at step 2. At step 3 the server postgres was killed after the"
        " program was given a record. At step 5 it was gone, while start 2 ran."
    )


def test_a_program_that_is_cut_off_has_no_steps_and_checkpoints(run: Run) -> None:
    struck(run, KILL_AND_CUT[0]).history.budget_exhausted(run.tick())
    found = explained(run)
    assert found.sentence == "The program had not come to its end when its time was up, in its start 2."
    assert found.story[-1].endswith("the time of the trial is used up")
