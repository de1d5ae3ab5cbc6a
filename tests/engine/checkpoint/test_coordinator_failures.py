"""What ends a checkpoint before it is complete, what of that is a failure, and how many are tolerated."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.events import (
    CheckpointAborted,
    DiscardCheckpoint,
    TooManyFailures,
)
from onceproof.engine.checkpoint.failure_counter import EXPIRED, FAILOVER
from onceproof.engine.messages import (
    DECLINED_INPUT_END_OF_STREAM,
    DECLINED_ON_CANCELLATION_BARRIER,
    DECLINED_SUBSUMED,
    TaskId,
)

FIRST, SECOND, SINK = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)


@pytest.mark.parametrize(
    ("end", "reason"), [("decline", "disk full"), ("expire", EXPIRED), ("not_stored", "disk full")]
)
def test_failed_checkpoint_is_aborted_for_all_tasks(desk_with, end, reason):
    desk = desk_with(tolerable_failures=1)
    desk.start()
    desk.request()
    desk.acknowledge(FIRST, 1)
    if end == "not_stored":
        desk.acknowledge_all(1)
        effects = desk.not_stored(1)
    else:
        effects = desk.decline(SECOND, 1) if end == "decline" else desk.expire(1)
    assert effects[0] == CheckpointAborted(1, reason)
    assert effects[-1] == DiscardCheckpoint(1)
    assert desk.told(effects) == desk.everyone("aborted", 1)
    assert desk.store.latest is None
    assert desk.decline(SINK, 1) == []
    assert desk.expire(1) == []


def test_decline_and_timer_of_another_attempt_end_nothing(desk):
    desk.request()
    assert desk.decline(SINK, 1, attempt="0.9") == []
    assert desk.expire(1, attempt="0.9") == []
    assert list(desk.coordinator.pending) == [1]
    desk.complete(1)
    assert desk.expire(1) == [], "the timer of a completed checkpoint is stale"


@pytest.mark.parametrize("end", ["expires", "is declined", "attempt ends"])
def test_while_metadata_is_being_written_nothing_ends_the_checkpoint(desk, end):
    desk.request()
    desk.acknowledge_all(1)
    assert desk.coordinator.is_finalizing
    if end == "expires":
        assert desk.expire(1) == []
    elif end == "is declined":
        assert desk.decline(SINK, 1) == []
    else:
        assert desk.end() == []
    assert desk.coordinator.is_finalizing
    effects = desk.stored(1)
    assert not desk.coordinator.is_finalizing
    assert desk.store.latest.checkpoint_id == 1
    assert desk.told(effects) == ([] if end == "attempt ends" else desk.everyone("complete", 1))


def test_the_end_of_an_attempt_ends_what_is_pending_and_tells_nobody(desk_with):
    desk = desk_with(max_concurrent=3)
    desk.start()
    for _ in range(3):
        desk.request()
    desk.acknowledge_all(2)
    assert desk.end() == [
        CheckpointAborted(1, FAILOVER),
        DiscardCheckpoint(1),
        CheckpointAborted(3, FAILOVER),
        DiscardCheckpoint(3),
    ]
    assert list(desk.coordinator.pending) == [2]


def test_so_many_failures_in_a_row_are_tolerated(desk_with):
    desk = desk_with(tolerable_failures=2)
    desk.start()
    for checkpoint_id, is_last in ((1, False), (2, False), (3, True), (4, False)):
        desk.request()
        effects = desk.decline(SINK, checkpoint_id)
        assert isinstance(effects[-1], TooManyFailures) == is_last, checkpoint_id
        if is_last:
            assert effects[-1].reason == "checkpoint 3 failed (disk full) and 2 failures are tolerated"


def test_a_completed_checkpoint_forgives_the_failures_before_it(desk_with):
    desk = desk_with(tolerable_failures=1)
    desk.start()
    desk.request()
    desk.decline(SINK, 1)
    desk.request()
    desk.complete(2)
    desk.request()
    assert not isinstance(desk.decline(SINK, 3)[-1], TooManyFailures)


@pytest.mark.parametrize(
    "reason", [DECLINED_SUBSUMED, DECLINED_ON_CANCELLATION_BARRIER, DECLINED_INPUT_END_OF_STREAM]
)
def test_a_decline_that_says_nothing_of_the_jobs_health_is_not_counted(desk, reason):
    desk.request()
    desk.request()
    effects = desk.decline(SINK, 1, reason=reason)
    assert desk.told(effects)[:3] == desk.everyone("aborted", 1)
    assert desk.triggered(effects) == [2]


def test_an_ended_attempt_or_task_is_no_failure_of_a_checkpoint(desk):
    desk.request()
    desk.end()
    desk.start("1.2")
    desk.request()
    assert not any(isinstance(each, TooManyFailures) for each in desk.finish(FIRST))


# What the coordinator checks of itself.


def test_broken_states_are_noticed(desk):
    desk.request()
    coordinator = desk.coordinator
    pending = coordinator.pending[1]
    pending.finalizing = True
    with pytest.raises(AssertionError, match="finalized before everyone answered"):
        coordinator.validate()
    pending.finalizing = False
    coordinator._next_id = 1
    with pytest.raises(AssertionError, match="pending before its time"):
        coordinator.validate()
    coordinator._next_id = 2
    coordinator._plan = None
    with pytest.raises(AssertionError, match="although no attempt runs"):
        coordinator.validate()


def test_a_pending_checkpoint_older_than_the_latest_is_noticed(desk_with):
    desk = desk_with(completed=(4,))
    desk.start()
    desk.request()
    desk.coordinator.pending[4] = desk.coordinator.pending.pop(5)
    with pytest.raises(AssertionError, match="4 is pending although 4 completed"):
        desk.coordinator.validate()
