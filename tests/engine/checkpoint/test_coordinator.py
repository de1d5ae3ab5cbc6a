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


def test_a_checkpoint_begins_with_a_timer_and_a_trigger_for_each_source(bench):
    bench.now = 40
    assert bench.request() == [
        CheckpointTriggered(1),
        StartTimer(1040, CheckpointExpired("1.1", 1)),
        Send(TriggerCheckpoint("1.1", FIRST, 1, 40)),
        Send(TriggerCheckpoint("1.1", SECOND, 1, 40)),
    ]
    assert list(bench.coordinator.pending) == [1]


def test_a_checkpoint_has_the_time_of_the_wall_clock_and_its_timer_the_drivers(bench):
    bench.now, bench.wall_clock.ahead_ms = 40, 5_000
    assert bench.request()[1:] == [
        StartTimer(1040, CheckpointExpired("1.1", 1)),
        Send(TriggerCheckpoint("1.1", FIRST, 1, 5_040, ahead_ms=5_000)),
        Send(TriggerCheckpoint("1.1", SECOND, 1, 5_040, ahead_ms=5_000)),
    ]
    assert bench.coordinator.pending[1].timestamp_ms == 5_040


def test_a_checkpoint_begins_only_when_every_task_runs(bench_with):
    bench = bench_with()
    bench.start(running=())
    assert bench.resolved(bench.request(number=7)) == [(7, TASKS_NOT_RUNNING)]
    for task in (FIRST, SINK, SECOND):
        assert bench.run(task) == [], "a request that failed is not made again"
    assert bench.triggered(bench.request()) == [1], "and has used up no id"


def test_nothing_begins_between_two_attempts(bench):
    bench.end()
    assert bench.resolved(bench.request(number=1)) == [(1, TASKS_NOT_RUNNING)]
    bench.start("1.2", running=(FIRST, SECOND))
    assert bench.request() == [], "a task that ran in the last attempt need not run in this one"
    bench.run(SINK)
    assert bench.triggered(bench.request()) == [1]


def test_a_task_of_another_attempt_that_runs_does_not_count(bench_with):
    bench = bench_with()
    bench.start("1.2", running=(FIRST, SECOND))
    bench.attempt = AttemptId("1.1")
    bench.run(SINK)
    bench.attempt = AttemptId("1.2")
    assert bench.request() == []
    bench.run(SINK)
    assert bench.triggered(bench.request()) == [1]


@pytest.mark.parametrize("max_concurrent", [1, 2, 3])
def test_so_many_checkpoints_may_be_pending_and_requests_wait(bench_with, max_concurrent):
    bench = bench_with(max_concurrent=max_concurrent)
    bench.start()
    for checkpoint_id in range(1, max_concurrent + 1):
        assert bench.triggered(bench.request()) == [checkpoint_id]
    assert bench.request() == []
    assert bench.request() == []
    assert bench.triggered(bench.complete(1)) == [max_concurrent + 1]
    assert bench.triggered(bench.complete(2)) == [max_concurrent + 2]
    assert bench.triggered(bench.complete(3)) == []


@pytest.mark.parametrize("end", ["stored", "declined", "task finished"])
def test_checkpoint_makes_room_for_the_next_only_when_it_is_over(bench_with, end):
    bench = bench_with(tolerable_failures=5)
    bench.start()
    bench.request()
    if end == "stored":
        bench.acknowledge_all(1)
    assert bench.request() == []
    if end == "stored":
        effects = bench.stored(1)
    else:
        effects = bench.decline(SINK, 1) if end == "declined" else bench.finish(FIRST)
    assert bench.triggered(effects) == [2]


def test_an_attempt_begins_without_the_requests_of_the_last_one(bench):
    bench.request()
    bench.request()
    bench.end()
    assert bench.triggered(bench.start("1.2")) == []
    assert bench.triggered(bench.request()) == [2]


@pytest.mark.parametrize(("completed", "expected"), [((), 1), ((3,), 4), ((3, 9), 10)])
def test_ids_go_on_after_the_highest_completed_one(bench_with, completed, expected):
    bench = bench_with(completed, num_retained=2)
    bench.start()
    assert bench.triggered(bench.request()) == [expected]
    bench.end()
    bench.start("1.2")
    assert bench.triggered(bench.request()) == [expected + 1]


# The interval.


def test_the_interval_of_an_attempt_begins_with_it_and_goes_on(bench_with):
    bench = bench_with()
    bench.now = 7
    assert bench.timer_due_ms(bench.start()) == [107]
    effects = bench.elapse(107)
    assert (bench.triggered(effects), bench.timer_due_ms(effects)) == ([1], [207])
    effects = bench.elapse(230)
    assert (bench.triggered(effects), bench.timer_due_ms(effects)) == ([], [307]), (
        "late, and at the same rate"
    )


def test_without_an_interval_there_is_no_timer(bench_with):
    bench = bench_with(interval_ms=None)
    assert bench.start() == []
    assert bench.triggered(bench.request()) == [1]


def test_the_timer_of_another_attempt_is_stale(bench):
    bench.end()
    assert bench.elapse(100) == []
    bench.start("1.2")
    assert bench.elapse(200, attempt="1.1") == []
    assert bench.triggered(bench.elapse(200)) == [1]


def test_a_periodic_request_that_waits_starts_when_there_is_room(bench):
    bench.elapse(100)
    assert bench.triggered(bench.elapse(200)) == []
    bench.now = 250
    effects = bench.complete(1)
    assert (bench.triggered(effects), bench.timer_due_ms(effects)) == ([2], [])


