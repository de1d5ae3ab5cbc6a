"""Drivers of monitored jobs: they tell a monitor what happens, and publish a view of it.

The rules this module lives by:

- A job that is not monitored is run by the plain drivers, and pays nothing.
- Everything here happens in the thread of the job, and only reads. What is published goes to a thread of its
  own (publisher.py), which never makes this one wait.
- A view is made at the start, once in an interval, and at the end of the job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from onceproof.engine.checkpoint.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointTriggered,
    RequestResolved,
)
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.events import Deploy, MasterEvent
from onceproof.engine.messages import AcknowledgeCheckpoint, TaskFailed, checkpoint_folder
from onceproof.engine.metrics import MetricReading
from onceproof.engine.protocol_points import Probe, no_probe
from onceproof.engine.runtime.clocks import SYSTEM_CLOCKS, Clocks
from onceproof.engine.runtime.job_driver import JobDriver
from onceproof.engine.runtime.job_log import JobLog
from onceproof.engine.runtime.job_requests import JobRequest, Respond
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.runtime.local import LocalExecution
from onceproof.engine.runtime.monitor.job_monitor import JobMonitor
from onceproof.engine.runtime.monitor.job_view import JobView, SubtaskReading, TaskReport
from onceproof.engine.runtime.monitor.monitor_link import AddressInUse
from onceproof.engine.runtime.monitor.publisher import Publisher, open_publisher
from onceproof.engine.runtime.monitor.task_readings import read_tasks
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.runtime.workers.worker_coordinator import WorkerHandle, WorkersExecution

_logger = logging.getLogger(__name__)


class MonitoredLog(JobLog):
    """The log of a job, which tells the monitor of each failure as well."""

    def __init__(self, job_name: str, timeout_ms: int, monitor: JobMonitor) -> None:
        super().__init__(job_name, timeout_ms)
        self._monitor = monitor

    def restart_planned(
        self, attempt: str, cause: str, delay_ms: int, latest_id: int | None, now: int
    ) -> None:
        """The attempt has failed, and another one follows."""
        self._monitor.attempt_failed(cause, is_last=False)
        super().restart_planned(attempt, cause, delay_ms, latest_id, now)

    def job_failed(self, cause: str) -> None:
        """The job has failed for good."""
        self._monitor.attempt_failed(cause, is_last=True)
        super().job_failed(cause)


class MonitoredDriver(JobDriver):
    """Tells ``monitor`` what happens. A subclass sets it before it calls the driver's ``__init__``."""

    monitor: JobMonitor

    def make_log(self) -> JobLog:
        """Return a log that tells the monitor of failures."""
        return MonitoredLog(self.graph.name, self.graph.settings.timeout_ms, self.monitor)

    def attempt_started(self, effect: Deploy) -> None:
        """Note the attempt, and what it restores."""
        super().attempt_started(effect)
        self.monitor.attempt_started(effect, self._place_of(effect.restored))

    def master_event(self, event: MasterEvent) -> None:
        """Note acknowledgements and failures, then pass the event on."""
        kind = type(event)
        if kind is AcknowledgeCheckpoint:
            self.monitor.checkpoints.acknowledged(event, self.monitor.now_ms())  # type: ignore[arg-type]
        elif kind is TaskFailed:
            self.monitor.task_failed(event)  # type: ignore[arg-type]
        super().master_event(event)

    def checkpoint_triggered(self, effect: CheckpointTriggered) -> None:
        """Note the checkpoint, and how many tasks must acknowledge it."""
        super().checkpoint_triggered(effect)
        pending = self.master.coordinator.pending.get(effect.checkpoint_id)
        tasks = 0 if pending is None else len(pending.missing)
        self.monitor.triggered(effect.checkpoint_id, effect.kind, tasks)

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """Note that the checkpoint is complete, and where it is."""
        super().checkpoint_completed(effect)
        latest = self.master.coordinator.store.latest
        self.monitor.checkpoints.completed(
            effect.checkpoint_id, self._place_of(latest), self.monitor.now_ms(), latest
        )

    def checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        """Note why the checkpoint failed."""
        super().checkpoint_aborted(effect)
        self.monitor.checkpoints.aborted(effect.checkpoint_id, str(effect.reason), self.monitor.now_ms())

    def request_resolved(self, effect: RequestResolved) -> None:
        """Note that a savepoint is complete."""
        super().request_resolved(effect)
        if effect.checkpoint_id is not None:
            path = self.savepoint_place(effect.checkpoint_id)
            self.monitor.checkpoints.completed(effect.checkpoint_id, path, self.monitor.now_ms())

    def savepoint_place(self, checkpoint_id: int) -> str:
        """Return where a savepoint lies; "": unknown."""
        return ""

    def _place_of(self, metadata: CheckpointMetadata | None) -> str:
        return "" if metadata is None else self.place_of_checkpoint(metadata)

    def place_of_checkpoint(self, metadata: CheckpointMetadata) -> str:
        """Return where a checkpoint lies; "": unknown."""
        return ""

    def read_subtasks(self) -> tuple[SubtaskReading, ...]:
        """Return what the tasks of the current attempt show now."""
        raise NotImplementedError

    def read_user_metrics(self) -> tuple[MetricReading, ...]:
        """Return what the functions of the current attempt have counted."""
        return tuple(self.metrics.readings())

    def view(self) -> JobView:
        """Return what is seen of the job now."""
        retained = [each.checkpoint_id for each in self.master.coordinator.store.retained]
        return self.monitor.view(
            self.graph,
            self.master.state.name,
            self.read_subtasks(),
            self.read_user_metrics(),
            retained,
        )


