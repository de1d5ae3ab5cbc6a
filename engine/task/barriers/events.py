"""The events of a barrier handler and its effects.

Handlers see barriers, cancellation markers and ends of channels; they never see records. The driver of the
task delivers nothing from the channels that ``blocked`` names.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from msgspec import Struct

from onceproof.engine.elements import CheckpointBarrier


class BarrierArrived(Struct, frozen=True):
    """A barrier is next on ``channel``."""

    channel: int
    barrier: CheckpointBarrier


class CancellationArrived(Struct, frozen=True):
    """A cancellation marker is next on ``channel``."""

    channel: int
    checkpoint_id: int


class AbortNotified(Struct, frozen=True):
    """The coordinator has given the checkpoint up, whose barriers may still be on their way."""

    checkpoint_id: int


class ChannelEnded(Struct, frozen=True):
    """``channel`` will bring nothing any more."""

    channel: int


class BarrierAnnounced(Struct, frozen=True):
    """``barrier`` waits behind what is queued on ``channel``."""

    channel: int
    barrier: CheckpointBarrier


class AlignmentTimeOut(Struct, frozen=True):
    """The time that StartAlignmentTimer asked for has come."""

    checkpoint_id: int


BarrierEvent: TypeAlias = (
    BarrierArrived | CancellationArrived | AbortNotified | ChannelEnded | BarrierAnnounced | AlignmentTimeOut
)


class StartCheckpoint(Struct, frozen=True):
    """Effect: take the snapshot and forward the barrier, now."""

    barrier: CheckpointBarrier


class AbortCheckpoint(Struct, frozen=True):
    """Effect: this task takes no snapshot for the checkpoint; say so downstream and to the coordinator."""

    checkpoint_id: int
    reason: str


class StartAlignmentTimer(Struct, frozen=True):
    """Effect: hand AlignmentTimeOut back at ``due_ms``. It is never cancelled; stale, it is ignored."""

    due_ms: int
    checkpoint_id: int


class TakeInFlight(Struct, frozen=True):
    """Effect: what is queued on ``channels`` ahead of the barrier belongs to the checkpoint.

    Where the barrier is queued there it overtakes; where it is not, everything is ahead of it.
    """

    checkpoint_id: int
    channels: tuple[int, ...]


class InFlightComplete(Struct, frozen=True):
    """Effect: every channel has delivered its barrier, nothing more is in flight for the checkpoint."""

    checkpoint_id: int


BarrierEffect: TypeAlias = (
    StartCheckpoint | AbortCheckpoint | StartAlignmentTimer | TakeInFlight | InFlightComplete
)


class BarrierHandler(Protocol):
    """Decides when a task with several channels takes its snapshot.

    ``blocked[channel]``: whether the channel must wait; ``ended[channel]``: whether it is over.
    """

    blocked: list[bool]
    ended: list[bool]

    @property
    def latest_checkpoint_id(self) -> int:
        """The latest checkpoint of which a barrier has come."""
        ...

    @property
    def pending(self) -> bool:
        """Whether barriers of a checkpoint have come, and others not."""
        ...

    @property
    def holds_channels(self) -> list[int]:
        """The channels whose barrier waits for others."""
        ...

    def handle(self, event: BarrierEvent, now: int) -> list[BarrierEffect]:
        """Take one event at ``now`` (milliseconds)."""
        ...

    def trigger(self, barrier: CheckpointBarrier, now: int = 0) -> list[BarrierEffect]:
        """The coordinator triggers the task itself, because it has no running upstream.

        The trigger stands for a barrier on every channel that has not ended.
        """
        ...

    def close(self) -> None:
        """The task has finished: no channel waits any more."""
        ...

    def validate(self) -> None:
        """What must hold between any two events. Raises AssertionError naming what does not."""
        ...