# The pause after a completion.


def test_the_interval_that_elapses_within_the_pause_elapses_again_at_its_end(bench_with):
    bench = bench_with(min_pause_ms=80)
    bench.start()
    bench.elapse(100)
    bench.now = 190
    bench.complete(1)
    effects = bench.elapse(200)
    assert (bench.triggered(effects), bench.timer_due_ms(effects)) == ([], [300, 270])
    assert bench.elapse(269) == []
    effects = bench.elapse(270)
    assert (bench.triggered(effects), bench.timer_due_ms(effects)) == ([2], [370])
    assert bench.elapse(300) == [], "the timer of the old rate rings, and is stale"


def test_a_periodic_request_that_had_to_wait_keeps_the_pause_too(bench_with):
    """Where checkpoints take longer than the interval, the pause is all that lets the job get on."""
    bench = bench_with(min_pause_ms=80)
    bench.start()
    bench.elapse(100)
    assert bench.triggered(bench.elapse(200)) == []
    bench.now = 210
    effects = bench.complete(1)
    assert (bench.triggered(effects), bench.timer_due_ms(effects)) == ([], [290])
    assert bench.triggered(bench.elapse(290)) == [2]
    assert bench.elapse(300) == [], "the timer that was replaced rings, and is stale"


def test_the_end_of_the_pause_itself_is_late_enough(bench_with):
    bench = bench_with(min_pause_ms=80)
    bench.start()
    bench.elapse(100)
    bench.elapse(200)
    bench.acknowledge_all(1)
    bench.now = 210
    bench.stored(1)
    bench.now = 290
    assert bench.triggered(bench.elapse(290)) == [2]


def test_requested_checkpoint_ignores_the_pause(bench_with):
    bench = bench_with(min_pause_ms=80)
    bench.start()
    bench.elapse(100)
    assert bench.triggered(bench.elapse(200)) == []
    bench.request()
    assert bench.triggered(bench.elapse(300)) == []
    bench.now = 310
    assert bench.triggered(bench.complete(1)) == [2]
    bench.complete(2)
    assert bench.triggered(bench.request()) == [3]


def test_a_failed_checkpoint_is_followed_by_no_pause(bench_with):
    bench = bench_with(min_pause_ms=80, tolerable_failures=5)
    bench.start()
    bench.elapse(100)
    bench.elapse(200)
    assert bench.triggered(bench.decline(SINK, 1)) == [2]


# Tasks that have finished.


def test_a_finished_task_is_asked_for_nothing(bench):
    bench.finish(FIRST)
    assert bench.sent(bench.request()) == [("trigger", SECOND, 1)]
    bench.acknowledge(SECOND, 1)
    (store,) = bench.acknowledge(SINK, 1)
    assert [state.finished for state in store.metadata.operators[0].subtasks] == [True, False]
    assert store.metadata.operators[0].subtasks[0].handle is None
    assert {task for _, task, _ in bench.sent(bench.stored(1))} == {SECOND, SINK}


def test_a_task_whose_upstreams_have_all_finished_is_triggered_itself(bench):
    bench.finish(FIRST)
    bench.finish(SECOND)
    assert bench.sent(bench.request()) == [("trigger", SINK, 1)]


def test_a_job_that_has_finished_takes_no_checkpoints(bench):
    for task in (FIRST, SECOND, SINK):
        bench.finish(task)
    assert bench.request() == []


def test_task_that_finishes_before_it_answers_aborts_without_a_failure(bench):
    bench.request()
    bench.acknowledge(SECOND, 1)
    effects = bench.finish(FIRST)
    assert bench.sent(effects) == [("aborted", SECOND, 1), ("aborted", SINK, 1)]
    assert bench.coordinator.pending == {}
    bench.request()
    for task in (SECOND, SINK):
        bench.acknowledge(task, 2)
    bench.stored(2)
    assert bench.store.latest.checkpoint_id == 2


def test_a_task_that_finishes_after_its_answer_changes_nothing(bench):
    bench.request()
    bench.acknowledge(FIRST, 1)
    assert bench.finish(FIRST) == []
    bench.acknowledge(SECOND, 1)
    assert len(bench.acknowledge(SINK, 1)) == 1


def test_a_task_of_another_attempt_that_finished_still_takes_part(bench):
    bench.end()
    bench.start("1.2")
    assert bench.finish(FIRST, attempt="1.1") == []
    assert bench.sent(bench.request()) == [("trigger", FIRST, 1), ("trigger", SECOND, 1)]


def test_tasks_that_had_finished_run_again_in_the_next_attempt(bench):
    bench.finish(FIRST)
    bench.end()
    bench.start("1.2")
    assert bench.sent(bench.request()) == [("trigger", FIRST, 1), ("trigger", SECOND, 1)]


# What the coordinator checks of itself.


def test_an_attempt_cannot_start_while_another_one_runs(bench):
    with pytest.raises(AssertionError, match="while another one runs"):
        bench.start("1.2")


def test_an_attempt_cannot_start_before_the_outcome_is_known(bench):
    bench.request()
    bench.acknowledge_all(1)
    bench.end()
    with pytest.raises(AssertionError, match="while a checkpoint is pending"):
        bench.handle(AttemptStarted(CheckpointPlan(AttemptId("1.2"), (), {})))


def test_the_events_of_a_timer_are_what_the_timer_was_started_with(bench_with):
    bench = bench_with()
    (timer,) = bench.start(running=())
    assert timer == StartTimer(100, IntervalElapsed(AttemptId("1.1")))
