"""Barriers that overtake: the snapshot is taken at the first one, and what they overtake goes with it.

The rules are those of Flink's SingleCheckpointBarrierHandler in its alternating and unaligned states:

- An unaligned barrier starts the snapshot at once. No channel is blocked; what arrives on the others ahead of
  their own barrier is in flight, until the last one has delivered it.
- A barrier with a time-out begins as an aligned one and is announced ahead of what it waits behind. When
  the time since the coordinator's trigger is over, the announced barriers are promoted: they overtake, and
  the checkpoint goes on unaligned. A timer notices, or the next barrier; one that completes the alignment
  does not ask. Channels that were blocked by then stay blocked until the last barrier.
- A barrier that overtakes at the sender of a channel between two processes is announced at the receiver: it
  starts the snapshot, and overtakes the records that it has not overtaken yet.
- Subsumption, cancellation, obsolete barriers and the ends of channels are those of alignment.
- A barrier of a checkpoint that the coordinator has given up blocks no channel (in Flink it does). Barriers
  overtake on some edges only: a sender that waits for room in a blocked channel may be the one whose barrier
  is awaited, and then neither this barrier nor a later one would come. The notice may come ahead of the
  barrier. One for a younger checkpoint ends the alignment of an older one, whose own notice is lost.
"""

from __future__ import annotations

from onceproof.engine.configuration.alignment import AlignmentKind
from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.messages import (
    DECLINED_INPUT_END_OF_STREAM,
    DECLINED_ON_CANCELLATION_BARRIER,
    DECLINED_SUBSUMED,
)
from onceproof.engine.task.barriers.aligned import NO_CHECKPOINT
from onceproof.engine.task.barriers.events import (
    AbortCheckpoint,
    AbortNotified,
    AlignmentTimeOut,
    BarrierAnnounced,
    BarrierArrived,
    BarrierEffect,
    BarrierEvent,
    CancellationArrived,
    InFlightComplete,
    StartAlignmentTimer,
    StartCheckpoint,
    TakeInFlight,
)


