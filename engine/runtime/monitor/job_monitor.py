"""What the driver of a job tells those who look at it: attempts, failures and checkpoints, made into views.

The rules this module lives by:

- It lives in the thread of the job, hears what happens, and decides nothing.
- What it keeps is bounded: a number of attempts and of checkpoints.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from onceproof.engine.configuration import CheckpointSettings
from onceproof.engine.graph import JobGraph, JobVertex
from onceproof.engine.job.events import Deploy
from onceproof.engine.messages import AttemptId, TaskFailed, TaskId
from onceproof.engine.metrics import MetricReading
from onceproof.engine.runtime.monitor.checkpoint_statistics import CheckpointStatistics
from onceproof.engine.runtime.monitor.job_view import (
    AttemptView,
    CheckpointingView,
    EdgeView,
    JobView,
    OperatorView,
    SubtaskReading,
    VertexView,
)

RUNNING: Final = "RUNNING"
ENDED: Final = ("FINISHED", "FAILED", "CANCELED")


class _Attempt:
    __slots__ = ("cause", "ended_ms", "name", "restored", "started_ms", "task")

    def __init__(self, name: AttemptId, restored: int | None, started_ms: int) -> None:
        self.name = name
        self.restored = restored
        self.started_ms = started_ms
        self.ended_ms: int | None = None
        self.cause = ""
        self.task: TaskId | None = None


class JobMonitor:
    """What is known of one process's run of a job; ``wall_ms`` reads the wall clock."""

    def __init__(self, graph: JobGraph, process_number: int, wall_ms: Callable[[], int]) -> None:
        settings = graph.settings
        self.interval_ms = settings.monitor.interval_ms
        self.checkpoints = CheckpointStatistics(settings.monitor.checkpoint_history)
        self._graph = graph
        self._vertices = _vertex_views(graph)
        self._checkpointing = _checkpointing_view(settings)
        self._process_number = process_number
        self._wall_ms = wall_ms
        self._started_ms = wall_ms()
        self._attempts: deque[_Attempt] = deque(maxlen=settings.monitor.exception_history)
        self._restarts = 0
        self._restarting_ms = 0
        self._failed_at_ms: int | None = None
        self._state = ""
        self._state_since_ms = self._started_ms

    # What the driver tells.

    def attempt_started(self, effect: Deploy, path: str) -> None:
        """An attempt begins; ``path`` is where the checkpoint lies that it restores."""
        now = self._wall_ms()
        if self._failed_at_ms is not None:
            self._restarting_ms += max(0, now - self._failed_at_ms)
            self._failed_at_ms = None
        self._end_attempt(now)
        # The next view may be the first one behind a restart: the job has not been running all the time.
        self._state, self._state_since_ms = RUNNING, now
        restored = effect.restored
        if restored is not None:
            self.checkpoints.restored(restored, path, now)
        self._attempts.append(
            _Attempt(effect.attempt, None if restored is None else restored.checkpoint_id, now)
        )

    def task_failed(self, message: TaskFailed) -> None:
        """A task has failed: the first one of an attempt is its cause."""
        if self._attempts and self._attempts[-1].name == message.attempt:
            attempt = self._attempts[-1]
            if attempt.task is None and attempt.ended_ms is None:
                attempt.task = message.task

    def attempt_failed(self, cause: str, *, is_last: bool) -> None:
        """The current attempt is over; another one follows unless it ``is_last``."""
        now = self._wall_ms()
        self._end_attempt(now)
        if self._attempts:
            self._attempts[-1].cause = cause
        if not is_last:
            self._restarts += 1
            self._failed_at_ms = now

    def _end_attempt(self, now: int) -> None:
        if self._attempts and self._attempts[-1].ended_ms is None:
            self._attempts[-1].ended_ms = now

    def triggered(self, checkpoint_id: int, kind: str, tasks: int) -> None:
        """A checkpoint begins."""
        attempt = self._attempts[-1].name if self._attempts else AttemptId("")
        self.checkpoints.triggered(checkpoint_id, kind, attempt, tasks, self._wall_ms())

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds."""
        return self._wall_ms()

    # What others see.

    def view(
        self,
        graph: JobGraph,
        state: str,
        subtasks: tuple[SubtaskReading, ...],
        user_metrics: tuple[MetricReading, ...],
        retained: Collection[int],
    ) -> JobView:
        """Return what is seen of the job now; ``retained`` are the checkpoints whose files are there."""
        now = self._wall_ms()
        if graph is not self._graph:
            self._graph, self._vertices = graph, _vertex_views(graph)
        if state != self._state:
            self._state, self._state_since_ms = state, now
        if state in ENDED:
            self._end_attempt(now)
        return JobView(
            job_id=graph.job_id,
            name=graph.name,
            state=state,
            version=_version(),
            process=os.getpid(),
            process_number=self._process_number,
            workers=graph.settings.workers,
            started_ms=self._started_ms,
            now_ms=now,
            state_since_ms=self._state_since_ms,
            restarts=self._restarts,
            restarting_ms=self._restarting_ms
            + (0 if self._failed_at_ms is None else max(0, now - self._failed_at_ms)),
            vertices=self._vertices,
            subtasks=subtasks,
            user_metrics=user_metrics,
            checkpointing=self._checkpointing,
            checkpoints=self.checkpoints.view(retained),
            attempts=tuple([self._attempt_view(each) for each in reversed(self._attempts)]),
        )

    def _attempt_view(self, attempt: _Attempt) -> AttemptView:
        task = attempt.task
        name = ""
        if task is not None and task.vertex < len(self._vertices):
            name = f"{self._vertices[task.vertex].name}-{task.subtask}"
        return AttemptView(
            attempt.name, attempt.started_ms, attempt.ended_ms, attempt.restored, attempt.cause, name
        )


def _version() -> str:
    try:
        return version("onceproof")
    except PackageNotFoundError:
        return "unknown"


def _vertex_views(graph: JobGraph) -> tuple[VertexView, ...]:
    return tuple([_vertex_view(vertex) for vertex in graph.vertices])


def _vertex_view(vertex: JobVertex) -> VertexView:
    return VertexView(
        vertex.index,
        vertex.operators[0].operator_id,
        vertex.name,
        vertex.parallelism,
        vertex.max_parallelism,
        tuple([OperatorView(each.operator_id, each.name) for each in vertex.operators]),
        tuple([EdgeView(edge.source, edge.partitioner.kind.value.upper()) for edge in vertex.inputs]),
    )


def _checkpointing_view(settings: CheckpointSettings) -> CheckpointingView:
    return CheckpointingView(
        settings.mode,
        settings.interval_ms,
        settings.interval_records,
        settings.timeout_ms,
        settings.min_pause_ms,
        settings.max_concurrent,
        settings.tolerable_failures,
        settings.unaligned,
        settings.aligned_timeout_ms,
        settings.checkpoints_after_tasks_finish,
        settings.state_backend.kind,
        settings.directory or "",
        settings.retention or "",
    )
