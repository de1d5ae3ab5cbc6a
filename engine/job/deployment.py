"""From a job graph to the tasks of one attempt: made, wired, and told what to restore.

Who is connected with whom says the layout. The queues towards the subtasks of an edge stand in their order.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from engine.checkpoint.metadata import CheckpointMetadata
from engine.checkpoint.redistribution import effective_max_parallelism, read_assignment, redistribute
from engine.graph import JobGraph, JobVertex
from engine.job.layout import Filler, Layout
from engine.messages import TaskId
from engine.state.snapshot import DecodedSnapshot
from engine.task.events import Restore, RestoredOperator
from engine.task.outputs import Queue, build_output
from engine.task.settings import TaskSettings
from engine.task.task import Task


def build_tasks(graph: JobGraph, layout: Layout, settings: TaskSettings) -> dict[TaskId, Task]:
    """The tasks of one attempt, connected, in topological order."""
    vertices = graph.vertices
    tasks: dict[TaskId, Task] = {}
    queues_to: dict[Filler, list[Queue]] = {}
    for task_id, inputs in layout.inputs.items():
        vertex = vertices[task_id.vertex]
        operators = []
        for node in vertex.operators:
            create = node.create
            operators.append(create())
        task = tasks[task_id] = Task(task_id, vertex, settings, inputs.edges, operators)
        for channel, filler in enumerate(inputs.fillers):
            queues_to.setdefault(filler, []).append(task.queues[channel])
    for task_id, task in tasks.items():
        outputs = []
        for edge in task.vertex.outputs:
            queues = queues_to[task_id, edge.output_index]
            outputs.append(build_output(edge, task_id.subtask, queues, vertices[edge.target].max_parallelism))
        task.connect(outputs)
    return tasks


def fit_max_parallelism(graph: JobGraph, metadata: CheckpointMetadata | None) -> JobGraph:
    """The graph with the max parallelism that the state of ``metadata`` was written under.

    One that was only derived gives way, for the key groups of the state cannot change. Raises RestoreRefused
    where an explicit one differs.
    """
    if metadata is None:
        return graph
    operators = _operators(graph)
    effective = effective_max_parallelism(metadata, operators)
    stays = [effective[operator_id] == own for operator_id, _, own, _ in operators]
    if all(stays):
        return graph
    vertices = tuple([_adopt(vertex, metadata, effective) for vertex in graph.vertices])
    return graph if vertices == graph.vertices else replace(graph, vertices=vertices)


def _adopt(vertex: JobVertex, metadata: CheckpointMetadata, effective: dict[str, int]) -> JobVertex:
    """The vertex with the max parallelism of its state, of the chain's first: only a head has keyed state."""
    if all(effective[node.operator_id] == vertex.max_parallelism for node in vertex.operators):
        return vertex
    with_state = {operator.operator_id for operator in metadata.operators if operator.has_state}
    for node in vertex.operators:
        if node.operator_id in with_state:
            return replace(vertex, max_parallelism=effective[node.operator_id])
    return vertex


def _operators(graph: JobGraph) -> list[tuple[str, int, int, bool]]:
    return [
        (node.operator_id, vertex.parallelism, vertex.max_parallelism, vertex.max_parallelism_is_explicit)
        for vertex in graph.vertices
        for node in vertex.operators
    ]


def restore_events(
    graph: JobGraph,
    layout: Layout,
    metadata: CheckpointMetadata | None,
    read: Callable[[str], bytes],
) -> dict[TaskId, Restore]:
    """What each task restores: its share of ``metadata``, read through ``read``; nothing at a fresh start.

    An operator that the checkpoint does not know is missing from its task's event: it is new in the job,
    which is not the same as one whose state went to other subtasks.

    Raises what redistribution and reading raise: a job that does not fit the checkpoint, a damaged file.
    """
    if metadata is None:
        return dict.fromkeys(layout.upstreams, Restore(None, {}))
    assignments = redistribute(metadata, _operators(graph))
    known = {operator.operator_id for operator in metadata.operators}
    decoded: dict[str, DecodedSnapshot] = {}
    events: dict[TaskId, Restore] = {}
    for task in layout.upstreams:
        operators: dict[str, RestoredOperator] = {}
        for node in graph.vertices[task.vertex].operators:
            if node.operator_id in known:
                restored = read_assignment(assignments[node.operator_id, task.subtask], read, decoded)
                operators[node.operator_id] = RestoredOperator(restored.keyed, restored.operator)
        events[task] = Restore(metadata.checkpoint_id, operators)
    return events
