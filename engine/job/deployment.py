"""From a job graph to the tasks of one attempt: made, wired, and told what to restore.

Channels are numbered at the receiver: by input edge first, then by the sending subtask. Pointwise edges
(forward, rescale) have channels only between the subtasks they connect, as in Flink.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from engine.checkpoint.events import CheckpointPlan
from engine.checkpoint.metadata import CheckpointMetadata
from engine.checkpoint.redistribution import effective_max_parallelism, read_assignment, redistribute
from engine.graph import JobEdge, JobGraph, JobVertex, PartitionerKind
from engine.messages import AttemptId, TaskId
from engine.state.snapshot import DecodedSnapshot
from engine.task.events import Restore, RestoredOperator
from engine.task.outputs import Queue, build_output
from engine.task.task import Task, TaskSettings


def sources_of(edge: JobEdge, graph: JobGraph, target_subtask: int) -> range:
    """The subtasks at the beginning of ``edge`` that have a channel to ``target_subtask``."""
    sources = graph.vertices[edge.source].parallelism
    targets = graph.vertices[edge.target].parallelism
    kind = edge.partitioner.kind
    if kind is PartitionerKind.FORWARD:
        return range(target_subtask, target_subtask + 1)
    if kind is PartitionerKind.RESCALE:
        if sources >= targets:
            return range(target_subtask * sources // targets, (target_subtask + 1) * sources // targets)
        source = target_subtask * sources // targets
        return range(source, source + 1)
    return range(sources)


def plan_of(graph: JobGraph, attempt: AttemptId) -> CheckpointPlan:
    """Who feeds whom in an attempt over ``graph``."""
    upstreams: dict[TaskId, tuple[TaskId, ...]] = {}
    for vertex in graph.vertices:
        for subtask in range(vertex.parallelism):
            upstreams[TaskId(vertex.index, subtask)] = tuple(
                [
                    TaskId(edge.source, source)
                    for edge in vertex.inputs
                    for source in sources_of(edge, graph, subtask)
                ]
            )
    return CheckpointPlan(attempt, graph.vertices, upstreams)


def build_tasks(graph: JobGraph, settings: TaskSettings) -> dict[TaskId, Task]:
    """The tasks of one attempt, connected, in topological order."""
    tasks: dict[TaskId, Task] = {}
    queues_to: dict[tuple[int, int, int], list[Queue]] = {}
    for vertex in graph.vertices:
        for subtask in range(vertex.parallelism):
            task = _build_task(graph, vertex, subtask, settings, queues_to)
            tasks[task.id] = task
    for task in tasks.values():
        task.connect(
            [
                build_output(
                    edge,
                    task.id.subtask,
                    queues_to[task.id.vertex, edge.output_index, task.id.subtask],
                    graph.vertices[edge.target].max_parallelism,
                )
                for edge in task.vertex.outputs
            ]
        )
    return tasks


def _build_task(
    graph: JobGraph,
    vertex: JobVertex,
    subtask: int,
    settings: TaskSettings,
    queues_to: dict[tuple[int, int, int], list[Queue]],
) -> Task:
    """One task; its input queues are entered under who will fill them, in the order of the targets."""
    senders = [(edge, source) for edge in vertex.inputs for source in sources_of(edge, graph, subtask)]
    task = Task(
        TaskId(vertex.index, subtask),
        vertex,
        settings,
        [edge.input_index for edge, _ in senders],
        [node.create() for node in vertex.operators],
    )
    for queue, (edge, source) in zip(task.queues, senders, strict=True):
        queues_to.setdefault((edge.source, edge.output_index, source), []).append(queue)
    return task


def fit_max_parallelism(graph: JobGraph, metadata: CheckpointMetadata | None) -> JobGraph:
    """The graph with the max parallelism that the state of ``metadata`` was written under.

    One that was only derived gives way, for the key groups of the state cannot change. Raises RestoreRefused
    where an explicit one differs.
    """
    if metadata is None:
        return graph
    effective = effective_max_parallelism(metadata, _operators(graph))
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
    graph: JobGraph, metadata: CheckpointMetadata | None, read: Callable[[str], bytes]
) -> dict[TaskId, Restore]:
    """What each task restores: its share of ``metadata``, read through ``read``; nothing at a fresh start.

    An operator that the checkpoint does not know is missing from its task's event: it is new in the job,
    which is not the same as one whose state went to other subtasks.

    Raises what redistribution and reading raise: a job that does not fit the checkpoint, a damaged file.
    """
    if metadata is None:
        fresh = Restore(None, {})
        return {
            TaskId(vertex.index, subtask): fresh
            for vertex in graph.vertices
            for subtask in range(vertex.parallelism)
        }
    assignments = redistribute(metadata, _operators(graph))
    known = {operator.operator_id for operator in metadata.operators}
    decoded: dict[str, DecodedSnapshot] = {}
    events: dict[TaskId, Restore] = {}
    for vertex in graph.vertices:
        for subtask in range(vertex.parallelism):
            operators: dict[str, RestoredOperator] = {}
            for node in vertex.operators:
                if node.operator_id in known:
                    restored = read_assignment(assignments[node.operator_id, subtask], read, decoded)
                    operators[node.operator_id] = RestoredOperator(restored.keyed, restored.operator)
            events[TaskId(vertex.index, subtask)] = Restore(metadata.checkpoint_id, operators)
    return events
