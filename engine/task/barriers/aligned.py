"""Exactly-once alignment: a barrier blocks its channel until every other channel has delivered it too.

Thereby each record is before the snapshot on every path or after it on every path. The rules are those of
Flink's SingleCheckpointBarrierHandler in its aligned states:

- one checkpoint is in alignment at a time; a barrier with a higher id subsumes it;
- a barrier of a checkpoint that is completed, aborted or older is dropped and must not block its channel;
- the end of a channel stands for its barrier, unless checkpoints after the end of tasks are switched off;
- a channel that gave both its barrier and its end counts once, and is never resumed.
"""

from __future__ import annotations

from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.messages import (
    DECLINED_INPUT_END_OF_STREAM,
    DECLINED_ON_CANCELLATION_BARRIER,
    DECLINED_SUBSUMED,
)
from onceproof.engine.task.barriers.events import (
    AbortCheckpoint,
    BarrierArrived,
    BarrierEffect,
    BarrierEvent,
    CancellationArrived,
    ChannelEnded,
    StartCheckpoint,
)

NO_CHECKPOINT = -1


class AlignedBarrierHandler:
    """The alignment of one task over ``channels`` input channels.

    ``blocked[channel]``: whether the channel must wait, ``ended[channel]``: whether it is over;
    ``latest_checkpoint_id`` is the highest id seen, ``holds_channels`` are those to resume with its outcome.
    """

    __slots__ = (
        "_aligned",
        "_barrier",
        "_counts_ended_channels",
        "_last_done",
        "_open_channels",
        "_target",
        "blocked",
        "ended",
        "holds_channels",
        "latest_checkpoint_id",
    )

    def __init__(self, channels: int, *, checkpoints_after_tasks_finish: bool = True) -> None:
        self.blocked = [False] * channels
        self.latest_checkpoint_id = NO_CHECKPOINT
        self._last_done = NO_CHECKPOINT
        self._open_channels = channels
        self.ended = [False] * channels
        self._aligned: set[int] = set()
        self.holds_channels: list[int] = []
        self._target = 0
        self._barrier: CheckpointBarrier | None = None
        self._counts_ended_channels = checkpoints_after_tasks_finish

    @property
    def pending(self) -> bool:
        """Whether a checkpoint is in alignment."""
        return self.latest_checkpoint_id != self._last_done

    def handle(self, event: BarrierEvent, now: int) -> list[BarrierEffect]:
        """Take one event; ``now`` is unused here, alignment has no clock."""
        if type(event) is BarrierArrived:
            return self.barrier_arrived(event.channel, event.barrier)
        if type(event) is CancellationArrived:
            return self.cancelled(event.checkpoint_id)
        assert type(event) is ChannelEnded, f"{type(event).__name__} where all barriers are aligned"
        return self.channel_ended(event.channel)

    def trigger(self, barrier: CheckpointBarrier, now: int = 0) -> list[BarrierEffect]:
        """The coordinator triggers this task itself, because it has no running upstream.

        The trigger stands for a barrier on every channel that has not ended; behind it there are only ends.
        """
        effects: list[BarrierEffect] = []
        open_channels = [channel for channel, ended in enumerate(self.ended) if not ended]
        if open_channels:
            for channel in open_channels:
                effects.extend(self.barrier_arrived(channel, barrier))
        elif barrier.checkpoint_id > self.latest_checkpoint_id:
            self.latest_checkpoint_id = self._last_done = barrier.checkpoint_id
            effects.append(StartCheckpoint(barrier))
        return effects

    def close(self) -> None:
        """The task has finished: it takes no more checkpoints, so no channel waits for one."""
        self._last_done = self.latest_checkpoint_id
        self._release()

    def barrier_arrived(self, channel: int, barrier: CheckpointBarrier) -> list[BarrierEffect]:
        """Handle a barrier at the head of an input channel."""
        checkpoint_id = barrier.checkpoint_id
        effects: list[BarrierEffect] = []
        if checkpoint_id < self.latest_checkpoint_id:
            return effects
        if checkpoint_id == self.latest_checkpoint_id:
            if checkpoint_id == self._last_done:
                return effects
        else:
            if self.latest_checkpoint_id != self._last_done:
                effects.append(self.abort(self.latest_checkpoint_id, DECLINED_SUBSUMED))
            self.latest_checkpoint_id = checkpoint_id
            self._target = self._open_channels
            self._barrier = barrier
        self.blocked[channel] = True
        self.holds_channels.append(channel)
        self.align(channel, effects)
        return effects

    def channel_ended(self, channel: int) -> list[BarrierEffect]:
        """Count the end of a channel as its barrier."""
        effects: list[BarrierEffect] = []
        self._open_channels -= 1
        self.ended[channel] = True
        if not self.pending:
            return effects
        if self._counts_ended_channels:
            if channel in self.holds_channels:
                self.holds_channels.remove(channel)
            self.align(channel, effects)
        else:
            effects.append(self.abort(self.latest_checkpoint_id, DECLINED_INPUT_END_OF_STREAM))
        return effects

    def cancelled(self, checkpoint_id: int) -> list[BarrierEffect]:
        """Abort the checkpoint of a cancellation marker."""
        if checkpoint_id > self.latest_checkpoint_id or (
            checkpoint_id == self.latest_checkpoint_id and self.pending
        ):
            return [self.abort(checkpoint_id, DECLINED_ON_CANCELLATION_BARRIER)]
        return []

    def align(self, channel: int, effects: list[BarrierEffect]) -> None:
        """Block a channel until the others have delivered the barrier."""
        self._aligned.add(channel)
        if len(self._aligned) < self._target:
            return
        assert self._barrier is not None
        effects.append(StartCheckpoint(self._barrier))
        self._last_done = self.latest_checkpoint_id
        self._release()

    def abort(self, checkpoint_id: int, reason: str) -> AbortCheckpoint:
        """End the alignment without a checkpoint."""
        self.latest_checkpoint_id = max(self.latest_checkpoint_id, checkpoint_id)
        self._last_done = self.latest_checkpoint_id
        self._release()
        return AbortCheckpoint(checkpoint_id, reason)

    def _release(self) -> None:
        self._aligned.clear()
        self._barrier = None
        for channel in self.holds_channels:
            self.blocked[channel] = False
        self.holds_channels.clear()

    def validate(self) -> None:
        """What must hold between any two events.

        Raises AssertionError naming what does not.
        """
        if not self.holds_channels:
            return
        assert self.latest_checkpoint_id != self._last_done, (
            "channels are blocked although no checkpoint is in alignment"
        )
        assert len(self._aligned) < self._target, "all channels are aligned, yet they stay blocked"