class PublishingDriver(MonitoredDriver):
    """Publishes views of the job. A subclass calls ``begin_monitoring`` before the driver's ``__init__``."""

    _publisher: Publisher | None
    _next_view_ms: int
    _places: MountedStorage

    def begin_monitoring(
        self, graph: JobGraph, storage: MountedStorage, recovered: Recovered, clocks: Clocks
    ) -> None:
        """Make the monitor of this process's run of the job."""
        self.monitor = JobMonitor(graph, recovered.incarnation, clocks.wall_ms)
        self._publisher = None
        self._next_view_ms = 0
        self._places = storage

    @contextmanager
    def published(self, submit: Callable[[JobRequest, Respond], None]) -> Iterator[None]:
        """Publish what is seen of the job; ``submit`` takes the requests of users. Raises AddressInUse."""
        with open_publisher(self.graph, self._places, submit) as publisher:
            self._publisher = publisher
            # The first round may take long, in a user's function.
            self._show()
            try:
                yield
            finally:
                self._show()
                self._publisher = None

    def time_passes(self, now: int) -> None:
        """Publish a view if the interval is over; ``now`` is of the driver's clock."""
        if now >= self._next_view_ms:
            self._next_view_ms = now + self.monitor.interval_ms
            self._show()

    def _show(self) -> None:
        """Publish a view. A mistake in it, such as that of a user's sink, never fails the job."""
        publisher = self._publisher
        if publisher is None:
            return
        try:
            publisher.publish(self.view())
        except Exception:
            self._publisher = None
            _logger.exception("job %r can no longer be shown; it continues", self.graph.name)

    def savepoint_place(self, checkpoint_id: int) -> str:
        return self._places.mounts.get(checkpoint_folder(checkpoint_id, "savepoint"), "")

    def place_of_checkpoint(self, metadata: CheckpointMetadata) -> str:
        folder = checkpoint_folder(metadata.checkpoint_id, metadata.kind)
        if folder in self._places.mounts:
            return self._places.mounts[folder]
        return f"{self._places.root}/{folder}" if self._places.root else ""


class MonitoredExecution(PublishingDriver, LocalExecution):
    """One run of a job in this process that is monitored."""

    def __init__(
        self,
        graph: JobGraph,
        storage: MountedStorage,
        recovered: Recovered,
        probe: Probe = no_probe,
        clocks: Clocks = SYSTEM_CLOCKS,
    ) -> None:
        self.begin_monitoring(graph, storage, recovered, clocks)
        super().__init__(graph, storage, recovered, probe, clocks)

    def run(self) -> JobExecutionResult:
        """Run until the job has ended, and publish what is seen of it. Raises AddressInUse."""
        with self.published(self.submit):
            return super().run()

    def _round(self) -> bool:
        progress = super()._round()
        if self._now >= self._next_view_ms:
            self.time_passes(self._now)
        return progress

    def read_subtasks(self) -> tuple[SubtaskReading, ...]:
        return read_tasks(self.tasks.values(), self.monitor.now_ms())


class MonitoredWorkersExecution(MonitoredExecution, WorkersExecution):
    """One run of a job whose tasks are in workers, and that is monitored."""

    def __init__(
        self,
        graph: JobGraph,
        storage: MountedStorage,
        recovered: Recovered,
        probe: Probe = no_probe,
        clocks: Clocks = SYSTEM_CLOCKS,
    ) -> None:
        self._ended: list[WorkerHandle] = []
        """The workers of the last attempt, once they have ended."""
        super().__init__(graph, storage, recovered, probe, clocks)

    def run(self) -> JobExecutionResult:
        """Run until the job has ended. Raises AddressInUse, and then no process is left behind."""
        try:
            return super().run()
        except AddressInUse:
            self.end_launcher()
            raise

    def attempt_started(self, effect: Deploy) -> None:
        """Forget what the workers of the previous attempt have shown."""
        self._ended = []
        super().attempt_started(effect)

    def _end_workers(self) -> None:
        ended = self._handles
        super()._end_workers()
        self._ended = ended or self._ended

    def _reports(self) -> list[TaskReport]:
        handles = self._handles or self._ended
        return [handle.report for handle in handles if handle.report is not None]

    def read_subtasks(self) -> tuple[SubtaskReading, ...]:
        found = [each for report in self._reports() for each in report.subtasks]
        return tuple(sorted(found, key=lambda each: (each.vertex, each.subtask)))

    def read_user_metrics(self) -> tuple[MetricReading, ...]:
        return tuple([each for report in self._reports() for each in report.user_metrics])
