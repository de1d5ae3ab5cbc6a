"""Counted barriers where the recorded vectors do not go: limits, repeats, triggers, what ends."""

from __future__ import annotations

import pytest

from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.messages import DECLINED_INPUT_END_OF_STREAM
from onceproof.engine.task.barriers.events import (
    AbortCheckpoint,
    BarrierArrived,
    CancellationArrived,
    ChannelEnded,
    StartCheckpoint,
)
from onceproof.engine.task.barriers.tracker import TRACKED_CHECKPOINTS, BarrierTracker


def barrier(checkpoint_id):
    return CheckpointBarrier(checkpoint_id, 0)


def test_no_channel_is_ever_blocked():
    tracker = BarrierTracker(2)
    tracker.handle(BarrierArrived(0, barrier(1)), 0)
    assert tracker.blocked == [False, False]
    assert tracker.pending
    tracker.validate()


def test_of_too_many_checkpoints_the_oldest_is_forgotten():
    tracker = BarrierTracker(2)
    for checkpoint_id in range(1, TRACKED_CHECKPOINTS + 2):
        tracker.handle(BarrierArrived(0, barrier(checkpoint_id)), 0)
    assert tracker.handle(BarrierArrived(1, barrier(1)), 0) == []
    assert tracker.handle(BarrierArrived(1, barrier(2)), 0) == [StartCheckpoint(barrier(2))]


def test_a_repeated_barrier_counts_once():
    tracker = BarrierTracker(3)
    tracker.handle(BarrierArrived(0, barrier(1)), 0)
    assert tracker.handle(BarrierArrived(0, barrier(1)), 0) == []
    assert tracker.handle(BarrierArrived(1, barrier(1)), 0) == []


def test_the_end_of_a_channel_aborts_where_ends_do_not_count():
    tracker = BarrierTracker(2, checkpoints_after_tasks_finish=False)
    tracker.handle(BarrierArrived(0, barrier(1)), 0)
    tracker.handle(BarrierArrived(0, barrier(2)), 0)
    assert tracker.handle(ChannelEnded(1), 0) == [
        AbortCheckpoint(1, DECLINED_INPUT_END_OF_STREAM),
        AbortCheckpoint(2, DECLINED_INPUT_END_OF_STREAM),
    ]
    assert not tracker.pending


@pytest.mark.parametrize("ended", [0, 1, 2, 3])
def test_a_trigger_counts_for_every_open_channel(ended):
    tracker = BarrierTracker(3)
    for channel in range(ended):
        tracker.handle(ChannelEnded(channel), 0)
    assert tracker.trigger(barrier(4)) == [StartCheckpoint(barrier(4))]
    assert not tracker.pending


def test_what_is_complete_and_still_tracked_is_found():
    tracker = BarrierTracker(2)
    tracker.handle(BarrierArrived(0, barrier(1)), 0)
    tracker._tracked[0].channels.add(1)
    with pytest.raises(AssertionError, match="all barriers of checkpoint 1 are there"):
        tracker.validate()


def test_a_finished_task_counts_no_more():
    tracker = BarrierTracker(2)
    tracker.handle(BarrierArrived(0, barrier(1)), 0)
    tracker.close()
    assert not tracker.pending


@pytest.mark.parametrize("channels", [0, 1])
def test_a_trigger_that_comes_behind_a_newer_one_begins_nothing(channels):
    tracker = BarrierTracker(channels)
    assert tracker.trigger(barrier(5)) == [StartCheckpoint(barrier(5))]
    assert tracker.trigger(barrier(4)) == []
    assert tracker.trigger(barrier(6)) == [StartCheckpoint(barrier(6))]


def test_the_last_open_channel_waits_for_none_of_those_that_have_ended():
    tracker = BarrierTracker(2)
    tracker.handle(CancellationArrived(1, 5), 0)
    tracker.handle(ChannelEnded(1), 0)
    assert tracker.pending, "the aborted one waits for a barrier that may never come"
    assert tracker.handle(BarrierArrived(0, barrier(6)), 0) == [StartCheckpoint(barrier(6))]
    assert not tracker.pending
