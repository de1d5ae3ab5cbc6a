"""Alignment where the recorded vectors do not go: triggers, repeats, the end of the task, self-checks."""

from __future__ import annotations

import pytest

from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.messages import (
    DECLINED_INPUT_END_OF_STREAM,
    DECLINED_ON_CANCELLATION_BARRIER,
    DECLINED_SUBSUMED,
)
from onceproof.engine.task.barriers.aligned import AlignedBarrierHandler
from onceproof.engine.task.barriers.events import (
    AbortCheckpoint,
    BarrierArrived,
    CancellationArrived,
    ChannelEnded,
    StartCheckpoint,
)


def barrier(checkpoint_id):
    return CheckpointBarrier(checkpoint_id, 1000 + checkpoint_id)


class Handler(AlignedBarrierHandler):
    """Events in short; validated after each."""

    __slots__ = ()

    def receive(self, event):
        effects = self.handle(event, 0)
        self.validate()
        return effects

    def barrier(self, channel, checkpoint_id):
        return self.receive(BarrierArrived(channel, barrier(checkpoint_id)))

    def cancel(self, channel, checkpoint_id):
        return self.receive(CancellationArrived(channel, checkpoint_id))

    def end(self, channel):
        return self.receive(ChannelEnded(channel))


# Barriers.


def test_a_barrier_blocks_its_channel_until_the_last_one_is_there():
    handler = Handler(3)
    assert handler.barrier(1, 4) == []
    assert handler.blocked == [False, True, False]
    assert handler.barrier(0, 4) == []
    assert handler.blocked == [True, True, False]
    assert handler.pending
    assert handler.barrier(2, 4) == [StartCheckpoint(barrier(4))]
    assert handler.blocked == [False, False, False]
    assert not handler.pending


def test_a_single_channel_is_aligned_at_once():
    handler = Handler(1)
    assert handler.barrier(0, 4) == [StartCheckpoint(barrier(4))]
    assert handler.blocked == [False]


def test_the_same_barrier_twice_on_a_channel_stands_for_no_other_channel():
    handler = Handler(2)
    handler.barrier(0, 4)
    assert handler.barrier(0, 4) == []
    assert handler.blocked == [True, False]
    assert handler.barrier(1, 4) == [StartCheckpoint(barrier(4))]
    assert handler.blocked == [False, False]


@pytest.mark.parametrize("late", [3, 4])
def test_a_barrier_of_a_checkpoint_that_is_over_blocks_nothing(late):
    handler = Handler(2)
    handler.barrier(0, 4)
    handler.barrier(1, 4)
    assert handler.barrier(0, late) == []
    assert handler.blocked == [False, False]


def test_an_older_barrier_during_an_alignment_blocks_nothing():
    handler = Handler(2)
    handler.barrier(0, 4)
    assert handler.barrier(1, 3) == []
    assert handler.blocked == [True, False]


def test_a_newer_barrier_gives_up_the_alignment_and_begins_its_own():
    handler = Handler(3)
    handler.barrier(0, 4)
    assert handler.barrier(1, 5) == [AbortCheckpoint(4, DECLINED_SUBSUMED)]
    assert handler.blocked == [False, True, False]
    assert handler.barrier(0, 5) == []
    assert handler.barrier(2, 5) == [StartCheckpoint(barrier(5))]


# Cancellation.


def test_a_cancelled_alignment_unblocks_and_its_later_barriers_are_dropped():
    handler = Handler(3)
    handler.barrier(0, 4)
    assert handler.cancel(1, 4) == [AbortCheckpoint(4, DECLINED_ON_CANCELLATION_BARRIER)]
    assert handler.blocked == [False, False, False]
    assert handler.barrier(2, 4) == []
    assert handler.blocked == [False, False, False]
    assert handler.cancel(2, 4) == []


def test_a_cancellation_that_comes_before_any_barrier_counts():
    handler = Handler(2)
    assert handler.cancel(0, 4) == [AbortCheckpoint(4, DECLINED_ON_CANCELLATION_BARRIER)]
    assert handler.barrier(1, 4) == []
    assert handler.blocked == [False, False]


