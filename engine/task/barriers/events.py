"""What goes into a barrier handler and what comes out of it.

Handlers see barriers, cancellation markers and ends of channels; they never see records. Whoever drives one
withholds what is queued on the channels that ``blocked`` names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from engine.elements import CheckpointBarrier

DECLINED_SUBSUMED: Final = "CHECKPOINT_DECLINED_SUBSUMED"
DECLINED_ON_CANCELLATION_BARRIER: Final = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
DECLINED_INPUT_END_OF_STREAM: Final = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"


@dataclass(frozen=True, slots=True)
class BarrierArrived:
    """A barrier is next on ``channel``."""

    channel: int
    barrier: CheckpointBarrier


@dataclass(frozen=True, slots=True)
class CancellationArrived:
    """A cancellation marker is next on ``channel``."""

    channel: int
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class ChannelEnded:
    """``channel`` will bring nothing any more."""

    channel: int


BarrierEvent: TypeAlias = BarrierArrived | CancellationArrived | ChannelEnded


@dataclass(frozen=True, slots=True)
class StartCheckpoint:
    """Effect: take the snapshot and forward the barrier, now."""

    barrier: CheckpointBarrier


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Effect: this task takes no snapshot for the checkpoint; say so downstream and to the coordinator."""

    checkpoint_id: int
    reason: str


BarrierEffect: TypeAlias = StartCheckpoint | AbortCheckpoint
