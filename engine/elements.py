"""The elements that travel in a channel between two tasks.

A channel's queue holds either a buffer (a plain list of records) or one control object. Records are plain
tuples and buffers plain lists because they exist by the million: an object per record costs a third of the
throughput. ``type(element) is list`` is the one test that separates data from control.
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
    """Separates the records before a checkpoint from those after it (Flink: CheckpointBarrier)."""

    checkpoint_id: int
    timestamp_ms: int
    """When the checkpoint was triggered, by the wall clock."""
    kind: Kind = CHECKPOINT
    options: CheckpointOptions = ALIGNED
    ahead_ms: int = 0
    """How far the wall clock was ahead of the driver's clock then."""

    @property
    def triggered_ms(self) -> int:
        """Return when the checkpoint was triggered, by the driver's clock."""
        return self.timestamp_ms - self.ahead_ms

    def overtaking(self) -> CheckpointBarrier:
        """Return the unaligned barrier of the same checkpoint, which overtakes queued records."""
        return CheckpointBarrier(self.checkpoint_id, self.timestamp_ms, self.kind, UNALIGNED, self.ahead_ms)


class BarrierAnnouncement(Struct, frozen=True, gc=False):
    """Sent ahead of all queued records: ``barrier`` follows behind them, and may turn unaligned.

    Flink: EventAnnouncement.
    """

    barrier: CheckpointBarrier


class CancelCheckpointMarker(Struct, frozen=True, gc=False):
    """No barrier of ``checkpoint_id`` will come on this channel (Flink: CancelCheckpointMarker)."""

    checkpoint_id: int


class Watermark(Struct, frozen=True, gc=False):
    """Event time has reached ``timestamp``, in milliseconds (PyFlink: Watermark).

    A later record of the same channel whose timestamp is not greater is late.
    """

    timestamp: int


class WatermarkStatus(Struct, frozen=True, gc=False):
    """Says whether the channel is idle (Flink: WatermarkStatus).

    A task leaves idle channels out when it combines the watermarks of its inputs.
    """

    is_idle: bool


class EndOfData(Struct, frozen=True, gc=False):
    """The input holds no more records; barriers may still follow until the channel is closed.

    It also stands for the last watermark, MAX_WATERMARK (Flink: EndOfData).
    """


class EndOfPartition(Struct, frozen=True, gc=False):
    """The last element of a channel: the upstream task has finished (Flink: EndOfPartitionEvent)."""


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
"""The watermark before any other."""
MAX_WATERMARK: Final = (1 << 63) - 1
"""The watermark behind the last record: it fires all event-time timers."""

IDLE = WatermarkStatus(True)
ACTIVE = WatermarkStatus(False)

END_OF_DATA = EndOfData()
END_OF_PARTITION = EndOfPartition()
