"""What goes into a barrier handler and what comes out of it.

Handlers see barriers, cancellation markers and ends of channels; they never see records. Whoever drives one
withholds what is queued on the channels that ``blocked`` names.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from engine.elements import CheckpointBarrier


class BarrierArrived(Struct, frozen=True):
    """A barrier is next on ``channel``."""

    channel: int
    barrier: CheckpointBarrier


class CancellationArrived(Struct, frozen=True):
    """A cancellation marker is next on ``channel``."""

    channel: int
    checkpoint_id: int


class ChannelEnded(Struct, frozen=True):
    """``channel`` will bring nothing any more."""

    channel: int


BarrierEvent: TypeAlias = BarrierArrived | CancellationArrived | ChannelEnded


class StartCheckpoint(Struct, frozen=True):
    """Effect: take the snapshot and forward the barrier, now."""

    barrier: CheckpointBarrier


class AbortCheckpoint(Struct, frozen=True):
    """Effect: this task takes no snapshot for the checkpoint; say so downstream and to the coordinator."""

    checkpoint_id: int
    reason: str


BarrierEffect: TypeAlias = StartCheckpoint | AbortCheckpoint
