"""The messages between the coordinator and its workers, and which worker has which subtask.

Subtask i of every vertex belongs to worker i modulo their number (Flink: a slot holds one subtask of each
vertex). So records of forward edges stay in their process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.configuration.backend_options import ROCKSDB
from onceproof.engine.configuration.options import TASK_SLOTS
from onceproof.engine.connectors.collect import CollectSinkFunction, TransactionalCollectSinkFunction
from onceproof.engine.graph import InvalidJob, JobGraph
from onceproof.engine.messages import AttemptId, TaskId
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.runtime.job_warnings import Delay
from onceproof.engine.state.rocksdb.working_folders import has_opened

OPTION: Final = "execution.local.workers"
MEND: Final = f"set {OPTION} to 1"


def workers_of(graph: JobGraph) -> int:
    """Return how many workers the job has: as many as are set, but none without a subtask."""
    return min(graph.settings.workers, max(vertex.parallelism for vertex in graph.vertices))


def worker_of(task: TaskId, workers: int) -> int:
    """Return the number of the worker that owns a subtask."""
    return task.subtask % workers


def refuse_what_needs_one_process(graph: JobGraph) -> None:
    """Raise InvalidJob if the job cannot run in several processes."""
    asked = f"{graph.settings.workers} workers are asked for ({OPTION}, or {TASK_SLOTS.key}), but"
    if not hasattr(os, "fork"):
        raise InvalidJob(f"{asked} this system cannot fork processes: {MEND}")
    if graph.settings.enabled and graph.settings.directory is None:
        raise InvalidJob(
            f"{asked} checkpoints in memory stay in one process: set execution.checkpointing.dir, or {MEND}"
        )
    if graph.settings.state_backend.kind == ROCKSDB and has_opened():
        raise InvalidJob(
            f"{asked} this process has used rocksdb before, whose threads do not survive a fork: start the"
            f" job in a process of its own, or {MEND}"
        )
    for vertex in graph.vertices:
        for node in vertex.operators:
            operator = node.create()
            if isinstance(operator, SinkOperator) and isinstance(
                operator.function, CollectSinkFunction | TransactionalCollectSinkFunction
            ):
                raise InvalidJob(
                    f"{asked} sink {node.name!r} collects rows in this process, and sinks run in others:"
                    f" write to files, or {MEND}"
                )


class DeployTasks(Struct, frozen=True):
    """To a worker, first of all: make your tasks, and restore them from ``restored``, or afresh.

    ``mounts`` are the folders mounted into the job's storage. ``is_first``: no attempt of this process has
    read the checkpoint before. ``only_commits``: see TaskSettings.
    """

    attempt: AttemptId
    restored: CheckpointMetadata | None
    mounts: Mapping[str, str]
    is_first: bool
    only_commits: bool


class MountFolder(Struct, frozen=True):
    """To a worker: a storage is mounted under ``folder``."""

    folder: str
    place: str


class ReadOn(Struct, frozen=True):
    """To a worker: the sources may read the records of another checkpoint interval."""


class EndWorker(Struct, frozen=True):
    """To a worker: close the tasks, finish what is being written, and end."""


class Progress(Struct, frozen=True):
    """From a worker: what its sources have read, and whether all its tasks have ended their data."""

    records_read: int
    has_ended_data: bool


class CheckpointDelayed(Struct, frozen=True):
    """From a worker: where a task was with a checkpoint when it learned that this had failed."""

    task: TaskId
    checkpoint_id: int
    delay: Delay


class WorkerEnded(Struct, frozen=True):
    """From a worker, last of all: its tasks are closed. ``metrics``: those of its subtasks, by full name."""

    records_read: int
    metrics: Mapping[str, Any]
