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

from onceproof.engine.graph import JobGraph, PartitionerKind
from onceproof.engine.messages import TaskId

REMEMBERED_SHAPES = 256

Shape: TypeAlias = tuple[tuple[int, tuple[tuple[int, int, PartitionerKind, int], ...]], ...]
"""By vertex: its parallelism, and its input edges as (source vertex, output index there, kind, input)."""


Filler: TypeAlias = tuple[TaskId, int]
"""The sender of a channel: its task, and the index of its output."""


class Inputs(Struct, frozen=True):
    """The input channels of a subtask: to which input of the operator each leads, and who fills it."""

    numbers: tuple[int, ...]
    fillers: tuple[Filler, ...]


class Layout(Struct, frozen=True):
    """The subtasks in topological order with their input channels, and with their upstream subtasks."""

    inputs: Mapping[TaskId, Inputs]
    upstreams: Mapping[TaskId, tuple[TaskId, ...]]
    filled: Mapping[Filler, tuple[tuple[TaskId, int], ...]]
    """The channels that a filler fills, each as its receiver and its number there, by receiver."""


def layout_of(graph: JobGraph) -> Layout:
    """The layout of an attempt over ``graph``."""
    return _layout(
        tuple(
            [
                (
                    vertex.parallelism,
                    tuple(
                        [
                            (edge.source, edge.output_index, edge.partitioner.kind, edge.input_number)
                            for edge in vertex.inputs
                        ]
                    ),
                )
                for vertex in graph.vertices
            ]
        )
    )


@lru_cache(maxsize=REMEMBERED_SHAPES)
def _layout(shape: Shape) -> Layout:
    inputs: dict[TaskId, Inputs] = {}
    upstreams: dict[TaskId, tuple[TaskId, ...]] = {}
    filled: dict[Filler, list[tuple[TaskId, int]]] = {}
    for vertex, (parallelism, edges) in enumerate(shape):
        for subtask in range(parallelism):
            channels = [
                (number, (TaskId(source, sender), output_index))
                for source, output_index, kind, number in edges
                for sender in senders_of(kind, shape[source][0], parallelism, subtask)
            ]
            task = TaskId(vertex, subtask)
            inputs[task] = Inputs(
                tuple([number for number, _ in channels]), tuple([filler for _, filler in channels])
            )
            upstreams[task] = tuple([sender for _, (sender, _) in channels])
            for channel, (_, filler) in enumerate(channels):
                filled.setdefault(filler, []).append((task, channel))
    return Layout(inputs, upstreams, {filler: tuple(channels) for filler, channels in filled.items()})


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
