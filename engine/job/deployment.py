"""From a job graph to the tasks of one attempt: created, connected, with their Restore events.

The layout says which subtasks are connected. The queues to the subtasks of an edge stand in their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.checkpoint.in_flight_redistribution import InFlightShare, read_in_flight
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.checkpoint.redistribution import (
    RestoreAssignment,
    effective_max_parallelism,
    read_assignment,
    redistribute,
)
from onceproof.engine.configuration.alignment import ALIGNED
from onceproof.engine.elements import Record
from onceproof.engine.graph import JobGraph, JobVertex
from onceproof.engine.job.channel_layout import Filler, Inputs, Layout
from onceproof.engine.job.channel_names import channel_names, plan_in_flight, vertex_ends
from onceproof.engine.messages import TaskId
from onceproof.engine.state.in_flight import ChannelId
from onceproof.engine.state.stored import DecodedSnapshot
from onceproof.engine.task.events import Restore, RestoredOperator
from onceproof.engine.task.outputs import HashOutput, Queue, build_output
from onceproof.engine.task.sorted_task import SortedTask, input_order_of
from onceproof.engine.task.task import Task, TaskSettings
from onceproof.engine.task.timed_task import TimedTask
from onceproof.engine.task.unaligned_task import UnalignedTask


def build_tasks(graph: JobGraph, layout: Layout, settings: TaskSettings) -> dict[TaskId, Task]:
    """The tasks of one attempt, connected, in topological order."""
    vertices = graph.vertices
    tasks: dict[TaskId, Task] = {}
    queues_to: defaultdict[Filler, list[Queue]] = defaultdict(list)
    for task_id, inputs in layout.inputs.items():
        task = tasks[task_id] = create_task(task_id, vertices[task_id.vertex], settings, inputs)
        for filler, queue in zip(inputs.fillers, task.queues, strict=True):
            queues_to[filler].append(queue)
    shared: defaultdict[tuple[int, int], dict[Any, int]] = defaultdict(dict)
    ends = vertex_ends(graph) if settings.options.needs_channel_state else []
    for task_id, task in tasks.items():
        connect_task(task, graph, queues_to)
        if isinstance(task, UnalignedTask):
            fillers = layout.inputs[task_id].fillers
            task.name_channels(*channel_names(*ends[task_id.vertex], fillers, task_id.subtask))
        for place, output in enumerate(task.outputs):
            if type(output) is HashOutput:
                # What one subtask has worked out of a key, the others of its vertex need not.
                output.share_index(shared[task_id.vertex, place])
    return tasks


def connect_task(task: Task, graph: JobGraph, queues_to: Mapping[Filler, Sequence[Queue]]) -> None:
    """Give a task its outputs; ``queues_to`` has what each of them fills, in the order of the receivers."""
    outputs = []
    task_id, vertices = task.id, graph.vertices
    for edge in task.vertex.outputs:
        queues = queues_to[task_id, edge.output_index]
        target = vertices[edge.target]
        outputs.append(build_output(edge, task_id.subtask, queues, target.max_parallelism, target))
    task.connect(outputs)


def create_task(task_id: TaskId, vertex: JobVertex, settings: TaskSettings, inputs: Inputs) -> Task:
    """A task with operators of its own, not yet connected to others."""
    options = settings.options
    kind = Task if options is ALIGNED or not options.needs_channel_state else UnalignedTask
    operators = []
    for node in vertex.operators:
        create = node.create
        operator = create()
        if settings.watch is not None:
            operator = settings.watch.operator(operator)
        if operator.uses_time and kind is Task:
            kind = TimedTask
        operators.append(operator)
    if vertex.sort_memory_bytes is not None:
        order = input_order_of(vertex, operators[0])
        if order is not None:
            return SortedTask(task_id, vertex, settings, inputs.numbers, operators, order)
    return kind(task_id, vertex, settings, inputs.numbers, operators)


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


class RestorePlan(Struct, frozen=True):
    """What one task restores, known from the metadata alone: by operator, which part of which files.

    An operator that the checkpoint does not know is missing: it is new in the job, which is not the same as
    one whose state went to other subtasks.
    """

    checkpoint_id: int | None
    operators: Mapping[str, RestoreAssignment]
    in_flight: tuple[tuple[int, InFlightShare], ...] = ()
    """By input channel, what was under way."""
    allow_pickle: bool = False


AFRESH = RestorePlan(None, {})


def plan_restores(
    graph: JobGraph, layout: Layout, metadata: CheckpointMetadata | None
) -> dict[TaskId, RestorePlan]:
    """Deal the state of ``metadata`` out to the tasks; nothing at a fresh start.

    Raises what redistribution raises: a job that does not fit the checkpoint.
    """
    if metadata is None:
        return dict.fromkeys(layout.upstreams, AFRESH)
    allowed = graph.settings.recovery.ignore_unclaimed_state
    assignments = redistribute(metadata, _operators(graph), allow_non_restored_state=allowed)
    in_flight = plan_in_flight(graph, layout, metadata)
    known = {operator.operator_id for operator in metadata.operators}
    plans: dict[TaskId, RestorePlan] = {}
    for task in layout.upstreams:
        operators: dict[str, RestoreAssignment] = {}
        for node in graph.vertices[task.vertex].operators:
            if node.operator_id in known:
                operators[node.operator_id] = assignments[node.operator_id, task.subtask]
        plans[task] = RestorePlan(
            metadata.checkpoint_id, operators, in_flight.get(task, ()), graph.settings.allow_pickled_state
        )
    return plans


def read_restore(
    plan: RestorePlan,
    read: Callable[[str], bytes],
    decoded: dict[str, DecodedSnapshot],
    in_flight: dict[str, dict[ChannelId, list[Record]]] | None = None,
) -> Restore:
    """Read what a task restores; ``decoded`` and ``in_flight`` have the files that others have read.

    Raises what reading raises: a damaged file.
    """
    operators: dict[str, RestoredOperator] = {}
    for operator_id, assignment in plan.operators.items():
        restored = read_assignment(assignment, read, decoded)
        operators[operator_id] = RestoredOperator(
            restored.keyed, restored.operator, restored.native, assignment.finished
        )
    if not plan.in_flight:
        return Restore(plan.checkpoint_id, operators)
    known = {} if in_flight is None else in_flight
    allow_pickle = plan.allow_pickle
    buffers = [
        (channel, read_in_flight(share, read, known, allow_pickle=allow_pickle))
        for channel, share in plan.in_flight
    ]
    return Restore(plan.checkpoint_id, operators, [each for each in buffers if each[1]])


def restore_events(
    graph: JobGraph,
    layout: Layout,
    metadata: CheckpointMetadata | None,
    read: Callable[[str], bytes],
) -> dict[TaskId, Restore]:
    """What each task restores: its share of ``metadata``, read through ``read``; nothing at a fresh start.

    Raises what redistribution and reading raise: a job that does not fit the checkpoint, a damaged file.
    """
    decoded: dict[str, DecodedSnapshot] = {}
    in_flight: dict[str, dict[ChannelId, list[Record]]] = {}
    plans = plan_restores(graph, layout, metadata)
    return {task: read_restore(plan, read, decoded, in_flight) for task, plan in plans.items()}