class UnalignedBarrierHandler:
    """The barriers of one task over ``channels`` input channels, aligned or not as each of them says."""

    __slots__ = (
        "_announced",
        "_barrier",
        "_counts_ended_channels",
        "_delivered",
        "_given_up",
        "_has_barrier",
        "_has_started",
        "_is_unaligned",
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
        self.ended = [False] * channels
        self.holds_channels: list[int] = []
        self.latest_checkpoint_id = NO_CHECKPOINT
        self._last_done = NO_CHECKPOINT
        self._open_channels = channels
        self._target = 0
        self._delivered: set[int] = set()
        """The channels that gave their barrier, or their end for it."""
        self._announced: set[int] = set()
        self._barrier: CheckpointBarrier | None = None
        self._has_barrier = False
        """Whether one of the barriers has arrived; the end of a channel alone starts nothing."""
        self._is_unaligned = False
        self._has_started = False
        self._counts_ended_channels = checkpoints_after_tasks_finish
        self._given_up: set[int] = set()
        """Checkpoints that the coordinator has given up, and whose barriers have not come yet."""

    @property
    def pending(self) -> bool:
        """Whether barriers of a checkpoint are still to come."""
        return self.latest_checkpoint_id != self._last_done

    @property
    def undelivered(self) -> list[int]:
        """The channels whose barrier is still to come."""
        return [
            channel
            for channel, ended in enumerate(self.ended)
            if not ended and channel not in self._delivered
        ]

    def handle(self, event: BarrierEvent, now: int) -> list[BarrierEffect]:
        """Take one event at ``now`` (milliseconds)."""
        kind = type(event)
        effects: list[BarrierEffect] = []
        if kind is BarrierArrived:
            self.barrier_arrived(event.channel, event.barrier, now, effects)  # type: ignore[union-attr]
        elif kind is BarrierAnnounced:
            self._barrier_announced(event.channel, event.barrier, now, effects)  # type: ignore[union-attr]
        elif kind is AlignmentTimeOut:
            self._timed_out(event.checkpoint_id, effects)  # type: ignore[union-attr]
        elif kind is CancellationArrived:
            self.cancelled(event.checkpoint_id, effects)  # type: ignore[union-attr]
        elif kind is AbortNotified:
            self._abort_notified(event.checkpoint_id, effects)  # type: ignore[union-attr]
        else:
            self.channel_ended(event.channel, effects)  # type: ignore[union-attr]
        return effects

    def trigger(self, barrier: CheckpointBarrier, now: int = 0) -> list[BarrierEffect]:
        """The coordinator triggers this task itself, because it has no running upstream.

        What is still queued was sent before by those who have finished since: an unaligned barrier overtakes
        all of it. Behind an aligned one there must be nothing but ends.
        """
        effects: list[BarrierEffect] = []
        if barrier.checkpoint_id <= self.latest_checkpoint_id:
            return effects
        self._begin(barrier, now, effects)
        self._has_barrier = True
        channels = self.undelivered
        self._delivered.update(channels)
        if barrier.options.alignment is AlignmentKind.UNALIGNED:
            self._go_on_unaligned(effects)
            effects.append(TakeInFlight(barrier.checkpoint_id, tuple(channels)))
        self._complete(effects)
        return effects

    def close(self) -> None:
        """The task has finished: it takes no more checkpoints, so no channel waits for one."""
        self._last_done = self.latest_checkpoint_id
        self._release()

    def barrier_arrived(
        self, channel: int, barrier: CheckpointBarrier, now: int, effects: list[BarrierEffect]
    ) -> None:
        """Handle a barrier at the head of an input channel."""
        if self._is_obsolete(barrier) or self._is_given_up(barrier.checkpoint_id, effects):
            return
        self._begin(barrier, now, effects)
        self._announced.discard(channel)
        self._delivered.add(channel)
        self._has_barrier = True
        overtakes = barrier.options.alignment is AlignmentKind.UNALIGNED
        if not overtakes:
            self.blocked[channel] = True
            self.holds_channels.append(channel)
        is_last = len(self._delivered) >= self._target
        if overtakes or (not is_last and _is_late(barrier, now)) or self._is_unaligned:
            self._go_on_unaligned(effects)
        if is_last:
            self._complete(effects)

    def _barrier_announced(
        self, channel: int, barrier: CheckpointBarrier, now: int, effects: list[BarrierEffect]
    ) -> None:
        if self._is_obsolete(barrier) or self._is_given_up(barrier.checkpoint_id, effects):
            return
        self._begin(barrier, now, effects)
        self._announced.add(channel)
        if barrier.options.alignment is AlignmentKind.UNALIGNED:
            self._has_barrier = True
            self._go_on_unaligned(effects)
        elif self._is_unaligned:
            self._promote(effects)

    def _timed_out(self, checkpoint_id: int, effects: list[BarrierEffect]) -> None:
        if checkpoint_id != self.latest_checkpoint_id or not self.pending or self._is_unaligned:
            return
        if self._has_barrier:
            self._go_on_unaligned(effects)
        else:
            self._promote(effects)

    def channel_ended(self, channel: int, effects: list[BarrierEffect]) -> None:
        """Count the end of a channel as its barrier."""
        self._open_channels -= 1
        self.ended[channel] = True
        if not self.pending:
            return
        if not self._counts_ended_channels:
            self.abort(self.latest_checkpoint_id, DECLINED_INPUT_END_OF_STREAM, effects)
            return
        if channel in self.holds_channels:
            self.holds_channels.remove(channel)
        self._delivered.add(channel)
        if len(self._delivered) >= self._target:
            self._complete(effects)

    def cancelled(self, checkpoint_id: int, effects: list[BarrierEffect]) -> None:
        """Abort the checkpoint of a cancellation marker."""
        if checkpoint_id > self.latest_checkpoint_id or (
            checkpoint_id == self.latest_checkpoint_id and self.pending
        ):
            self.abort(checkpoint_id, DECLINED_ON_CANCELLATION_BARRIER, effects)

    def _abort_notified(self, checkpoint_id: int, effects: list[BarrierEffect]) -> None:
        latest = self.latest_checkpoint_id
        if checkpoint_id >= latest and self.pending:
            self.abort(latest, DECLINED_ON_CANCELLATION_BARRIER, effects)
        if checkpoint_id > latest:
            self._given_up.add(checkpoint_id)

    def _is_given_up(self, checkpoint_id: int, effects: list[BarrierEffect]) -> bool:
        """Return whether the coordinator has given the checkpoint up; decline it then, once."""
        if checkpoint_id not in self._given_up:
            return False
        if self.pending:
            self.abort(self.latest_checkpoint_id, DECLINED_SUBSUMED, effects)
        self.abort(checkpoint_id, DECLINED_ON_CANCELLATION_BARRIER, effects)
        return True

    def _is_obsolete(self, barrier: CheckpointBarrier) -> bool:
        checkpoint_id = barrier.checkpoint_id
        return checkpoint_id < self.latest_checkpoint_id or (
            checkpoint_id == self.latest_checkpoint_id and not self.pending
        )

    def _begin(self, barrier: CheckpointBarrier, now: int, effects: list[BarrierEffect]) -> None:
        """The first word of a checkpoint, unless it is not the first; it subsumes the one before."""
        if barrier.checkpoint_id == self.latest_checkpoint_id:
            return
        if self.pending:
            self.abort(self.latest_checkpoint_id, DECLINED_SUBSUMED, effects)
        self.latest_checkpoint_id = barrier.checkpoint_id
        if self._given_up:
            self._given_up = {later for later in self._given_up if later > barrier.checkpoint_id}
        self._target = self._open_channels
        self._barrier = barrier
        timeout_ms = barrier.options.aligned_timeout_ms
        if barrier.options.is_timeoutable and timeout_ms is not None:
            due_ms = max(now, barrier.triggered_ms + timeout_ms)
            effects.append(StartAlignmentTimer(due_ms, barrier.checkpoint_id))

    def _go_on_unaligned(self, effects: list[BarrierEffect]) -> None:
        """Take the snapshot now, if it is not taken yet, and let announced barriers overtake."""
        assert self._barrier is not None
        if not self._has_started:
            self._has_started = True
            self._barrier = self._barrier.overtaking()
            effects.append(StartCheckpoint(self._barrier))
        self._promote(effects)

    def _promote(self, effects: list[BarrierEffect]) -> None:
        self._is_unaligned = True
        if self._announced:
            effects.append(TakeInFlight(self.latest_checkpoint_id, tuple(sorted(self._announced))))
            self._announced.clear()

    def _complete(self, effects: list[BarrierEffect]) -> None:
        assert self._barrier is not None
        if self._has_started:
            effects.append(InFlightComplete(self.latest_checkpoint_id))
        else:
            effects.append(StartCheckpoint(self._barrier))
        self._last_done = self.latest_checkpoint_id
        self._release()

    def abort(self, checkpoint_id: int, reason: str, effects: list[BarrierEffect]) -> None:
        """End the alignment without a checkpoint."""
        self.latest_checkpoint_id = max(self.latest_checkpoint_id, checkpoint_id)
        self._last_done = self.latest_checkpoint_id
        self._release()
        effects.append(AbortCheckpoint(checkpoint_id, reason))

    def _release(self) -> None:
        self._delivered.clear()
        self._announced.clear()
        self._barrier = None
        self._has_barrier = self._is_unaligned = self._has_started = False
        for channel in self.holds_channels:
            self.blocked[channel] = False
        self.holds_channels.clear()

    def validate(self) -> None:
        """What must hold between any two events.

        Raises AssertionError naming what does not.
        """
        if not self.holds_channels:
            return
        assert self.pending, "channels are blocked although no checkpoint is in alignment"
        assert len(self._delivered) < self._target, "all barriers are there, yet channels stay blocked"


def _is_late(barrier: CheckpointBarrier, now: int) -> bool:
    options = barrier.options
    timeout_ms = options.aligned_timeout_ms
    return options.is_timeoutable and timeout_ms is not None and now - barrier.triggered_ms > timeout_ms
