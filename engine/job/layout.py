"""Which subtasks an attempt has, and which of them send to which.

It follows from the parallelism and the edges of the vertices alone, so it is worked out once for each shape
of a job: a simulation deploys the same few shapes thousands of times.

Channels are numbered at the receiver: by input edge first, then by the sending subtask. Pointwise edges
(forward, rescale) have channels only between the subtasks they connect, as in Flink.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from engine.graph import JobGraph, PartitionerKind
from engine.messages import TaskId

REMEMBERED_SHAPES = 256

Shape: TypeAlias = tuple[tuple[int, tuple[tuple[int, int, PartitionerKind], ...]], ...]
"""By vertex: its parallelism, and its input edges as (source vertex, output index there, kind)."""


Channel: TypeAlias = tuple[int, tuple[TaskId, int]]
"""One input channel of a subtask: the index of its edge, and who fills it through which of his outputs."""


class Layout(Struct, frozen=True):
    """The subtasks in topological order with their input channels, and with their upstream subtasks."""

    channels: Mapping[TaskId, tuple[Channel, ...]]
    upstreams: Mapping[TaskId, tuple[TaskId, ...]]


def layout_of(graph: JobGraph) -> Layout:
    """The layout of an attempt over ``graph``."""
    return _layout(
        tuple(
            [
                (
                    vertex.parallelism,
                    tuple(
                        [(edge.source, edge.output_index, edge.partitioner.kind) for edge in vertex.inputs]
                    ),
                )
                for vertex in graph.vertices
            ]
        )
    )


@lru_cache(maxsize=REMEMBERED_SHAPES)
def _layout(shape: Shape) -> Layout:
    channels: dict[TaskId, tuple[Channel, ...]] = {}
    for vertex, (parallelism, inputs) in enumerate(shape):
        for subtask in range(parallelism):
            channels[TaskId(vertex, subtask)] = tuple(
                [
                    (input_index, (TaskId(source, sender), output_index))
                    for input_index, (source, output_index, kind) in enumerate(inputs)
                    for sender in senders_of(kind, shape[source][0], parallelism, subtask)
                ]
            )
    upstreams = {task: tuple([sender for _, (sender, _) in fed]) for task, fed in channels.items()}
    return Layout(channels, upstreams)


def senders_of(kind: PartitionerKind, sources: int, targets: int, target: int) -> range:
    """Which of ``sources`` subtasks have a channel to subtask ``target`` of ``targets``."""
    if kind is PartitionerKind.FORWARD:
        return range(target, target + 1)
    if kind is PartitionerKind.RESCALE:
        if sources >= targets:
            return range(target * sources // targets, (target + 1) * sources // targets)
        source = target * sources // targets
        return range(source, source + 1)
    return range(sources)
