"""The names of channels in checkpoints, and what a restore puts into which channel.

A channel is named by the operators that it connects and by its two subtasks, never by its number: that is
another one as soon as anything about the job has changed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from onceproof.engine.checkpoint.in_flight_redistribution import (
    OVERTAKEN_KINDS,
    Edge,
    InFlightShare,
    redistribute_in_flight,
)
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.graph import JobEdge, JobGraph
from onceproof.engine.job.channel_layout import Filler, Layout
from onceproof.engine.messages import TaskId
from onceproof.engine.state.in_flight import INPUT, OUTPUT, ChannelId

REMEMBERED_NAMES: Final = 2048
"""For how many tasks the names of their channels are kept."""

Names = tuple[ChannelId, ...]
Ends: TypeAlias = tuple[str, str, int]
"""The operators that an edge connects, and its place among the edges between these two."""


class ChannelNames(NamedTuple):
    """The channels of one task: by input channel, and by output and queue, None where nothing overtakes."""

    inputs: Names
    outputs: tuple[Names | None, ...]


InputEnds: TypeAlias = tuple[int, int, Ends]
"""Of an input edge: its source vertex, the index of its output there, its ends."""
OutputEnds: TypeAlias = tuple[int, Ends] | None
"""Of an output edge: the parallelism of its target, its ends; None where nothing overtakes."""


def vertex_ends(graph: JobGraph) -> list[tuple[tuple[InputEnds, ...], tuple[OutputEnds, ...]]]:
    """Return by vertex what the names of its channels follow from: its input edges, and its output edges."""
    vertices = graph.vertices
    ends = {(edge.source, edge.output_index): _ends(graph, edge) for each in vertices for edge in each.inputs}
    overtaken = [may_be_overtaken(graph, index) for index in range(len(vertices))]
    found: list[tuple[tuple[InputEnds, ...], tuple[OutputEnds, ...]]] = []
    for vertex in vertices:
        inputs = [
            (edge.source, edge.output_index, ends[edge.source, edge.output_index]) for edge in vertex.inputs
        ]
        outputs = [
            (vertices[edge.target].parallelism, ends[edge.source, edge.output_index])
            if overtaken[edge.target]
            else None
            for edge in vertex.outputs
        ]
        found.append((tuple(inputs), tuple(outputs)))
    return found


@lru_cache(maxsize=REMEMBERED_NAMES)
def channel_names(
    inputs: tuple[InputEnds, ...],
    outputs: tuple[OutputEnds, ...],
    fillers: tuple[Filler, ...],
    subtask: int,
) -> ChannelNames:
    """Name the channels of a task; its vertex has these edges (``vertex_ends``), and ``fillers`` its layout.

    A simulation deploys the same tasks thousands of times: this is worked out once for each.
    """
    ends = {(source, output_index): each for source, output_index, each in inputs}
    return ChannelNames(
        tuple(
            [
                ChannelId(INPUT, *ends[sender.vertex, output_index], sender.subtask, subtask)
                for sender, output_index in fillers
            ]
        ),
        tuple(
            [
                None
                if edge is None
                else tuple([ChannelId(OUTPUT, *edge[1], subtask, each) for each in range(edge[0])])
                for edge in outputs
            ]
        ),
    )


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


def _ends(graph: JobGraph, edge: JobEdge) -> Ends:
    """The operators that an edge connects, and its place among the edges between these two."""
    source = graph.vertices[edge.source].operators[-1].operator_id
    target = graph.vertices[edge.target]
    parallel = [each.output_index for each in target.inputs if each.source == edge.source]
    return source, target.operators[0].operator_id, sorted(parallel).index(edge.output_index)
