"""The messages between the coordinator and its workers, besides those between job master and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.messages import AttemptId, TaskId
from onceproof.engine.runtime.slow_checkpoints import Delay


class DeployTasks(Struct, frozen=True):
    """To a worker, first of all: make your tasks, and restore them from ``restored``, or afresh.

    ``mounts`` are the folders mounted into the job's storage. ``is_first``: no attempt of this process has
    read the checkpoint before.
    """

    attempt: AttemptId
    restored: CheckpointMetadata | None
    mounts: Mapping[str, str]
    is_first: bool


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
