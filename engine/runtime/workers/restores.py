"""What the tasks of one worker restore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import Layout
from onceproof.engine.job.deployment import plan_restores, read_restore
from onceproof.engine.messages import TaskFailed, TaskId
from onceproof.engine.runtime.job_startup import with_full_path
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.storage import MissingFile
from onceproof.engine.runtime.workers.protocol import DeployTasks
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.engine.state.in_flight import ChannelId
from onceproof.engine.state.stored import DecodedSnapshot
from onceproof.engine.task.events import Restore


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
