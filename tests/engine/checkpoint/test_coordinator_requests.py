"""What somebody asks the coordinator for, and what he hears of it: queue, savepoints, scheduler, the end."""

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


def test_whoever_asked_hears_that_the_checkpoint_is_complete(desk):
    assert desk.resolved(desk.request(number=5)) == []
    assert desk.resolved(desk.acknowledge_all(1)) == [], "not before its metadata is durable"
    assert desk.resolved(desk.stored(1)) == [(5, 1)]


@pytest.mark.parametrize("end", ["is declined", "expires", "cannot be stored", "task finishes"])
def test_whoever_asked_hears_why_there_is_none(desk_with, end):
    desk = desk_with(tolerable_failures=9)
    desk.start()
    desk.request(number=5)
    if end == "is declined":
        assert desk.resolved(desk.decline(SINK, 1)) == [(5, "disk full")]
    elif end == "expires":
        assert desk.resolved(desk.expire(1)) == [(5, EXPIRED)]
    elif end == "cannot be stored":
        desk.acknowledge_all(1)
        assert desk.resolved(desk.not_stored(1)) == [(5, "disk full")]
    else:
        assert desk.resolved(desk.finish(FIRST)) == [(5, TASK_FINISHED)]


def test_what_nobody_waits_for_is_told_to_nobody(desk):
    desk.request()
    assert desk.resolved(desk.complete(1)) == []


def test_more_requests_than_may_wait_are_refused(desk):
    desk.request()
    for _ in range(MAX_QUEUED):
        desk.request()
    assert desk.resolved(desk.request(number=8)) == [(8, TOO_MANY_REQUESTS)]


def test_full_queue_of_the_interval_makes_room_for_somebody(desk_with):
    desk = desk_with(interval_ms=10)
    desk.start()
    for now in range(10, 10 * MAX_QUEUED + 20, 10):
        desk.elapse(now)
    assert len(desk.coordinator._requests.queued) == MAX_QUEUED
    assert desk.resolved(desk.request(number=8)) == []
    assert desk.resolved(desk.complete(1)) == []
    assert desk.resolved(desk.complete(2)) == [(8, 2)], "it was the first of all"


def test_end_of_an_attempt_ends_what_waits(desk):
    desk.request(number=1)
    desk.request(number=2)
    desk.handle(TriggerRequested(SAVEPOINT, 3))
    assert desk.resolved(desk.end()) == [
        (2, SUSPENDED),
        (1, "JOB_FAILOVER_REGION"),
        (3, "JOB_FAILOVER_REGION"),
    ]


# Notices.


def test_notice_of_an_abort_names_what_would_be_restored_now(desk_with):
    desk = desk_with(tolerable_failures=9)
    desk.start()
    for checkpoint_id, latest_id in ((1, 0), (2, 0)):
        desk.request()
        effects = desk.decline(SINK, checkpoint_id)
        told = messages(effects, NotifyCheckpointAborted)
        assert {each.latest_completed_id for each in told} == {latest_id}
    desk.request()
    desk.complete(3)
    desk.request()
    told = messages(desk.decline(SINK, 4), NotifyCheckpointAborted)
    assert {each.latest_completed_id for each in told} == {3}


def test_notice_of_a_completion_names_what_was_dropped_for_it(desk_with):
    desk = desk_with(num_retained=2)
    desk.start()
    subsumed = []
    for checkpoint_id in (1, 2, 3, 4):
        desk.request()
        told = messages(desk.complete(checkpoint_id), NotifyCheckpointComplete)
        subsumed.append({each.subsumed_id for each in told})
    assert subsumed == [{0}, {0}, {1}, {2}]


# Savepoints.


