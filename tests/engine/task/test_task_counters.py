"""The counters of a task: shares of its time, commits, the parts of a checkpoint."""

from __future__ import annotations

import pytest

from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.messages import CheckpointMeasures
from onceproof.engine.protocol_points import ABORTED, COMMITTED, COMMITTING
from onceproof.engine.task.event_context import EventContext
from onceproof.engine.task.task_counters import (
    BACKPRESSURED,
    BUSY,
    IDLE,
    MEASURED_AT_A_TIME,
    CheckpointTimer,
    TaskCounters,
)
from onceproof.engine.wall_clock import WallClock


def barrier(checkpoint_id, triggered_ms=100):
    return CheckpointBarrier(checkpoint_id, triggered_ms + 7_000, ahead_ms=7_000)


def test_the_shares_of_time_add_up_to_all_of_it():
    counters = TaskCounters()
    for now, standing in ((1000, BUSY), (1004, IDLE), (1010, BACKPRESSURED), (1013, IDLE)):
        counters.time_passes(now)
        counters.standing = standing
    counters.time_passes(1020)
    assert counters.shares_ms() == (6 + 7, 3, 4)
    counters.last_turn_ns = 5_000_000
    assert counters.shares_ms() == (8, 3, 9)
    counters.last_turn_ns = 99_000_000
    assert counters.shares_ms() == (0, 3, 17)


def test_commits_and_their_times_are_counted_at_the_points_that_sinks_pass():
    clock = iter([100, 130, 200, 210])
    context = EventContext("sink-0", lambda *point: None, WallClock(steady_ms=lambda: next(clock)))
    for point in (COMMITTING, COMMITTED, COMMITTING, COMMITTED, ABORTED):
        context.pass_point(point, 3)
    counters = context.counters
    assert (counters.commits, counters.aborted_transactions) == (2, 1)
    assert (counters.commit_ms, counters.last_commit_ms, counters.longest_commit_ms) == (40, 10, 30)


def test_an_aligned_checkpoint_is_split_into_its_parts():
    timer = CheckpointTimer()
    for now in (105, 112):
        timer.barrier_came(1, now)
    timer.snapshot_begins(barrier(1), 112)
    timer.snapshot_ends(1, 115)
    assert timer.measures(1, 140) == CheckpointMeasures(5, 7, 3, 25)
    assert timer.measures(1, 150) is None


def test_an_unaligned_checkpoint_is_aligned_once_its_records_are_complete():
    timer = CheckpointTimer()
    timer.barrier_came(1, 105)
    timer.snapshot_begins(barrier(1), 105)
    timer.snapshot_ends(1, 108)
    timer.in_flight_complete(1, 130)
    assert timer.measures(1, 140) == CheckpointMeasures(5, 25, 3, 10, True)


def test_two_checkpoints_at_a_time_are_measured_each_by_itself():
    timer = CheckpointTimer()
    timer.barrier_came(1, 101)
    timer.barrier_came(2, 103)
    timer.snapshot_begins(barrier(1), 104)
    timer.snapshot_ends(1, 104)
    timer.snapshot_begins(barrier(2, 102), 110)
    timer.snapshot_ends(2, 110)
    assert timer.measures(2, 111) == CheckpointMeasures(1, 7, 0, 1)
    assert timer.measures(1, 120) == CheckpointMeasures(1, 3, 0, 16)


@pytest.mark.parametrize("step", ["barrier_came", "snapshot_begins"])
def test_measures_of_checkpoints_that_never_end_are_dropped(step):
    timer = CheckpointTimer()
    for checkpoint_id in range(3 * MEASURED_AT_A_TIME):
        getattr(timer, step)(barrier(checkpoint_id) if step == "snapshot_begins" else checkpoint_id, 100)
    kept = [each for each in range(3 * MEASURED_AT_A_TIME) if timer.measures(each, 100) is not None]
    assert len(kept) == (MEASURED_AT_A_TIME if step == "snapshot_begins" else 0)


def test_first_barriers_of_checkpoints_that_never_begin_are_dropped():
    timer = CheckpointTimer()
    for checkpoint_id in range(MEASURED_AT_A_TIME + 1):
        timer.barrier_came(checkpoint_id, 100)
    alignments_ms = []
    for checkpoint_id in (0, 1):
        timer.snapshot_begins(barrier(checkpoint_id), 200)
        alignments_ms.append(timer.measures(checkpoint_id, 200).alignment_ms)
    assert alignments_ms == [0, 100]
