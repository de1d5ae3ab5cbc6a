"""Which barrier handler a task has: by how the job's checkpoints are taken."""

from __future__ import annotations

from typing import Final

from onceproof.engine.configuration.alignment import ALIGNED, AlignmentKind, CheckpointOptions
from onceproof.engine.task.barriers.aligned import AlignedBarrierHandler
from onceproof.engine.task.barriers.events import BarrierHandler
from onceproof.engine.task.barriers.tracker import BarrierTracker
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler

_AT_LEAST_ONCE: Final = AlignmentKind.AT_LEAST_ONCE


def barrier_handler(options: CheckpointOptions, channels: int) -> BarrierHandler:
    """A handler over ``channels`` input channels; ``options`` are those of the job's checkpoints."""
    if options is ALIGNED:
        # As nearly all jobs have it, and the others need not be asked for.
        return AlignedBarrierHandler(channels)
    if options.needs_channel_state:
        return UnalignedBarrierHandler(channels)
    if options.alignment is _AT_LEAST_ONCE:
        return BarrierTracker(channels)
    return AlignedBarrierHandler(channels)
