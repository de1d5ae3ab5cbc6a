"""When a checkpoint begins, and who is asked to take part in it."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.events import (
    AttemptStarted,
    CheckpointExpired,
    CheckpointPlan,
    CheckpointTriggered,
    IntervalElapsed,
    StartTimer,
)
from onceproof.engine.checkpoint.failure_counter import TASKS_NOT_RUNNING
from onceproof.engine.messages import AttemptId, Send, TaskId, TriggerCheckpoint

FIRST, SECOND, SINK = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)


# The trigger.


def test_a_checkpoint_begins_with_a_timer_and_a_trigger_for_each_source(desk):
    desk.now = 40
    assert desk.request() == [
        CheckpointTriggered(1),
        StartTimer(1040, CheckpointExpired("1.1", 1)),
        Send(TriggerCheckpoint("1.1", FIRST, 1, 40)),
        Send(TriggerCheckpoint("1.1", SECOND, 1, 40)),
    ]
    assert list(desk.coordinator.pending) == [1]


def test_a_checkpoint_begins_only_when_every_task_runs(desk_with):
    desk = desk_with()
    desk.start(running=())
    assert desk.resolved(desk.request(number=7)) == [(7, TASKS_NOT_RUNNING)]
    for task in (FIRST, SINK, SECOND):
        assert desk.run(task) == [], "a request that failed is not made again"
    assert desk.triggered(desk.request()) == [1], "and has used up no id"


def test_nothing_begins_between_two_attempts(desk):
    desk.end()
    assert desk.resolved(desk.request(number=1)) == [(1, TASKS_NOT_RUNNING)]
    desk.start("1.2", running=(FIRST, SECOND))
    assert desk.request() == [], "whoever ran in the last attempt need not run in this one"
    desk.run(SINK)
    assert desk.triggered(desk.request()) == [1]


def test_a_task_of_another_attempt_that_runs_does_not_count(desk_with):
    desk = desk_with()
    desk.start("1.2", running=(FIRST, SECOND))
    desk.attempt = AttemptId("1.1")
    desk.run(SINK)
    desk.attempt = AttemptId("1.2")
    assert desk.request() == []
    desk.run(SINK)
    assert desk.triggered(desk.request()) == [1]


@pytest.mark.parametrize("max_concurrent", [1, 2, 3])
def test_so_many_checkpoints_may_be_pending_and_requests_wait(desk_with, max_concurrent):
    desk = desk_with(max_concurrent=max_concurrent)
    desk.start()
    for checkpoint_id in range(1, max_concurrent + 1):
        assert desk.triggered(desk.request()) == [checkpoint_id]
    assert desk.request() == []
    assert desk.request() == []
    assert desk.triggered(desk.complete(1)) == [max_concurrent + 1]
    assert desk.triggered(desk.complete(2)) == [max_concurrent + 2]
    assert desk.triggered(desk.complete(3)) == []


@pytest.mark.parametrize("end", ["stored", "declined", "task finished"])
def test_checkpoint_makes_room_for_the_next_only_when_it_is_over(desk_with, end):
    desk = desk_with(tolerable_failures=5)
    desk.start()
    desk.request()
    if end == "stored":
        desk.acknowledge_all(1)
    assert desk.request() == []
    if end == "stored":
        effects = desk.stored(1)
    else:
        effects = desk.decline(SINK, 1) if end == "declined" else desk.finish(FIRST)
    assert desk.triggered(effects) == [2]


def test_an_attempt_begins_without_the_requests_of_the_last_one(desk):
    desk.request()
    desk.request()
    desk.end()
    assert desk.triggered(desk.start("1.2")) == []
    assert desk.triggered(desk.request()) == [2]


@pytest.mark.parametrize(("completed", "expected"), [((), 1), ((3,), 4), ((3, 9), 10)])
def test_ids_go_on_after_the_highest_completed_one(desk_with, completed, expected):
    desk = desk_with(completed, num_retained=2)
    desk.start()
    assert desk.triggered(desk.request()) == [expected]
    desk.end()
    desk.start("1.2")
    assert desk.triggered(desk.request()) == [expected + 1]


# The interval.


def test_the_interval_of_an_attempt_begins_with_it_and_goes_on(desk_with):
    desk = desk_with()
    desk.now = 7
    assert desk.rings_at(desk.start()) == [107]
    effects = desk.elapse(107)
    assert (desk.triggered(effects), desk.rings_at(effects)) == ([1], [207])
    effects = desk.elapse(230)
    assert (desk.triggered(effects), desk.rings_at(effects)) == ([], [307]), "late, and at the same rate"


def test_without_an_interval_there_is_no_timer(desk_with):
    desk = desk_with(interval_ms=None)
    assert desk.start() == []
    assert desk.triggered(desk.request()) == [1]


def test_the_timer_of_another_attempt_is_stale(desk):
    desk.end()
    assert desk.elapse(100) == []
    desk.start("1.2")
    assert desk.elapse(200, attempt="1.1") == []
    assert desk.triggered(desk.elapse(200)) == [1]


def test_a_periodic_request_that_waits_starts_when_there_is_room(desk):
    desk.elapse(100)
    assert desk.triggered(desk.elapse(200)) == []
    desk.now = 250
    effects = desk.complete(1)
    assert (desk.triggered(effects), desk.rings_at(effects)) == ([2], [])


# The pause after a completion.


def test_the_interval_that_elapses_within_the_pause_elapses_again_at_its_end(desk_with):
    desk = desk_with(min_pause_ms=80)
    desk.start()
    desk.elapse(100)
    desk.now = 190
    desk.complete(1)
    effects = desk.elapse(200)
    assert (desk.triggered(effects), desk.rings_at(effects)) == ([], [300, 270])
    assert desk.elapse(269) == []
    effects = desk.elapse(270)
    assert (desk.triggered(effects), desk.rings_at(effects)) == ([2], [370])
    assert desk.elapse(300) == [], "the timer of the old rate rings, and is stale"


def test_a_periodic_request_that_had_to_wait_keeps_the_pause_too(desk_with):
    """Where checkpoints take longer than the interval, the pause is all that lets the job get on."""
    desk = desk_with(min_pause_ms=80)
    desk.start()
    desk.elapse(100)
    assert desk.triggered(desk.elapse(200)) == []
    desk.now = 210
    effects = desk.complete(1)
    assert (desk.triggered(effects), desk.rings_at(effects)) == ([], [290])
    assert desk.triggered(desk.elapse(290)) == [2]
    assert desk.elapse(300) == [], "the timer that was replaced rings, and is stale"


def test_the_end_of_the_pause_itself_is_late_enough(desk_with):
    desk = desk_with(min_pause_ms=80)
    desk.start()
    desk.elapse(100)
    desk.elapse(200)
    desk.acknowledge_all(1)
    desk.now = 210
    desk.stored(1)
    desk.now = 290
    assert desk.triggered(desk.elapse(290)) == [2]


def test_whoever_asks_for_a_checkpoint_need_not_pause(desk_with):
    desk = desk_with(min_pause_ms=80)
    desk.start()
    desk.elapse(100)
    assert desk.triggered(desk.elapse(200)) == []
    desk.request()
    assert desk.triggered(desk.elapse(300)) == []
    desk.now = 310
    assert desk.triggered(desk.complete(1)) == [2]
    desk.complete(2)
    assert desk.triggered(desk.request()) == [3]


def test_a_failed_checkpoint_is_followed_by_no_pause(desk_with):
    desk = desk_with(min_pause_ms=80, tolerable_failures=5)
    desk.start()
    desk.elapse(100)
    desk.elapse(200)
    assert desk.triggered(desk.decline(SINK, 1)) == [2]


# Tasks that have finished.


def test_a_finished_task_is_asked_for_nothing(desk):
    desk.finish(FIRST)
    assert desk.told(desk.request()) == [("trigger", SECOND, 1)]
    desk.acknowledge(SECOND, 1)
    (store,) = desk.acknowledge(SINK, 1)
    assert [state.finished for state in store.metadata.operators[0].subtasks] == [True, False]
    assert store.metadata.operators[0].subtasks[0].handle is None
    assert {task for _, task, _ in desk.told(desk.stored(1))} == {SECOND, SINK}


def test_a_task_whose_upstreams_have_all_finished_is_triggered_itself(desk):
    desk.finish(FIRST)
    desk.finish(SECOND)
    assert desk.told(desk.request()) == [("trigger", SINK, 1)]


def test_a_job_that_has_finished_takes_no_checkpoints(desk):
    for task in (FIRST, SECOND, SINK):
        desk.finish(task)
    assert desk.request() == []


def test_a_task_that_finishes_before_it_answers_ends_the_checkpoint_without_a_failure(desk):
    desk.request()
    desk.acknowledge(SECOND, 1)
    effects = desk.finish(FIRST)
    assert desk.told(effects) == [("aborted", SECOND, 1), ("aborted", SINK, 1)]
    assert desk.coordinator.pending == {}
    desk.request()
    for task in (SECOND, SINK):
        desk.acknowledge(task, 2)
    desk.stored(2)
    assert desk.store.latest.checkpoint_id == 2


def test_a_task_that_finishes_after_its_answer_changes_nothing(desk):
    desk.request()
    desk.acknowledge(FIRST, 1)
    assert desk.finish(FIRST) == []
    desk.acknowledge(SECOND, 1)
    assert len(desk.acknowledge(SINK, 1)) == 1


def test_a_task_of_another_attempt_that_finished_still_takes_part(desk):
    desk.end()
    desk.start("1.2")
    assert desk.finish(FIRST, attempt="1.1") == []
    assert desk.told(desk.request()) == [("trigger", FIRST, 1), ("trigger", SECOND, 1)]


def test_tasks_that_had_finished_run_again_in_the_next_attempt(desk):
    desk.finish(FIRST)
    desk.end()
    desk.start("1.2")
    assert desk.told(desk.request()) == [("trigger", FIRST, 1), ("trigger", SECOND, 1)]


# What the coordinator checks of itself.


def test_an_attempt_cannot_start_while_another_one_runs(desk):
    with pytest.raises(AssertionError, match="while another one runs"):
        desk.start("1.2")


def test_an_attempt_cannot_start_before_the_outcome_is_known(desk):
    desk.request()
    desk.acknowledge_all(1)
    desk.end()
    with pytest.raises(AssertionError, match="while a checkpoint is pending"):
        desk.handle(AttemptStarted(CheckpointPlan(AttemptId("1.2"), (), {})))


def test_the_events_of_a_timer_are_what_the_timer_was_started_with(desk_with):
    desk = desk_with()
    (timer,) = desk.start(running=())
    assert timer == StartTimer(100, IntervalElapsed(AttemptId("1.1")))