def test_savepoint_does_not_wait_for_its_turn_and_is_told_to_nobody(desk):
    desk.request(number=1)
    desk.request(number=2)
    effects = desk.request(SAVEPOINT, 3)
    assert desk.triggered(effects) == [2]
    effects = desk.acknowledge_all(2)
    [stored] = [effect for effect in effects if isinstance(effect, StoreMetadata)]
    assert stored.metadata.kind == SAVEPOINT
    effects = desk.stored(2)
    assert (desk.told(effects), desk.resolved(effects)) == ([], [(3, 2)])
    assert not any(isinstance(effect, CheckpointCompleted | DiscardCheckpoint) for effect in effects)
    assert desk.store.latest is None, "nobody restores it by himself"
    assert list(desk.coordinator.pending) == [1]
    assert desk.resolved(desk.complete(1)) == [(1, 1)], "an older checkpoint goes on beside it"


def test_savepoint_is_not_given_up_for_a_younger_checkpoint(desk_with):
    desk = desk_with(max_concurrent=3)
    desk.start()
    desk.request(SAVEPOINT, 1)
    desk.request(number=2)
    assert desk.resolved(desk.complete(2)) == [(2, 2)]
    assert desk.resolved(desk.complete(1)) == [(1, 1)]
    assert desk.store.latest.checkpoint_id == 2


def test_savepoint_waits_where_barriers_overtake(desk_with):
    desk = desk_with(unaligned=True)
    desk.start()
    desk.request()
    assert desk.triggered(desk.request(SAVEPOINT)) == []
    assert desk.triggered(desk.complete(1)) == [2]


def test_pause_after_a_savepoint_counts_too(desk_with):
    desk = desk_with(min_pause_ms=80)
    desk.start()
    desk.now = 50
    desk.request(SAVEPOINT)
    desk.complete(1)
    effects = desk.elapse(100)
    assert (desk.triggered(effects), desk.rings_at(effects)[-1]) == ([], 130)


@pytest.mark.parametrize("drains", [False, True])
def test_synchronous_savepoint_says_so_ends_older_checkpoints_and_is_told_to_all(desk, drains):
    desk.request(number=1)
    effects = desk.handle(TriggerRequested(SYNC_SAVEPOINT, 2, drains))
    assert messages(effects, TriggerCheckpoint) == [
        TriggerCheckpoint("1.1", task, 2, 0, SYNC_SAVEPOINT, drains) for task in (FIRST, SECOND)
    ]
    effects = desk.complete(2)
    assert desk.told(effects) == desk.everyone("aborted", 1) + desk.everyone("complete", 2)
    assert desk.resolved(effects) == [(1, SUBSUMED), (2, 2)]
    assert desk.store.latest is None


def test_synchronous_savepoint_that_is_declined_fails_the_attempt(desk_with):
    desk = desk_with(tolerable_failures=100)
    desk.start()
    desk.request(SYNC_SAVEPOINT)
    assert isinstance(desk.decline(SINK, 1)[-1], TooManyFailures)


def test_savepoint_that_expires_is_no_failure_of_the_job(desk):
    desk.request(SAVEPOINT)
    assert not any(isinstance(effect, TooManyFailures) for effect in desk.expire(1))


# Answers that come too late.


def test_answer_to_an_expired_checkpoint_is_told_and_its_file_deleted(desk_with):
    desk = desk_with(tolerable_failures=100)
    desk.start()
    desk.request()
    desk.expire(1)
    late = [AnsweredTooLate(1, FIRST), DiscardHandle(desk.file(FIRST, 1))]
    assert desk.acknowledge(FIRST, 1) == late
    assert desk.coordinator.pending == {}
    desk.request()
    assert desk.acknowledge(FIRST, 1) == late, "nor does it count for the next one"
    assert FIRST in desk.coordinator.pending[2].missing
    desk.decline(SINK, 2)
    assert desk.acknowledge(FIRST, 2) == [DiscardHandle(desk.file(FIRST, 2))], "that one had not expired"


def test_so_many_expired_checkpoints_are_remembered(desk_with):
    desk = desk_with(tolerable_failures=100)
    desk.start()
    for checkpoint_id in range(1, REMEMBERED_EXPIRED_CHECKPOINTS + 2):
        desk.request()
        desk.expire(checkpoint_id)
    assert len(desk.acknowledge(FIRST, 1)) == 1
    assert len(desk.acknowledge(FIRST, 2)) == 2


