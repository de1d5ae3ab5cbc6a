"""What travels in a channel.

A channel's queue holds either a buffer (a plain list of records) or one control object. Records are plain
tuples and buffers plain lists because they exist by the million: an object per record costs a third of the
throughput. ``type(element) is list`` is the one test that tells data from control.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

Record: TypeAlias = tuple[Any, int | None]
"""A value and its event timestamp in milliseconds, or None where the source gave none."""

Buffer: TypeAlias = list[Record]


class CheckpointBarrier(Struct, frozen=True, gc=False):
    """Divides the records before a checkpoint from those after it (Flink: CheckpointBarrier)."""

    checkpoint_id: int
    timestamp_ms: int


class CancelCheckpointMarker(Struct, frozen=True, gc=False):
    """Tells downstream that no barrier of ``checkpoint_id`` will come on this channel."""

    checkpoint_id: int


class EndOfData(Struct, frozen=True, gc=False):
    """The input holds no more records; barriers may still follow until the channel is closed."""


class EndOfPartition(Struct, frozen=True, gc=False):
    """The last element of a channel: the upstream task has finished."""


Element: TypeAlias = Buffer | CheckpointBarrier | CancelCheckpointMarker | EndOfData | EndOfPartition

END_OF_DATA = EndOfData()
END_OF_PARTITION = EndOfPartition()