def test_a_cancellation_of_a_newer_checkpoint_ends_the_older_alignment():
    """As in Flink only the newer one is declined; the older one can no longer complete without it."""
    handler = Handler(2)
    handler.barrier(0, 4)
    assert handler.cancel(1, 5) == [AbortCheckpoint(5, DECLINED_ON_CANCELLATION_BARRIER)]
    assert handler.blocked == [False, False]
    assert handler.barrier(1, 4) == []


def test_a_cancellation_of_a_checkpoint_that_is_over_changes_nothing():
    handler = Handler(2)
    handler.barrier(0, 4)
    handler.barrier(1, 4)
    handler.barrier(0, 5)
    assert handler.cancel(1, 4) == []
    assert handler.blocked == [True, False]


# Ends of channels.


def test_an_ended_channel_is_not_waited_for():
    handler = Handler(2)
    assert handler.end(0) == []
    assert handler.barrier(1, 4) == [StartCheckpoint(barrier(4))]


def test_an_end_completes_the_alignment_it_was_awaited_in():
    handler = Handler(2)
    handler.barrier(0, 4)
    assert handler.end(1) == [StartCheckpoint(barrier(4))]
    assert handler.blocked == [False, False]


def test_a_channel_that_gave_its_barrier_and_its_end_counts_once_and_is_not_resumed():
    handler = Handler(3)
    handler.barrier(0, 4)
    assert handler.end(0) == []
    assert handler.barrier(1, 4) == []
    assert handler.barrier(2, 4) == [StartCheckpoint(barrier(4))]
    assert handler.blocked == [True, False, False]


def test_an_end_aborts_the_alignment_where_ended_tasks_stop_checkpoints():
    handler = Handler(2, checkpoints_after_tasks_finish=False)
    handler.barrier(0, 4)
    assert handler.end(1) == [AbortCheckpoint(4, DECLINED_INPUT_END_OF_STREAM)]
    assert handler.blocked == [False, False]


# Direct triggers.


def test_a_task_without_channels_starts_at_its_trigger():
    handler = Handler(0)
    assert handler.trigger(barrier(4)) == [StartCheckpoint(barrier(4))]
    assert handler.latest_checkpoint_id == 4
    assert not handler.pending


def test_a_task_whose_channels_have_all_ended_starts_at_its_trigger():
    handler = Handler(2)
    handler.end(0)
    handler.end(1)
    assert handler.trigger(barrier(4)) == [StartCheckpoint(barrier(4))]
    handler.validate()


@pytest.mark.parametrize("late", [3, 4])
def test_a_trigger_that_is_repeated_or_overtaken_starts_nothing(late):
    handler = Handler(0)
    handler.trigger(barrier(4))
    assert handler.trigger(barrier(late)) == []


def test_a_trigger_stands_for_the_barrier_of_every_channel_that_is_still_open():
    handler = Handler(3)
    handler.end(1)
    assert handler.trigger(barrier(4)) == [StartCheckpoint(barrier(4))]
    handler.validate()
    assert handler.blocked == [False, False, False]
    assert handler.trigger(barrier(4)) == []


def test_a_trigger_gives_up_the_alignment_that_upstreams_left_behind():
    """They finished before all of them had sent the barrier."""
    handler = Handler(2)
    handler.barrier(0, 4)
    assert handler.trigger(barrier(5)) == [AbortCheckpoint(4, DECLINED_SUBSUMED), StartCheckpoint(barrier(5))]
    handler.validate()
    assert handler.blocked == [False, False]
    assert handler.barrier(1, 4) == []


# The end of the task, and what it checks of itself.


def test_a_task_that_finishes_while_it_aligns_holds_no_channel_back():
    handler = Handler(2)
    handler.barrier(0, 4)
    assert handler.blocked == [True, False]
    handler.close()
    handler.validate()
    assert handler.blocked == [False, False]
    assert not handler.pending


def test_blocked_channels_without_an_alignment_are_noticed():
    handler = Handler(2)
    handler.barrier(0, 4)
    handler._last_done = 4
    with pytest.raises(AssertionError, match="no checkpoint is in alignment"):
        handler.validate()


def test_an_alignment_that_is_complete_and_does_not_start_is_noticed():
    handler = Handler(2)
    handler.barrier(0, 4)
    handler._aligned.add(1)
    with pytest.raises(AssertionError, match="they stay blocked"):
        handler.validate()
