"""What travels in a channel.

A channel's queue holds either a buffer (a plain list of records) or one control object. Records are plain
tuples and buffers plain lists because they exist by the million: an object per record costs a third of the
throughput. ``type(element) is list`` is the one test that tells data from control.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Record: TypeAlias = tuple[Any, int | None]
"""A value and its event timestamp in milliseconds, or None where the source gave none."""

Buffer: TypeAlias = list[Record]


@dataclass(frozen=True, slots=True)
class CheckpointBarrier:
    """Divides the records before checkpoint ``checkpoint_id`` from those after it (Flink: CheckpointBarrier)."""

    checkpoint_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class CancelCheckpointMarker:
    """Tells downstream that no barrier of ``checkpoint_id`` will come on this channel."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class EndOfData:
    """The input holds no more records; barriers may still follow until the channel is closed."""


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """The last element of a channel: the upstream task has finished."""


Element: TypeAlias = Buffer | CheckpointBarrier | CancelCheckpointMarker | EndOfData | EndOfPartition

END_OF_DATA = EndOfData()
END_OF_PARTITION = EndOfPartition()
