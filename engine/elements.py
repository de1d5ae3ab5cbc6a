"""What travels in a channel.

A channel's queue holds either a buffer (a plain list of records) or one control object. Records are plain
tuples and buffers plain lists because they exist by the million: an object per record costs a third of the
throughput. ``type(element) is list`` is the one test that tells data from control.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from msgspec import Struct

from onceproof.engine.configuration.alignment import ALIGNED, UNALIGNED, CheckpointOptions
from onceproof.engine.messages import CHECKPOINT, Kind

Record: TypeAlias = tuple[Any, int | None]
"""A value and its event timestamp in milliseconds, or None where the source gave none."""

Buffer: TypeAlias = list[Record]


class CheckpointBarrier(Struct, frozen=True, gc=False):
    """Divides the records before a checkpoint from those after it (Flink: CheckpointBarrier)."""

    checkpoint_id: int
    timestamp_ms: int
    kind: Kind = CHECKPOINT
    options: CheckpointOptions = ALIGNED

    def overtaking(self) -> CheckpointBarrier:
        """The barrier of the same checkpoint that waits for nobody."""
        return CheckpointBarrier(self.checkpoint_id, self.timestamp_ms, self.kind, UNALIGNED)


class BarrierAnnouncement(Struct, frozen=True, gc=False):
    """Tells ahead of all records that ``barrier`` is on its way behind them, and may have to overtake."""

    barrier: CheckpointBarrier


class CancelCheckpointMarker(Struct, frozen=True, gc=False):
    """Tells downstream that no barrier of ``checkpoint_id`` will come on this channel."""

    checkpoint_id: int


class Watermark(Struct, frozen=True, gc=False):
    """Event time has reached ``timestamp``: what comes behind it in a channel and is not above it is late."""

    timestamp: int


class WatermarkStatus(Struct, frozen=True, gc=False):
    """Whether the channel still brings watermarks, or is idle and holds nobody's event time back."""

    is_idle: bool


class EndOfData(Struct, frozen=True, gc=False):
    """The input holds no more records; barriers may still follow until the channel is closed.

    It stands for the last watermark, MAX_WATERMARK, too: where there is no more data, event time is over.
    """


class EndOfPartition(Struct, frozen=True, gc=False):
    """The last element of a channel: the upstream task has finished."""


Element: TypeAlias = (
    Buffer
    | CheckpointBarrier
    | BarrierAnnouncement
    | CancelCheckpointMarker
    | Watermark
    | WatermarkStatus
    | EndOfData
    | EndOfPartition
)

MIN_WATERMARK: Final = -(1 << 63)
"""The watermark before any other: nothing is known of event time."""
MAX_WATERMARK: Final = (1 << 63) - 1
"""The watermark behind the last record: everything that waits for event time happens."""

IDLE = WatermarkStatus(True)
ACTIVE = WatermarkStatus(False)

END_OF_DATA = EndOfData()
END_OF_PARTITION = EndOfPartition()
