"""Barrier handlers where the recorded vectors do not go: triggers, repeats, the end of the task, self-checks.

Aligned barriers mean the same to the aligned and to the unaligned handler; what no handler may do
differently is tried on all three.
"""

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
from onceproof.engine.task.barriers.tracker import TRACKED_CHECKPOINTS, BarrierTracker
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler

BLOCKING = (AlignedBarrierHandler, UnalignedBarrierHandler)


def barrier(checkpoint_id):
    return CheckpointBarrier(checkpoint_id, 1000 + checkpoint_id)


class Bench:
    """A handler that gets its events in short, and is validated after each."""

    def __init__(self, kind, channels, **settings):
        self.handler = kind(channels, **settings)

    def receive(self, event):
        effects = self.handler.handle(event, 0)
        self.handler.validate()
        return effects

    def barrier(self, channel, checkpoint_id):
        return self.receive(BarrierArrived(channel, barrier(checkpoint_id)))

    def cancel(self, channel, checkpoint_id):
        return self.receive(CancellationArrived(channel, checkpoint_id))

    def end(self, channel):
        return self.receive(ChannelEnded(channel))

    def trigger(self, checkpoint_id):
        effects = self.handler.trigger(barrier(checkpoint_id))
        self.handler.validate()
        return effects

    def close(self):
        self.handler.close()
        self.handler.validate()

    @property
    def blocked(self):
        return self.handler.blocked

    @property
    def pending(self):
        return self.handler.pending


@pytest.fixture(params=[*BLOCKING, BarrierTracker], ids=lambda kind: kind.__name__)
def any_handler(request):
    return lambda channels, **settings: Bench(request.param, channels, **settings)


@pytest.fixture(params=BLOCKING, ids=lambda kind: kind.__name__)
def handler_of(request):
    return lambda channels, **settings: Bench(request.param, channels, **settings)


# What every handler does.


def test_repeated_barrier_stands_for_no_other_channel(any_handler):
    handler = any_handler(3)
    handler.barrier(0, 4)
    assert handler.barrier(0, 4) == []
    assert handler.barrier(1, 4) == []
    assert handler.pending
    assert handler.barrier(2, 4) == [StartCheckpoint(barrier(4))]
    assert not handler.pending
    assert handler.blocked == [False, False, False]


def test_single_channel_starts_at_once(any_handler):
    handler = any_handler(1)
    assert handler.barrier(0, 4) == [StartCheckpoint(barrier(4))]
    assert handler.blocked == [False]


def test_cancellation_before_any_barrier_declines_and_drops_later_barriers(any_handler):
    handler = any_handler(2)
    assert handler.cancel(0, 4) == [AbortCheckpoint(4, DECLINED_ON_CANCELLATION_BARRIER)]
    assert handler.barrier(1, 4) == []
    assert handler.blocked == [False, False]


def test_ended_channel_is_not_awaited(any_handler):
    handler = any_handler(2)
    assert handler.end(0) == []
    assert handler.barrier(1, 4) == [StartCheckpoint(barrier(4))]


def test_end_of_the_last_awaited_channel_starts_the_checkpoint(any_handler):
    handler = any_handler(2)
    handler.barrier(0, 4)
    assert handler.end(1) == [StartCheckpoint(barrier(4))]
    assert handler.blocked == [False, False]


def test_end_of_a_channel_aborts_where_ended_tasks_stop_checkpoints(any_handler):
    handler = any_handler(2, checkpoints_after_tasks_finish=False)
    handler.barrier(0, 4)
    assert handler.end(1) == [AbortCheckpoint(4, DECLINED_INPUT_END_OF_STREAM)]
    assert handler.blocked == [False, False]
    assert not handler.pending


@pytest.mark.parametrize(("channels", "ended"), [(0, 0), (2, 2), (3, 0), (3, 1), (3, 2), (3, 3)])
def test_trigger_stands_for_the_barrier_of_every_open_channel(any_handler, channels, ended):
    handler = any_handler(channels)
    for channel in range(ended):
        handler.end(channel)
    assert handler.trigger(4) == [StartCheckpoint(barrier(4))]
    assert not handler.pending
    assert handler.blocked == [False] * channels


@pytest.mark.parametrize("channels", [0, 1])
@pytest.mark.parametrize("late", [4, 5])
def test_repeated_or_overtaken_trigger_starts_nothing(any_handler, channels, late):
    handler = any_handler(channels)
    assert handler.trigger(5) == [StartCheckpoint(barrier(5))]
    assert handler.trigger(late) == []
    assert handler.trigger(6) == [StartCheckpoint(barrier(6))]


def test_task_that_finishes_while_it_waits_holds_no_channel_back(any_handler):
    handler = any_handler(2)
    handler.barrier(0, 4)
    assert handler.pending
    handler.close()
    assert handler.blocked == [False, False]
    assert not handler.pending


# Alignment.


def test_barrier_blocks_its_channel_until_the_last_one_arrives(handler_of):
    handler = handler_of(3)
    assert handler.barrier(1, 4) == []
    assert handler.blocked == [False, True, False]
    assert handler.barrier(0, 4) == []
    assert handler.blocked == [True, True, False]
    assert handler.barrier(2, 4) == [StartCheckpoint(barrier(4))]
    assert handler.blocked == [False, False, False]


@pytest.mark.parametrize("late", [3, 4])
def test_barrier_of_a_checkpoint_that_is_over_blocks_nothing(handler_of, late):
    handler = handler_of(2)
    handler.barrier(0, 4)
    handler.barrier(1, 4)
    assert handler.barrier(0, late) == []
    assert handler.blocked == [False, False]


