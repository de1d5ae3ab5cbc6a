"""The tasks of one worker, and the channels that lead out of it and into it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import Filler, Layout
from onceproof.engine.job.channel_names import channel_names, vertex_ends
from onceproof.engine.job.deployment import connect_task, create_task, plan_restores, read_restore
from onceproof.engine.messages import TaskFailed, TaskId
from onceproof.engine.runtime.job_startup import with_full_path
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.storage import MissingFile
from onceproof.engine.runtime.workers.protocol import DeployTasks
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.engine.state.in_flight import ChannelId
from onceproof.engine.state.stored import DecodedSnapshot
from onceproof.engine.task.events import Restore
from onceproof.engine.task.outputs import HashOutput, Queue
from onceproof.engine.task.task import Task, TaskSettings
from onceproof.engine.task.unaligned_task import UnalignedTask


def read_restores(
    graph: JobGraph, layout: Layout, tasks: Sequence[TaskId], message: DeployTasks, storage: MountedStorage
) -> dict[TaskId, Restore] | TaskFailed:
    """Return what each of a worker's tasks restores, or the failure of one where it cannot be read."""
    decoded: dict[str, DecodedSnapshot] = {}
    in_flight: dict[str, dict[ChannelId, list[Any]]] = {}
    try:
        plans = plan_restores(graph, layout, message.restored)
        return {task: read_restore(plans[task], storage.read, decoded, in_flight) for task in tasks}
    except Exception as error:
        shown = with_full_path(error, storage) if isinstance(error, DamagedFile) else error
        # A file that is missing when the process starts was deleted; later it may be on a disk that is gone.
        may_pass = isinstance(error, OSError) and not (message.is_first and isinstance(error, MissingFile))
        cause = " ".join(str(shown).split())
        return TaskFailed(message.attempt, tasks[0], cause, unrecoverable=not may_pass)


class Leaving(Struct, frozen=True):
    """A channel to another worker."""

    number: int
    worker: int
    queue: Queue
    sender: TaskId


class Arriving(Struct, frozen=True):
    """A channel from another worker to a task of this one."""

    number: int
    worker: int
    queue: Queue
    reader: TaskId


class Subtasks(Struct, frozen=True):
    """The tasks of a worker, connected, in topological order, with the channels of other workers."""

    tasks: dict[TaskId, Task]
    leaving: list[Leaving]
    arriving: list[Arriving]


def build_subtasks(
    graph: JobGraph, layout: Layout, settings: TaskSettings, own: int, worker_of: Callable[[TaskId], int]
) -> Subtasks:
    """Make the tasks of worker ``own``.

    The channels of an attempt are numbered in the order of the layout, so all workers number them alike.
    """
    tasks: dict[TaskId, Task] = {}
    leaving: list[Leaving] = []
    arriving: list[Arriving] = []
    queues_to: defaultdict[Filler, list[Queue]] = defaultdict(list)
    number = 0
    for task_id, inputs in layout.inputs.items():
        reader = worker_of(task_id)
        if reader == own:
            vertex = graph.vertices[task_id.vertex]
            tasks[task_id] = create_task(task_id, vertex, settings, inputs)
        for channel, filler in enumerate(inputs.fillers):
            number += 1
            sender = worker_of(filler[0])
            if own not in (reader, sender):
                continue
            queue: Queue = tasks[task_id].queues[channel] if reader == own else deque()
            if sender == own:
                queues_to[filler].append(queue)
            if reader != own:
                leaving.append(Leaving(number, reader, queue, filler[0]))
            elif sender != own:
                arriving.append(Arriving(number, sender, queue, task_id))
    shared: defaultdict[tuple[int, int], dict[Any, int]] = defaultdict(dict)
    ends = vertex_ends(graph) if settings.options.needs_channel_state else []
    for task_id, task in tasks.items():
        connect_task(task, graph, queues_to)
        if isinstance(task, UnalignedTask):
            fillers = layout.inputs[task_id].fillers
            task.name_channels(*channel_names(*ends[task_id.vertex], fillers, task_id.subtask))
        for place, output in enumerate(task.outputs):
            if type(output) is HashOutput:
                output.share_index(shared[task_id.vertex, place])
    return Subtasks(tasks, leaving, arriving)
