"""At-least-once: barriers are counted, and no channel is ever blocked (Flink: CheckpointBarrierTracker).

What follows a barrier on one channel while another channel's is still to come gets into the snapshot, and is
read again after a restore. The rules are Flink's:

- Several checkpoints may be under way at a time. Completing one drops all older ones; of more than
  TRACKED_CHECKPOINTS the oldest is dropped.
- A cancellation marker aborts its checkpoint, and those before it, once. What is aborted goes on being
  counted, so that its late barriers begin nothing.
- A checkpoint does not begin behind a newer one. Triggers may overtake each other, and a sink that took them
  in the wrong order would commit for the newer one what only the older one has.
- The end of a channel stands for its barrier of every checkpoint under way: the newest that is complete by it
  is taken, unless checkpoints after the end of tasks are switched off. Then all are aborted.
"""

from __future__ import annotations

from typing import Final

from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.messages import DECLINED_INPUT_END_OF_STREAM, DECLINED_ON_CANCELLATION_BARRIER
from onceproof.engine.task.barriers.aligned import NO_CHECKPOINT
from onceproof.engine.task.barriers.events import (
    AbortCheckpoint,
    BarrierArrived,
    BarrierEffect,
    BarrierEvent,
    CancellationArrived,
    ChannelEnded,
    StartCheckpoint,
)

TRACKED_CHECKPOINTS: Final = 50


class BarrierCount:
    """The barriers of one checkpoint; ``barrier`` is None where only its cancellation has come."""

    __slots__ = ("barrier", "channels", "checkpoint_id", "is_aborted", "target")

    def __init__(self, checkpoint_id: int, barrier: CheckpointBarrier | None, target: int) -> None:
        self.checkpoint_id = checkpoint_id
        self.barrier = barrier
        self.target = target
        self.is_aborted = barrier is None
        self.channels: set[int] = set()

    def count(self, channel: int) -> bool:
        """Count a channel, once; whether all are there."""
        self.channels.add(channel)
        return len(self.channels) == self.target