def test_older_barrier_during_an_alignment_blocks_nothing(handler_of):
    handler = handler_of(2)
    handler.barrier(0, 4)
    assert handler.barrier(1, 3) == []
    assert handler.blocked == [True, False]


def test_newer_barrier_aborts_the_alignment_and_begins_its_own(handler_of):
    handler = handler_of(3)
    handler.barrier(0, 4)
    assert handler.barrier(1, 5) == [AbortCheckpoint(4, DECLINED_SUBSUMED)]
    assert handler.blocked == [False, True, False]
    assert handler.barrier(0, 5) == []
    assert handler.barrier(2, 5) == [StartCheckpoint(barrier(5))]


def test_cancelled_alignment_unblocks_and_drops_its_later_barriers(handler_of):
    handler = handler_of(3)
    handler.barrier(0, 4)
    assert handler.cancel(1, 4) == [AbortCheckpoint(4, DECLINED_ON_CANCELLATION_BARRIER)]
    assert handler.blocked == [False, False, False]
    assert handler.barrier(2, 4) == []
    assert handler.blocked == [False, False, False]
    assert handler.cancel(2, 4) == []


def test_cancellation_of_a_newer_checkpoint_ends_the_older_alignment(handler_of):
    """As in Flink only the newer one is declined; the older one can no longer complete without it."""
    handler = handler_of(2)
    handler.barrier(0, 4)
    assert handler.cancel(1, 5) == [AbortCheckpoint(5, DECLINED_ON_CANCELLATION_BARRIER)]
    assert handler.blocked == [False, False]
    assert handler.barrier(1, 4) == []


def test_cancellation_of_a_checkpoint_that_is_over_changes_nothing(handler_of):
    handler = handler_of(2)
    handler.barrier(0, 4)
    handler.barrier(1, 4)
    handler.barrier(0, 5)
    assert handler.cancel(1, 4) == []
    assert handler.blocked == [True, False]


def test_channel_with_barrier_and_end_counts_once_and_is_not_resumed(handler_of):
    handler = handler_of(3)
    handler.barrier(0, 4)
    assert handler.end(0) == []
    assert handler.barrier(1, 4) == []
    assert handler.barrier(2, 4) == [StartCheckpoint(barrier(4))]
    assert handler.blocked == [True, False, False]


def test_trigger_aborts_the_alignment_that_finished_upstreams_left(handler_of):
    """They finished before all of them had sent the barrier."""
    handler = handler_of(2)
    handler.barrier(0, 4)
    assert handler.trigger(5) == [AbortCheckpoint(4, DECLINED_SUBSUMED), StartCheckpoint(barrier(5))]
    assert handler.blocked == [False, False]
    assert handler.barrier(1, 4) == []


# Counting without alignment (at least once).


def test_tracker_blocks_no_channel():
    tracker = Bench(BarrierTracker, 2)
    tracker.barrier(0, 1)
    assert tracker.blocked == [False, False]
    assert tracker.pending


def test_tracker_forgets_the_oldest_of_too_many_checkpoints():
    tracker = Bench(BarrierTracker, 2)
    for checkpoint_id in range(1, TRACKED_CHECKPOINTS + 2):
        tracker.barrier(0, checkpoint_id)
    assert tracker.barrier(1, 1) == []
    assert tracker.barrier(1, 2) == [StartCheckpoint(barrier(2))]


def test_tracker_aborts_every_pending_checkpoint_where_ends_do_not_count():
    tracker = Bench(BarrierTracker, 2, checkpoints_after_tasks_finish=False)
    tracker.barrier(0, 1)
    tracker.barrier(0, 2)
    assert tracker.end(1) == [
        AbortCheckpoint(1, DECLINED_INPUT_END_OF_STREAM),
        AbortCheckpoint(2, DECLINED_INPUT_END_OF_STREAM),
    ]
    assert not tracker.pending


def test_last_open_channel_of_a_tracker_waits_for_no_ended_one():
    tracker = Bench(BarrierTracker, 2)
    tracker.cancel(1, 5)
    tracker.end(1)
    assert tracker.pending, "the aborted one waits for a barrier that may never come"
    assert tracker.barrier(0, 6) == [StartCheckpoint(barrier(6))]
    assert not tracker.pending


# Broken states, which validate() must notice.


def complete_without_start(handler):
    match handler:
        case AlignedBarrierHandler():
            handler._aligned.add(1)
        case UnalignedBarrierHandler():
            handler._delivered.add(1)
        case BarrierTracker():
            handler._tracked[0].channels.add(1)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (AlignedBarrierHandler, "they stay blocked"),
        (UnalignedBarrierHandler, "channels stay blocked"),
        (BarrierTracker, "all barriers of checkpoint 4 are there"),
    ],
)
def test_checkpoint_with_all_barriers_that_does_not_start_is_noticed(kind, message):
    bench = Bench(kind, 2)
    bench.barrier(0, 4)
    complete_without_start(bench.handler)
    with pytest.raises(AssertionError, match=message):
        bench.handler.validate()


def test_blocked_channels_without_an_alignment_are_noticed(handler_of):
    bench = handler_of(2)
    bench.barrier(0, 4)
    bench.handler._last_done = 4
    with pytest.raises(AssertionError, match="no checkpoint is in alignment"):
        bench.handler.validate()
