"""Mutants of barrier alignment: blocked channels, ended channels, late barriers and aborts."""

from __future__ import annotations

from collections.abc import Iterator

from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.task.barriers.aligned import AlignedBarrierHandler
from onceproof.engine.task.barriers.events import AbortCheckpoint, BarrierEffect
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="barrier-does-not-block",
    breaks="exactly_once",
    summary="records behind a barrier are processed before the other channels have delivered theirs",
)
def barrier_does_not_block(reached: Reached) -> Iterator[None]:
    """Exactly-once then behaves as at-least-once: records in the snapshot are replayed after a restore."""
    arrived = AlignedBarrierHandler.barrier_arrived

    def unblocked(
        self: AlignedBarrierHandler, channel: int, barrier: CheckpointBarrier
    ) -> list[BarrierEffect]:
        effects = arrived(self, channel, barrier)
        if self.blocked[channel]:
            reached()
            self.blocked[channel] = False
        return effects

    with replaced(AlignedBarrierHandler, "barrier_arrived", unblocked):
        yield


@mutant(
    id="FLINK-21086",
    breaks="liveness",
    summary="the end of a channel does not count as its barrier",
)
def end_of_partition_is_not_counted(reached: Reached) -> Iterator[None]:
    """The alignment waits for a barrier that never comes."""
    ended, align = AlignedBarrierHandler.channel_ended, AlignedBarrierHandler.align
    ending = False

    def channel_ended(self: AlignedBarrierHandler, channel: int) -> list[BarrierEffect]:
        nonlocal ending
        ending = True
        try:
            return ended(self, channel)
        finally:
            ending = False

    def align_unless_ending(self: AlignedBarrierHandler, channel: int, effects: list[BarrierEffect]) -> None:
        if ending:
            reached()
        else:
            align(self, channel, effects)

    with (
        replaced(AlignedBarrierHandler, "channel_ended", channel_ended),
        replaced(AlignedBarrierHandler, "align", align_unless_ending),
    ):
        yield


@mutant(
    id="late-barrier-blocks",
    breaks="liveness",
    summary="a barrier of a checkpoint that is over blocks its channel, and nothing unblocks it",
)
def late_barrier_blocks(reached: Reached) -> Iterator[None]:
    """The handler blocks the channel before it checks that the checkpoint is over, and drops the barrier."""
    arrived = AlignedBarrierHandler.barrier_arrived

    def blocking(
        self: AlignedBarrierHandler, channel: int, barrier: CheckpointBarrier
    ) -> list[BarrierEffect]:
        latest = self.latest_checkpoint_id
        is_late = barrier.checkpoint_id < latest or (barrier.checkpoint_id == latest and not self.pending)
        effects = arrived(self, channel, barrier)
        if is_late:
            reached()
            self.blocked[channel] = True
        return effects

    with replaced(AlignedBarrierHandler, "barrier_arrived", blocking):
        yield


@mutant(
    id="aborted-alignment-stays-blocked",
    breaks="liveness",
    summary="an aborted alignment leaves the channels blocked that had delivered their barrier",
)
def aborted_alignment_stays_blocked(reached: Reached) -> Iterator[None]:
    """The handler clears its list of blocked channels before it resumes them."""
    abort = AlignedBarrierHandler.abort

    def forgetful(self: AlignedBarrierHandler, checkpoint_id: int, reason: str) -> AbortCheckpoint:
        if self.holds_channels:
            reached()
            self.holds_channels.clear()
        return abort(self, checkpoint_id, reason)

    with replaced(AlignedBarrierHandler, "abort", forgetful):
        yield


@mutant(
    id="subsumed-alignment-counts",
    breaks="consistent_cut",
    summary="channels that had delivered the barrier of an older checkpoint count for the newer one",
)
def subsumed_alignment_counts(reached: Reached) -> Iterator[None]:
    """The alignment continues under the id of a newer barrier instead of being aborted."""
    arrived = AlignedBarrierHandler.barrier_arrived

    def going_on(
        self: AlignedBarrierHandler, channel: int, barrier: CheckpointBarrier
    ) -> list[BarrierEffect]:
        if self.pending and barrier.checkpoint_id > self.latest_checkpoint_id:
            reached()
            self.latest_checkpoint_id = barrier.checkpoint_id
            self._barrier = barrier
        return arrived(self, channel, barrier)

    with replaced(AlignedBarrierHandler, "barrier_arrived", going_on):
        yield
