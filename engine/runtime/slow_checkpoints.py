"""What an expired checkpoint waited for: the slowest subtask, and how far it had come.

Rules:

- The slowest subtask is one that has not answered though all before it have: those behind it wait for it.
- The parts of a checkpoint are those of Flink: the way of the barrier to the subtask, the alignment of its
  inputs, the copy of its state (synchronous), and its storage (asynchronous).
- It is looked at when the time of a checkpoint is up, and never before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, TypeAlias

from msgspec import Struct

from onceproof.engine.messages import CheckpointMeasures, TaskId

PAGE: Final = "docs/troubleshooting.md#waited-longest-for"
_FASTER: Final = (
    "make the operator faster or give it more subtasks, or let barriers overtake what waits"
    " (execution.checkpointing.unaligned.enabled)"
)
_STORAGE: Final = (
    "look at the storage of checkpoints, or store less (execution.checkpointing.incremental with rocksdb)"
)
SHORTER_EPOCHS: Final = "make epochs shorter (execution.checkpointing.interval-records)"
MORE_TIME: Final = (
    "or allow for it (execution.checkpointing.timeout, execution.checkpointing.tolerable-failed-checkpoints)"
)


class Stage(Enum):
    """How far a subtask has come with a checkpoint."""

    UNSEEN = "it has not answered, and all subtasks before it have"
    TRIGGER_WAITS = "its source has not come to the trigger: a call of the source or of a function takes long"
    BARRIER_WAITS = "the barrier waits for what it has not yet processed"
    ALIGNS = "it has the barriers of some of its inputs, and waits for the others (alignment)"
    STORES = "its snapshot is taken, and not yet stored (asynchronous part)"


class Delay(Struct, frozen=True):
    """Where a subtask is with a checkpoint.

    ``waiting`` is the number of buffers in front of it; ``measures`` are of a snapshot that is taken.
    """

    stage: Stage
    waiting: int = 0
    measures: CheckpointMeasures | None = None
    busiest: str = ""
    """The subtask that has taken most of the time of the thread that the source waits for."""

    def describe(self) -> str:
        """Return what it waited for, and what can be done."""
        text = self.stage.value
        if self.stage is Stage.BARRIER_WAITS and self.waiting:
            text += f" ({self.waiting} buffer{'s' if self.waiting > 1 else ''})"
        if self.busiest:
            text += f" (most of the time has gone to {self.busiest})"
        took = self.measures
        if took is not None:
            text += (
                f" (start delay {took.start_delay_ms} ms, alignment {took.alignment_ms} ms, synchronous"
                f" {took.sync_ms} ms, asynchronous {took.async_ms} ms so far)"
            )
        remedy = _STORAGE if self.stage is Stage.STORES else _FASTER
        return f"{text}: {remedy}, {MORE_TIME}"


UNSEEN: Final = Delay(Stage.UNSEEN)
DelayOf: TypeAlias = Callable[[TaskId, int], Delay]
"""Returns where a task is with a checkpoint, by their ids."""


def unseen(task: TaskId, checkpoint_id: int) -> Delay:
    """Return what is known of a task in another process."""
    return UNSEEN


def slowest_of(missing: Sequence[TaskId], upstreams: Mapping[TaskId, Sequence[TaskId]]) -> TaskId:
    """Return the first task that has not acknowledged though all tasks before it have."""
    waited_for = set(missing)
    for task in sorted(missing):
        if waited_for.isdisjoint(upstreams.get(task, ())):
            return task
    return min(missing)