# The scheduler.


def test_stopped_scheduler_gives_up_everything_and_takes_no_periodic_request(desk_with):
    desk = desk_with()
    desk.start()
    desk.request(number=1)
    desk.request(number=2)
    effects = desk.handle(StopScheduler())
    assert desk.resolved(effects) == [(2, SUSPENDED), (1, SUSPENDED)]
    assert desk.told(effects) == desk.everyone("aborted", 1)
    assert desk.elapse(100) == []
    assert desk.resolved(desk.handle(PeriodicTriggerRequested(3))) == [(3, SCHEDULER_STOPPED)]
    assert desk.triggered(desk.request()) == [2], "what somebody asks for is another thing"


def test_scheduler_that_is_started_again_counts_from_then(desk):
    desk.handle(StopScheduler())
    desk.now = 130
    assert desk.rings_at(desk.handle(StartScheduler())) == [230]
    assert desk.elapse(200) == [], "the timer from before is stale"
    assert desk.triggered(desk.elapse(230)) == [1]
    effects = desk.handle(StartScheduler())
    assert desk.told(effects) == desk.everyone("aborted", 1), "what was under way is given up"


def test_periodic_request_of_somebody_heeds_the_pause(desk_with):
    desk = desk_with(min_pause_ms=80)
    desk.start()
    desk.request()
    desk.complete(1)
    assert desk.resolved(desk.handle(PeriodicTriggerRequested(4))) == [(4, WITHIN_MIN_PAUSE)]


def test_without_an_interval_there_is_no_scheduler_to_start(desk_with):
    desk = desk_with(interval_ms=None)
    desk.start()
    assert desk.handle(StartScheduler()) == []
    assert desk.resolved(desk.handle(PeriodicTriggerRequested(1))) == [(1, SCHEDULER_STOPPED)]


# Giving up.


def test_what_is_pending_is_given_up_and_what_waits_begins(desk):
    desk.request(number=1)
    desk.request(number=2)
    effects = desk.handle(AbortPending("somebody says so"))
    assert desk.resolved(effects) == [(1, "somebody says so")]
    assert desk.triggered(effects) == [2]
    assert effects.index(DiscardCheckpoint(1)) < len(effects) - 1, "the next one begins after that"


def test_checkpoint_whose_metadata_is_being_written_is_not_given_up(desk):
    desk.request()
    desk.acknowledge_all(1)
    assert desk.handle(AbortPending("somebody says so")) == []
    assert desk.told(desk.stored(1)) == desk.everyone("complete", 1)


def test_after_the_shutdown_nothing_is_taken_any_more(desk):
    desk.request(number=1)
    desk.request(number=2)
    effects = desk.handle(Shutdown())
    assert desk.resolved(effects) == [(2, SHUT_DOWN), (1, SHUT_DOWN)]
    assert desk.told(effects) == desk.everyone("aborted", 1)
    assert desk.resolved(desk.request(number=3)) == [(3, SHUT_DOWN)]
    assert desk.elapse(100) == []
    assert desk.acknowledge(FIRST, 1) == [DiscardHandle(desk.file(FIRST, 1))]


def test_request_that_waited_fails_if_it_cannot_begin_when_it_is_its_turn(desk):
    desk.request()
    desk.request(number=2)
    for task in (FIRST, SECOND, SINK):
        desk.acknowledge(task, 1)
        desk.finish(task)
    assert desk.resolved(desk.stored(1)) == [(2, TASKS_NOT_RUNNING)]


def test_options_decide_whether_checkpoints_go_on_after_a_task_has_finished(desk_with):
    desk = desk_with(checkpoints_after_tasks_finish=False)
    desk.start()
    desk.finish(FIRST)
    assert desk.resolved(desk.request(CHECKPOINT, 1)) == [(1, TASKS_NOT_RUNNING)]
