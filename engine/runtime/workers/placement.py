"""Which worker owns a subtask, and which jobs cannot run in several processes.

Subtask i of every vertex belongs to worker i modulo their number (Flink: a slot holds one subtask of each
vertex). So records of forward edges stay in their process.
"""

from __future__ import annotations

import os
from typing import Final

from onceproof.engine.configuration.backend_options import ROCKSDB
from onceproof.engine.configuration.options import TASK_SLOTS
from onceproof.engine.connectors.collect import CollectSinkFunction, TransactionalCollectSinkFunction
from onceproof.engine.graph import InvalidJob, JobGraph
from onceproof.engine.messages import TaskId
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.state.rocksdb.forks import has_opened

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
