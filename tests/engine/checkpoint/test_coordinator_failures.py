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
    DECLINED_IN_BATCH,
    DECLINED_INPUT_END_OF_STREAM,
    DECLINED_ON_CANCELLATION_BARRIER,
    DECLINED_SUBSUMED,
    TaskId,
)

FIRST, SECOND, SINK = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)


@pytest.mark.parametrize(
    ("end", "reason"), [("decline", "disk full"), ("expire", EXPIRED), ("not_stored", "disk full")]
)
def test_failed_checkpoint_is_aborted_for_all_tasks(bench_with, end, reason):
    bench = bench_with(tolerable_failures=1)
    bench.start()
    bench.request()
    bench.acknowledge(FIRST, 1)
    if end == "not_stored":
        bench.acknowledge_all(1)
        effects = bench.not_stored(1)
    else:
        effects = bench.decline(SECOND, 1) if end == "decline" else bench.expire(1)
    missing = (SECOND, SINK) if end == "expire" else ()
    assert effects[0] == CheckpointAborted(1, reason, missing)
    assert effects[-1] == DiscardCheckpoint(1)
    assert bench.sent(effects) == bench.to_all_tasks("aborted", 1)
    assert bench.store.latest is None
    assert bench.decline(SINK, 1) == []
    assert bench.expire(1) == []


def test_decline_and_timer_of_another_attempt_end_nothing(bench):
    bench.request()
    assert bench.decline(SINK, 1, attempt="0.9") == []
    assert bench.expire(1, attempt="0.9") == []
    assert list(bench.coordinator.pending) == [1]
    bench.complete(1)
    assert bench.expire(1) == [], "the timer of a completed checkpoint is stale"


@pytest.mark.parametrize("end", ["expires", "is declined", "attempt ends"])
def test_while_metadata_is_being_written_nothing_ends_the_checkpoint(bench, end):
    bench.request()
    bench.acknowledge_all(1)
    assert bench.coordinator.is_finalizing
    if end == "expires":
        assert bench.expire(1) == []
    elif end == "is declined":
        assert bench.decline(SINK, 1) == []
    else:
        assert bench.end() == []
    assert bench.coordinator.is_finalizing
    effects = bench.stored(1)
    assert not bench.coordinator.is_finalizing
    assert bench.store.latest.checkpoint_id == 1
    assert bench.sent(effects) == ([] if end == "attempt ends" else bench.to_all_tasks("complete", 1))


def test_end_of_an_attempt_aborts_pending_checkpoints_without_notices(bench_with):
    bench = bench_with(max_concurrent=3)
    bench.start()
    for _ in range(3):
        bench.request()
    bench.acknowledge_all(2)
    assert bench.end() == [
        CheckpointAborted(1, FAILOVER),
        DiscardCheckpoint(1),
        CheckpointAborted(3, FAILOVER),
        DiscardCheckpoint(3),
    ]
    assert list(bench.coordinator.pending) == [2]


def test_so_many_failures_in_a_row_are_tolerated(bench_with):
    bench = bench_with(tolerable_failures=2)
    bench.start()
    for checkpoint_id, is_last in ((1, False), (2, False), (3, True), (4, False)):
        bench.request()
        effects = bench.decline(SINK, checkpoint_id)
        assert isinstance(effects[0], TooManyFailures) == is_last, checkpoint_id
        if is_last:
            assert effects[0].reason == "checkpoint 3 failed (disk full) and 2 failures are tolerated"


def test_a_completed_checkpoint_forgives_the_failures_before_it(bench_with):
    bench = bench_with(tolerable_failures=1)
    bench.start()
    bench.request()
    bench.decline(SINK, 1)
    bench.request()
    bench.complete(2)
    bench.request()
    assert not isinstance(bench.decline(SINK, 3)[-1], TooManyFailures)


@pytest.mark.parametrize(
    "reason", [DECLINED_SUBSUMED, DECLINED_ON_CANCELLATION_BARRIER, DECLINED_INPUT_END_OF_STREAM]
)
def test_a_decline_that_says_nothing_of_the_jobs_health_is_not_counted(bench, reason):
    bench.request()
    bench.request()
    effects = bench.decline(SINK, 1, reason=reason)
    assert bench.sent(effects)[:3] == bench.to_all_tasks("aborted", 1)
    assert bench.triggered(effects) == [2]


def test_an_ended_attempt_or_task_is_no_failure_of_a_checkpoint(bench):
    bench.request()
    bench.end()
    bench.start("1.2")
    bench.request()
    assert not any(isinstance(each, TooManyFailures) for each in bench.finish(FIRST))


# What the coordinator checks of itself.


def test_broken_states_are_noticed(bench):
    bench.request()
    coordinator = bench.coordinator
    pending = coordinator.pending[1]
    pending.finalizing = True
    with pytest.raises(AssertionError, match="finalized before all tasks answered"):
        coordinator.validate()
    pending.finalizing = False
    coordinator.next_id = 1
    with pytest.raises(AssertionError, match="pending before its time"):
        coordinator.validate()
    coordinator.next_id = 2
    coordinator._plan = None
    with pytest.raises(AssertionError, match="although no attempt runs"):
        coordinator.validate()


def test_a_pending_checkpoint_older_than_the_latest_is_noticed(bench_with):
    bench = bench_with(completed=(4,))
    bench.start()
    bench.request()
    bench.coordinator.pending[4] = bench.coordinator.pending.pop(5)
    with pytest.raises(AssertionError, match="4 is pending although 4 completed"):
        bench.coordinator.validate()


def test_interval_doubles_while_a_task_declines_in_batch_mode(bench_with):
    bench = bench_with()
    bench.start("1.1")
    now, waits_ms = 100, []
    for checkpoint_id in range(1, 8):
        (due_ms,) = bench.timer_due_ms(bench.elapse(now))
        waits_ms.append(due_ms - now)
        bench.decline(FIRST, checkpoint_id, reason=DECLINED_IN_BATCH)
        now = due_ms
    assert waits_ms == [100, 200, 400, 800, 1600, 1600, 1600]
    bench.end()
    assert bench.timer_due_ms(bench.start("1.2")) == [bench.now + 100]
