"""The queue of requests; what Flink's own class answered is in the conformance vectors."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.request_queue import MAX_QUEUED, CheckpointRequest, RequestQueue, TooEarly
from onceproof.engine.messages import CHECKPOINT, SAVEPOINT, SYNC_SAVEPOINT


def periodic(requested_ms: int = 0) -> CheckpointRequest:
    return CheckpointRequest(requested_ms, is_periodic=True)


def manual(requested_ms: int = 0, number: int = 0) -> CheckpointRequest:
    return CheckpointRequest(requested_ms, number=number)


def savepoint(requested_ms: int = 0, is_forced: bool = False) -> CheckpointRequest:
    return CheckpointRequest(requested_ms, SAVEPOINT, is_forced=is_forced)


def test_savepoints_come_first_then_forced_then_requested_then_older_ones():
    turn = [
        CheckpointRequest(9, SYNC_SAVEPOINT, is_forced=True),
        savepoint(1),
        CheckpointRequest(8, CHECKPOINT, is_forced=True),
        manual(3),
        manual(4),
        periodic(0),
        periodic(2),
    ]
    queue = RequestQueue(max_concurrent=1, min_pause_ms=0)
    for request in reversed(turn):
        assert queue.submit(request) is None
    assert [queue.next(10, pending=0, last_completion_ms=None) for _ in turn] == turn
    assert queue.next(10, pending=0, last_completion_ms=None) is None


def test_of_two_that_were_asked_for_at_the_same_time_the_first_is_first():
    queue = RequestQueue(max_concurrent=1, min_pause_ms=0)
    for number in (1, 2, 3):
        queue.submit(manual(5, number))
    assert [request.number for request in queue.clear()] == [1, 2, 3]
    assert queue.queued == []


@pytest.mark.parametrize(("pending", "begins"), [(0, True), (1, True), (2, False), (3, False)])
def test_what_is_not_forced_waits_while_enough_are_pending(pending, begins):
    queue = RequestQueue(max_concurrent=2, min_pause_ms=0)
    for request in (manual(), savepoint()):
        queue.submit(request)
        assert (queue.next(0, pending, None) == request) is begins
        queue.clear()


def test_forced_one_begins_however_many_are_pending_if_it_is_the_first():
    queue = RequestQueue(max_concurrent=1, min_pause_ms=0)
    forced = CheckpointRequest(0, is_forced=True)
    queue.submit(forced)
    queue.submit(savepoint())
    assert queue.next(0, 7, None) is None, "a savepoint that is not forced comes before it, and waits"
    queue.submit(savepoint(is_forced=True))
    assert queue.next(0, 7, None) == savepoint(is_forced=True)


def test_nothing_begins_while_more_than_may_be_pending_are_being_deleted():
    queue = RequestQueue(max_concurrent=2, min_pause_ms=0)
    queue.submit(savepoint(is_forced=True))
    assert queue.next(0, 0, None, deleting=3) is None
    assert queue.next(0, 0, None, deleting=2) is not None


def test_periodic_request_within_the_pause_is_dropped_with_the_time_left():
    queue = RequestQueue(max_concurrent=1, min_pause_ms=10)
    queue.submit(periodic())
    assert queue.next(104, 0, last_completion_ms=100) == TooEarly(periodic(), 6)
    assert queue.queued == []
    queue.submit(periodic())
    assert queue.next(110, 0, last_completion_ms=100) == periodic()


@pytest.mark.parametrize(
    "request_", [manual(), savepoint(), CheckpointRequest(0, is_periodic=True, is_forced=True)]
)
def test_other_requests_ignore_the_pause(request_):
    queue = RequestQueue(max_concurrent=1, min_pause_ms=10)
    queue.submit(request_)
    assert queue.next(100, 0, last_completion_ms=100) == request_


def test_before_the_first_completion_there_is_no_pause():
    queue = RequestQueue(max_concurrent=1, min_pause_ms=10)
    queue.submit(periodic())
    assert queue.next(0, 0, last_completion_ms=None) == periodic()


def test_full_queue_gives_up_a_periodic_request_before_it_refuses_another():
    queue = RequestQueue(max_concurrent=1, min_pause_ms=0, max_queued=2)
    assert queue.submit(periodic(1)) is None
    assert queue.submit(periodic(2)) is None
    assert queue.submit(manual(3)) == periodic(2)
    assert queue.submit(periodic(4)) == periodic(4), "it is the last itself"
    assert queue.submit(manual(5)) == periodic(1)
    assert queue.submit(savepoint(6)) == savepoint(6), "no request gives way any more"
    assert queue.queued == [manual(3), manual(5)]


def test_as_many_wait_as_with_flink():
    queue = RequestQueue(max_concurrent=1, min_pause_ms=0)
    refused = [queue.submit(manual(now)) for now in range(MAX_QUEUED + 1)]
    assert MAX_QUEUED == 1000
    assert refused == [None] * 1000 + [manual(1000)]
