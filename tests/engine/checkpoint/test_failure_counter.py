"""Which failures of checkpoints count, and when the job fails of them."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.failure_counter import EXPIRED, SUBSUMED, UNCOUNTED, FailureCounter
from onceproof.engine.messages import CHECKPOINT, DECLINED_SUBSUMED, SAVEPOINT, SYNC_SAVEPOINT


def failures(counter, *checkpoint_ids, reason="disk full", kind=CHECKPOINT, by_task=False):
    return [counter.failed(each, reason, kind, by_task=by_task) for each in checkpoint_ids]


def test_one_more_than_tolerated_fails_the_job_and_counting_begins_anew():
    assert failures(FailureCounter(2), 1, 2, 3, 4, 5, 6) == [False, False, True] * 2


def test_checkpoint_counts_once_however_many_tasks_decline_it():
    counter = FailureCounter(1)
    assert failures(counter, 1, 1, 1, by_task=True) == [False] * 3
    assert failures(counter, 2) == [True]


def test_failures_without_an_id_count_each():
    assert failures(FailureCounter(1), None, None) == [False, True]


def test_completion_forgets_and_what_is_older_counts_no_more():
    counter = FailureCounter(1)
    failures(counter, 1)
    counter.completed(3)
    assert failures(counter, 2, 3) == [False, False], "a younger one has completed"
    assert failures(counter, 4) == [False]
    counter.completed(2)
    assert failures(counter, 5) == [True], "that an older one completes says nothing new"


COUNTED = (EXPIRED, "CHECKPOINT_DECLINED", "IO_EXCEPTION", "disk full")


@pytest.mark.parametrize(
    ("reason", "counts"),
    [*[(reason, False) for reason in sorted(UNCOUNTED)], *[(reason, True) for reason in COUNTED]],
)
def test_only_failures_of_a_task_or_the_storage_and_timeouts_count(reason, counts):
    assert failures(FailureCounter(0), 1, reason=reason, by_task=not counts) == [counts]


def test_savepoint_counts_only_where_a_task_declined_it():
    counter = FailureCounter(0)
    assert failures(counter, 1, reason=EXPIRED, kind=SAVEPOINT) == [False]
    assert failures(counter, 2, kind=SAVEPOINT, by_task=True) == [True]
    assert failures(counter, 3, reason=DECLINED_SUBSUMED, kind=SAVEPOINT, by_task=True) == [False]


def test_synchronous_savepoint_that_is_declined_fails_the_job_whatever_is_tolerated():
    counter = FailureCounter(100)
    assert failures(counter, 1, reason=SUBSUMED, kind=SYNC_SAVEPOINT, by_task=True) == [True]
    assert failures(counter, 2, reason=EXPIRED, kind=SYNC_SAVEPOINT) == [False]
