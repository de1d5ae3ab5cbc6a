"""A run as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onceproof.harness.explanation.narrative import align_columns, narrative_lines
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import EVENT_KINDS, History
from onceproof.harness.trials.trial import scenario_of, try_scenario

if TYPE_CHECKING:
    from tests.harness.conftest import Run


def test_columns_are_aligned() -> None:
    assert align_columns([(3, "job", "starts", "attempt 1.1"), (120, "count-1", "dies", "")]) == [
        "  3  job      starts  attempt 1.1",
        "120  count-1  dies",
    ]
    assert align_columns([]) == []


def test_without_a_trace_the_visible_events_are_shown(sound_run: Run) -> None:
    story = narrative_lines(sound_run.history)
    assert len(story) == len(sound_run.history.events)
    assert story[0] == (1, "job", "starts", "attempt 1.1 with parallelism 2, from the beginning")
    text = "\n".join(align_columns(story))
    assert "attempt 2.1 with parallelism 2, from checkpoint 2" in text
    assert "VISIBLE" in text


def test_every_kind_of_event_has_a_line() -> None:
    history = History()
    history.attempt_started(1, "1.1", 2, None)
    history.fault_fired(2, "kill_all", "element", "count-0")
    history.task_failed(2, "count-0", "1.1", "killed", True)
    history.task_failed(2, "count-1", "1.1", "KeyError: 1", False)
    history.checkpoint_completed(3, 1, "1.1", {"words": 2}, ("t",))
    history.checkpoint_aborted(4, 2, "timeout")
    history.transaction_visible(5, "t", 0, "1.1", 0, [("a", 1)])
    history.transaction_hidden(6, "t")
    history.rows_written(6, "sink-0", "1.1", 1, [("a", 2)])
    history.commit_failed(7, "t")
    history.error(8, "count-0", "KeyError", "restore", "'a'")
    history.leak(9, "open transaction", "u")
    history.budget_exhausted(10)
    history.job_failed(11, "gave up")
    history.savepoint_completed(11, 3, "1.1")
    history.stop_failed(11, "a reason")
    history.job_stopped(11)
    history.job_rescaled(11, 3, 2)
    history.job_upgraded(11, {"words": 2}, killed=True)
    history.wait_begun(11, "restart", 20, 11)
    history.rows_found(11, "look 1", "1", [("bee", 1)])
    history.rows_gone(11, "look 2", [("bee", 1)])
    history.logged(11, "job 'words': attempt 1.1 failed")
    history.write_refused(11, "count-0", 4)
    history.checkpoint_declined(11, "count-0", 4)
    history.job_finished(12)
    history.part_dead(12, "reader")
    history.input_read(12, {"words": 5}, {"words": 6})
    history.deviated(12, "job master", "StartJob()", "a deployment", "nothing")
    kinds = {kind for _, kind, _, _ in history.events}
    # No system records a trigger; the trace has it.
    assert kinds == set(EVENT_KINDS) - {"checkpoint_triggered"}
    lines = narrative_lines(history)
    assert len(lines) == len(history.events)
    said = "to parallelism 3, as its user asks, with 2 open transactions"
    assert (11, "job", "rescales", said) in lines


@pytest.mark.parametrize("seed", range(4))
def test_every_message_of_a_trace_has_a_line(seed: int) -> None:
    family = load_family("word_count")
    history = try_scenario(family, scenario_of(family, seed), trace=True).history
    assert history.trace is not None
    story = narrative_lines(history)
    assert [line[0] for line in story] == sorted(line[0] for line in story)
    messages = [line for line in story if line[2] in ("receives", "sends")]
    assert len(messages) == len(history.trace["arrows"])
    # An event that is in the trace and in the history has one line.
    assert sum(line[2] == "VISIBLE" for line in story) == sum(
        event[1] == "transaction_visible" for event in history.events
    )
