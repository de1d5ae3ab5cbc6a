"""The names of channels in checkpoints, and what a restore puts into which channel.

A channel is named by the operators that it connects and by its two subtasks, never by its number: that is
another one as soon as anything about the job has changed.
"""

from __future__ import annotations

from typing import NamedTuple

from onceproof.engine.checkpoint.in_flight_redistribution import (
    OVERTAKEN_KINDS,
    Edge,
    InFlightShare,
    redistribute_in_flight,
)
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.graph import JobEdge, JobGraph
from onceproof.engine.job.channel_layout import Layout
from onceproof.engine.messages import TaskId
from onceproof.engine.state.in_flight import INPUT, OUTPUT, ChannelId

Names = tuple[ChannelId, ...]


class ChannelNames(NamedTuple):
    """The channels of one task: by input channel, and by output and queue, None where nothing overtakes."""

    inputs: Names
    outputs: tuple[Names | None, ...]


def channel_names(graph: JobGraph, layout: Layout, task: TaskId) -> ChannelNames:
    """Name the channels of a task."""
    vertices = graph.vertices
    vertex = vertices[task.vertex]
    edges = {(edge.source, edge.output_index): edge for edge in vertex.inputs}
    inputs = []
    for sender, output_index in layout.inputs[task].fillers:
        edge = edges[sender.vertex, output_index]
        inputs.append(ChannelId(INPUT, *_ends(graph, edge), sender.subtask, task.subtask))
    outputs: list[Names | None] = []
    for edge in vertex.outputs:
        if may_be_overtaken(graph, edge.target):
            receivers = range(vertices[edge.target].parallelism)
            ends = _ends(graph, edge)
            outputs.append(tuple([ChannelId(OUTPUT, *ends, task.subtask, each) for each in receivers]))
        else:
            outputs.append(None)
    return ChannelNames(tuple(inputs), tuple(outputs))


def may_be_overtaken(graph: JobGraph, vertex: int) -> bool:
    """Whether barriers may overtake records on the way to a vertex: only if they may on all its edges."""
    return all(edge.partitioner.kind in OVERTAKEN_KINDS for edge in graph.vertices[vertex].inputs)


def plan_in_flight(
    graph: JobGraph, layout: Layout, metadata: CheckpointMetadata
) -> dict[TaskId, tuple[tuple[int, InFlightShare], ...]]:
    """Deal the records in flight of a checkpoint out: by task, what goes into which of its channels.

    Raises RestoreRefused where the job does not fit them.
    """
    if not metadata.records_in_flight:
        return {}
    vertices = graph.vertices
    edges = [edge for vertex in vertices for edge in vertex.inputs]
    described = [
        Edge(
            *_ends(graph, edge),
            edge.partitioner,
            vertices[edge.source].parallelism,
            vertices[edge.target].parallelism,
            vertices[edge.target].max_parallelism,
        )
        for edge in edges
    ]
    planned: dict[TaskId, list[tuple[int, InFlightShare]]] = {}
    for (place, receiver), shares in redistribute_in_flight(metadata, described).items():
        edge = edges[place]
        task = TaskId(edge.target, receiver)
        fillers = layout.inputs[task].fillers
        for share in shares:
            channel = fillers.index((TaskId(edge.source, share.sender), edge.output_index))
            planned.setdefault(task, []).append((channel, share))
    return {task: tuple(shares) for task, shares in planned.items()}


def _ends(graph: JobGraph, edge: JobEdge) -> tuple[str, str, int]:
    """The operators that an edge connects, and its place among the edges between these two."""
    source = graph.vertices[edge.source].operators[-1].operator_id
    target = graph.vertices[edge.target]
    parallel = [each.output_index for each in target.inputs if each.source == edge.source]
    return source, target.operators[0].operator_id, sorted(parallel).index(edge.output_index)