class BarrierTracker:
    """Counts the barriers of one task over ``channels`` input channels."""

    __slots__ = (
        "_counts_ended_channels",
        "_newest_id",
        "_open_channels",
        "_started_id",
        "_tracked",
        "blocked",
        "ended",
    )

    def __init__(self, channels: int, *, checkpoints_after_tasks_finish: bool = True) -> None:
        self.blocked = [False] * channels
        self.ended = [False] * channels
        self._open_channels = channels
        self._newest_id = NO_CHECKPOINT
        self._started_id = NO_CHECKPOINT
        self._tracked: list[BarrierCount] = []
        self._counts_ended_channels = checkpoints_after_tasks_finish

    @property
    def pending(self) -> bool:
        """Whether barriers of a checkpoint are still to come."""
        return bool(self._tracked)

    @property
    def holds_channels(self) -> list[int]:
        """None is blocked; these have given a barrier that waits for others."""
        return sorted({channel for known in self._tracked for channel in known.channels})

    @property
    def latest_checkpoint_id(self) -> int:
        """The newest checkpoint under way, or NO_CHECKPOINT."""
        return self._tracked[-1].checkpoint_id if self._tracked else NO_CHECKPOINT

    def handle(self, event: BarrierEvent, now: int) -> list[BarrierEffect]:
        """Take one event; ``now`` is unused here, counting has no clock."""
        if type(event) is BarrierArrived:
            return self.barrier_arrived(event.channel, event.barrier)
        if type(event) is CancellationArrived:
            return self.cancelled(event.channel, event.checkpoint_id)
        assert type(event) is ChannelEnded, f"{type(event).__name__} where barriers are only counted"
        return self.channel_ended(event.channel)

    def trigger(self, barrier: CheckpointBarrier, now: int = 0) -> list[BarrierEffect]:
        """The coordinator triggers this task itself, because it has no running upstream."""
        open_channels = [channel for channel, ended in enumerate(self.ended) if not ended]
        if len(open_channels) <= 1:
            self._tracked.clear()
            return self._start(barrier)
        effects: list[BarrierEffect] = []
        for channel in open_channels:
            effects.extend(self.barrier_arrived(channel, barrier))
        return effects

    def close(self) -> None:
        """The task has finished: it counts no more."""
        self._tracked.clear()

    def barrier_arrived(self, channel: int, barrier: CheckpointBarrier) -> list[BarrierEffect]:
        """Handle a barrier at the head of an input channel."""
        tracked = self._tracked
        if not tracked and self._open_channels == 1:
            return self._start(barrier)
        checkpoint_id = barrier.checkpoint_id
        for place, known in enumerate(tracked):
            if known.checkpoint_id == checkpoint_id:
                if not known.count(channel):
                    return []
                del tracked[: place + 1]
                return [] if known.is_aborted else self._start(barrier)
        if checkpoint_id > self._newest_id:
            self._newest_id = checkpoint_id
            begun = BarrierCount(checkpoint_id, barrier, self._open_channels)
            if begun.count(channel):
                # The other channels have ended, while an older one that they gave no barrier of still waits.
                tracked.clear()
                return self._start(barrier)
            tracked.append(begun)
            del tracked[:-TRACKED_CHECKPOINTS]
        return []

    def cancelled(self, channel: int, checkpoint_id: int) -> list[BarrierEffect]:
        """Abort the checkpoint of a cancellation marker, and older ones."""
        tracked = self._tracked
        if not tracked and self._open_channels == 1:
            return [AbortCheckpoint(checkpoint_id, DECLINED_ON_CANCELLATION_BARRIER)]
        effects: list[BarrierEffect] = []
        while tracked and tracked[0].checkpoint_id < checkpoint_id:
            self.abort(tracked.pop(0), DECLINED_ON_CANCELLATION_BARRIER, effects)
        if tracked and tracked[0].checkpoint_id == checkpoint_id:
            self.abort(tracked[0], DECLINED_ON_CANCELLATION_BARRIER, effects)
            if tracked[0].count(channel):
                tracked.pop(0)
        elif checkpoint_id > self._newest_id:
            self._newest_id = checkpoint_id
            effects.append(AbortCheckpoint(checkpoint_id, DECLINED_ON_CANCELLATION_BARRIER))
            cancelled = BarrierCount(checkpoint_id, None, self._open_channels)
            if not cancelled.count(channel):
                tracked.insert(0, cancelled)
        return effects

    def channel_ended(self, channel: int) -> list[BarrierEffect]:
        """Count the end of a channel as its barrier of all checkpoints under way."""
        self._open_channels -= 1
        self.ended[channel] = True
        effects: list[BarrierEffect] = []
        tracked = self._tracked
        if not self._counts_ended_channels:
            for known in tracked:
                self.abort(known, DECLINED_INPUT_END_OF_STREAM, effects)
            tracked.clear()
            return effects
        newest = -1
        for place, known in enumerate(tracked):
            if known.count(channel):
                newest = place
        if newest >= 0:
            completed = tracked[newest]
            del tracked[: newest + 1]
            if not completed.is_aborted and completed.barrier is not None:
                effects.extend(self._start(completed.barrier))
        return effects

    def _start(self, barrier: CheckpointBarrier) -> list[BarrierEffect]:
        """Begin a checkpoint, unless a newer one has begun: barriers and triggers may come out of order."""
        if barrier.checkpoint_id <= self._started_id:
            return []
        self._started_id = barrier.checkpoint_id
        return [StartCheckpoint(barrier)]

    def abort(self, count: BarrierCount, reason: str, effects: list[BarrierEffect]) -> None:
        """Drop a checkpoint, once."""
        if not count.is_aborted:
            count.is_aborted = True
            effects.append(AbortCheckpoint(count.checkpoint_id, reason))

    def validate(self) -> None:
        """What must hold between any two events.

        Raises AssertionError naming what does not.
        """
        ids = [known.checkpoint_id for known in self._tracked]
        assert ids == sorted(ids), f"checkpoints are tracked out of order: {ids}"
        for known in self._tracked:
            assert len(known.channels) < known.target, (
                f"all barriers of checkpoint {known.checkpoint_id} are there, and nothing follows"
            )
