"""Requests to the coordinator and their outcome: queue, savepoints, scheduler, shutdown."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.coordinator import REMEMBERED_EXPIRED_CHECKPOINTS, TASK_FINISHED
from onceproof.engine.checkpoint.events import (
    AbortPending,
    AnsweredTooLate,
    CheckpointCompleted,
    DiscardCheckpoint,
    DiscardHandle,
    PeriodicTriggerRequested,
    RequestResolved,
    Shutdown,
    StartScheduler,
    StopScheduler,
    StoreMetadata,
    TooManyFailures,
    TriggerRequested,
)
from onceproof.engine.checkpoint.failure_counter import (
    EXPIRED,
    SCHEDULER_STOPPED,
    SHUT_DOWN,
    SUBSUMED,
    SUSPENDED,
    TASKS_NOT_RUNNING,
    TOO_MANY_REQUESTS,
    WITHIN_MIN_PAUSE,
)
from onceproof.engine.checkpoint.request_queue import MAX_QUEUED
from onceproof.engine.messages import (
    CHECKPOINT,
    SAVEPOINT,
    SYNC_SAVEPOINT,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    Send,
    TaskId,
    TriggerCheckpoint,
)

FIRST, SECOND, SINK = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)


def messages(effects, kind):
    return [
        effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)
    ]


# Outcomes.


def test_request_resolves_when_the_checkpoint_is_complete(bench):
    assert bench.resolved(bench.request(number=5)) == []
    assert bench.resolved(bench.acknowledge_all(1)) == [], "not before its metadata is durable"
    assert bench.resolved(bench.stored(1)) == [(5, 1)]


@pytest.mark.parametrize("end", ["is declined", "expires", "cannot be stored", "task finishes"])
def test_request_resolves_with_the_reason_when_the_checkpoint_fails(bench_with, end):
    bench = bench_with(tolerable_failures=9)
    bench.start()
    bench.request(number=5)
    if end == "is declined":
        assert bench.resolved(bench.decline(SINK, 1)) == [(5, "disk full")]
    elif end == "expires":
        assert bench.resolved(bench.expire(1)) == [(5, EXPIRED)]
    elif end == "cannot be stored":
        bench.acknowledge_all(1)
        assert bench.resolved(bench.not_stored(1)) == [(5, "disk full")]
    else:
        assert bench.resolved(bench.finish(FIRST)) == [(5, TASK_FINISHED)]


def test_request_without_a_number_sends_no_reply(bench):
    bench.request()
    assert bench.resolved(bench.complete(1)) == []


def test_more_requests_than_may_wait_are_refused(bench):
    bench.request()
    for _ in range(MAX_QUEUED):
        bench.request()
    assert bench.resolved(bench.request(number=8)) == [(8, TOO_MANY_REQUESTS)]


def test_full_queue_of_periodic_requests_makes_room_for_a_users_request(bench_with):
    bench = bench_with(interval_ms=10)
    bench.start()
    for now in range(10, 10 * MAX_QUEUED + 20, 10):
        bench.elapse(now)
    assert len(bench.coordinator._requests.queued) == MAX_QUEUED
    assert bench.resolved(bench.request(number=8)) == []
    assert bench.resolved(bench.complete(1)) == []
    assert bench.resolved(bench.complete(2)) == [(8, 2)], "it was the first of all"


def test_end_of_an_attempt_ends_what_waits(bench):
    bench.request(number=1)
    bench.request(number=2)
    bench.handle(TriggerRequested(SAVEPOINT, 3))
    assert bench.resolved(bench.end()) == [
        (2, SUSPENDED),
        (1, "JOB_FAILOVER_REGION"),
        (3, "JOB_FAILOVER_REGION"),
    ]


# Notices.


def test_notice_of_an_abort_names_what_would_be_restored_now(bench_with):
    bench = bench_with(tolerable_failures=9)
    bench.start()
    for checkpoint_id, latest_id in ((1, 0), (2, 0)):
        bench.request()
        effects = bench.decline(SINK, checkpoint_id)
        notices = messages(effects, NotifyCheckpointAborted)
        assert {each.latest_completed_id for each in notices} == {latest_id}
    bench.request()
    bench.complete(3)
    bench.request()
    notices = messages(bench.decline(SINK, 4), NotifyCheckpointAborted)
    assert {each.latest_completed_id for each in notices} == {3}


def test_notice_of_a_completion_names_what_was_dropped_for_it(bench_with):
    bench = bench_with(num_retained=2)
    bench.start()
    subsumed = []
    for checkpoint_id in (1, 2, 3, 4):
        bench.request()
        notices = messages(bench.complete(checkpoint_id), NotifyCheckpointComplete)
        subsumed.append({each.subsumed_id for each in notices})
    assert subsumed == [{0}, {0}, {1}, {2}]


# Savepoints.


def test_savepoint_jumps_the_queue_and_notifies_no_task(bench):
    bench.request(number=1)
    bench.request(number=2)
    effects = bench.request(SAVEPOINT, 3)
    assert bench.triggered(effects) == [2]
    effects = bench.acknowledge_all(2)
    [stored] = [effect for effect in effects if isinstance(effect, StoreMetadata)]
    assert stored.metadata.kind == SAVEPOINT
    effects = bench.stored(2)
    assert (bench.sent(effects), bench.resolved(effects)) == ([], [(3, 2)])
    assert not any(isinstance(effect, CheckpointCompleted | DiscardCheckpoint) for effect in effects)
    assert bench.store.latest is None, "no failover restores a savepoint"
    assert list(bench.coordinator.pending) == [1]
    assert bench.resolved(bench.complete(1)) == [(1, 1)], "an older checkpoint goes on beside it"


def test_savepoint_is_not_given_up_for_a_younger_checkpoint(bench_with):
    bench = bench_with(max_concurrent=3)
    bench.start()
    bench.request(SAVEPOINT, 1)
    bench.request(number=2)
    assert bench.resolved(bench.complete(2)) == [(2, 2)]
    assert bench.resolved(bench.complete(1)) == [(1, 1)]
    assert bench.store.latest.checkpoint_id == 2


def test_savepoint_waits_where_barriers_overtake(bench_with):
    bench = bench_with(unaligned=True)
    bench.start()
    bench.request()
    assert bench.triggered(bench.request(SAVEPOINT)) == []
    assert bench.triggered(bench.complete(1)) == [2]


def test_pause_after_a_savepoint_counts_too(bench_with):
    bench = bench_with(min_pause_ms=80)
    bench.start()
    bench.now = 50
    bench.request(SAVEPOINT)
    bench.complete(1)
    effects = bench.elapse(100)
    assert (bench.triggered(effects), bench.timer_due_ms(effects)[-1]) == ([], 130)


@pytest.mark.parametrize("drains", [False, True])
def test_synchronous_savepoint_aborts_older_checkpoints_and_notifies_all_tasks(bench, drains):
    bench.request(number=1)
    effects = bench.handle(TriggerRequested(SYNC_SAVEPOINT, 2, drains))
    assert messages(effects, TriggerCheckpoint) == [
        TriggerCheckpoint("1.1", task, 2, 0, SYNC_SAVEPOINT, drains) for task in (FIRST, SECOND)
    ]
    effects = bench.complete(2)
    assert bench.sent(effects) == bench.to_all_tasks("aborted", 1) + bench.to_all_tasks("complete", 2)
    assert bench.resolved(effects) == [(2, 2), (1, SUBSUMED)]
    kinds = [type(effect) for effect in effects]
    assert kinds.index(RequestResolved) < kinds.index(Send), "its commits come after it is known"
    assert bench.store.latest is None


def test_synchronous_savepoint_that_is_declined_fails_the_attempt(bench_with):
    bench = bench_with(tolerable_failures=100)
    bench.start()
    bench.request(SYNC_SAVEPOINT)
    assert isinstance(bench.decline(SINK, 1)[0], TooManyFailures)


def test_savepoint_that_expires_is_no_failure_of_the_job(bench):
    bench.request(SAVEPOINT)
    assert not any(isinstance(effect, TooManyFailures) for effect in bench.expire(1))


# Answers that come too late.


def test_answer_to_an_expired_checkpoint_is_reported_and_its_file_deleted(bench_with):
    bench = bench_with(tolerable_failures=100)
    bench.start()
    bench.request()
    bench.expire(1)
    late = [AnsweredTooLate(1, FIRST), DiscardHandle(bench.file(FIRST, 1))]
    assert bench.acknowledge(FIRST, 1) == late
    assert bench.coordinator.pending == {}
    bench.request()
    assert bench.acknowledge(FIRST, 1) == late, "nor does it count for the next one"
    assert FIRST in bench.coordinator.pending[2].missing
    bench.decline(SINK, 2)
    assert bench.acknowledge(FIRST, 2) == [DiscardHandle(bench.file(FIRST, 2))], "that one had not expired"


def test_so_many_expired_checkpoints_are_remembered(bench_with):
    bench = bench_with(tolerable_failures=100)
    bench.start()
    for checkpoint_id in range(1, REMEMBERED_EXPIRED_CHECKPOINTS + 2):
        bench.request()
        bench.expire(checkpoint_id)
    assert len(bench.acknowledge(FIRST, 1)) == 1
    assert len(bench.acknowledge(FIRST, 2)) == 2


# The scheduler.


def test_stopped_scheduler_gives_up_everything_and_takes_no_periodic_request(bench_with):
    bench = bench_with()
    bench.start()
    bench.request(number=1)
    bench.request(number=2)
    effects = bench.handle(StopScheduler())
    assert bench.resolved(effects) == [(2, SUSPENDED), (1, SUSPENDED)]
    assert bench.sent(effects) == bench.to_all_tasks("aborted", 1)
    assert bench.elapse(100) == []
    assert bench.resolved(bench.handle(PeriodicTriggerRequested(3))) == [(3, SCHEDULER_STOPPED)]
    assert bench.triggered(bench.request()) == [2], "a user's request is served all the same"


def test_scheduler_that_is_started_again_counts_from_then(bench):
    bench.handle(StopScheduler())
    bench.now = 130
    assert bench.timer_due_ms(bench.handle(StartScheduler())) == [230]
    assert bench.elapse(200) == [], "the timer from before is stale"
    assert bench.triggered(bench.elapse(230)) == [1]
    effects = bench.handle(StartScheduler())
    assert bench.sent(effects) == bench.to_all_tasks("aborted", 1), "what was under way is given up"


def test_periodic_request_of_a_user_heeds_the_pause(bench_with):
    bench = bench_with(min_pause_ms=80)
    bench.start()
    bench.request()
    bench.complete(1)
    assert bench.resolved(bench.handle(PeriodicTriggerRequested(4))) == [(4, WITHIN_MIN_PAUSE)]


def test_without_an_interval_there_is_no_scheduler_to_start(bench_with):
    bench = bench_with(interval_ms=None)
    bench.start()
    assert bench.handle(StartScheduler()) == []
    assert bench.resolved(bench.handle(PeriodicTriggerRequested(1))) == [(1, SCHEDULER_STOPPED)]


# Giving up.


def test_what_is_pending_is_given_up_and_what_waits_begins(bench):
    bench.request(number=1)
    bench.request(number=2)
    effects = bench.handle(AbortPending("aborted on request"))
    assert bench.resolved(effects) == [(1, "aborted on request")]
    assert bench.triggered(effects) == [2]
    assert effects.index(DiscardCheckpoint(1)) < len(effects) - 1, "the next one begins after that"


def test_checkpoint_whose_metadata_is_being_written_is_not_given_up(bench):
    bench.request()
    bench.acknowledge_all(1)
    assert bench.handle(AbortPending("aborted on request")) == []
    assert bench.sent(bench.stored(1)) == bench.to_all_tasks("complete", 1)


def test_after_the_shutdown_nothing_is_taken_any_more(bench):
    bench.request(number=1)
    bench.request(number=2)
    effects = bench.handle(Shutdown())
    assert bench.resolved(effects) == [(2, SHUT_DOWN), (1, SHUT_DOWN)]
    assert bench.sent(effects) == bench.to_all_tasks("aborted", 1)
    assert bench.resolved(bench.request(number=3)) == [(3, SHUT_DOWN)]
    assert bench.elapse(100) == []
    assert bench.acknowledge(FIRST, 1) == [DiscardHandle(bench.file(FIRST, 1))]


def test_request_that_waited_fails_if_it_cannot_begin_when_it_is_its_turn(bench):
    bench.request()
    bench.request(number=2)
    for task in (FIRST, SECOND, SINK):
        bench.acknowledge(task, 1)
        bench.finish(task)
    assert bench.resolved(bench.stored(1)) == [(2, TASKS_NOT_RUNNING)]


def test_options_decide_whether_checkpoints_go_on_after_a_task_has_finished(bench_with):
    bench = bench_with(checkpoints_after_tasks_finish=False)
    bench.start()
    bench.finish(FIRST)
    assert bench.resolved(bench.request(CHECKPOINT, 1)) == [(1, TASKS_NOT_RUNNING)]
