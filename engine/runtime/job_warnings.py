"""Warnings about a job: checkpoints that take too long, and sources that cannot replay.

A job whose source cannot replay runs. Sinks keep their promise for what reaches them; what the source had
read since the last complete checkpoint is not read again after a failure, and no sink can know of it.

Rules:

- The slowest subtask is one that has not answered though all before it have: those behind it wait for it.
- The parts of a checkpoint are those of Flink: the way of the barrier to the subtask, the alignment of its
  inputs, the copy of its state (synchronous), and its storage (asynchronous).
- A checkpoint is looked at when the time of a checkpoint is up, and never before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, TypeAlias

from msgspec import Struct

from onceproof.engine.connectors.committing import WriterSinkFunction
from onceproof.engine.connectors.idempotent import UpsertSinkFunction
from onceproof.engine.functions import CommittingFunction
from onceproof.engine.graph import JobGraph, OperatorNode
from onceproof.engine.messages import CheckpointMeasures, TaskId
from onceproof.engine.operators.base import Operator
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.operators.source import SourceOperator

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


_logger = logging.getLogger(__name__)


def warn_of_lossy_sources(graph: JobGraph) -> None:
    """Log one line if a failure loses records of a source although the sinks write exactly once."""
    if not graph.settings.enabled:
        return
    sources = lossy_sources(graph)
    sinks = [node.name for node, operator in _ends(graph) if _writes_once(operator)] if sources else []
    if sinks:
        _logger.warning(
            "job %r: source %s cannot be replayed: a failure loses what it has read since the last complete"
            " checkpoint; sink %s writes all other records exactly once; see"
            " docs/troubleshooting.md#cannot-be-replayed-a-failure-loses",
            graph.name,
            _listed(sources),
            _listed(sinks),
        )


def lossy_sources(graph: JobGraph) -> list[str]:
    """Return the names of the sources that cannot be replayed."""
    return [
        node.name
        for vertex in graph.vertices
        if not vertex.inputs
        for node in vertex.operators[:1]
        if isinstance(operator := node.create(), SourceOperator) and not operator.source.can_be_replayed
    ]


def _ends(graph: JobGraph) -> Iterator[tuple[OperatorNode, Operator]]:
    for vertex in graph.vertices:
        if not vertex.outputs:
            node = vertex.operators[-1]
            yield node, node.create()


def _writes_once(operator: Operator) -> bool:
    if not isinstance(operator, SinkOperator):
        return False
    function = operator.function
    if isinstance(function, WriterSinkFunction):
        return function.commits
    return isinstance(function, CommittingFunction | UpsertSinkFunction)


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names)
