"""The driver of a monitored job on Spark.

The rules this module lives by:

- What the tasks of an epoch have counted comes with their reports, beside their acknowledgements. It counts
  once the checkpoint of the epoch is complete, so an epoch that is repeated counts once.
- The driver commits, so it counts the commits of each subtask.
- A subtask works while it runs in its worker, and is idle in the rest of its attempt: nothing waits for room.
- A job that is not monitored is run by the plain driver, and its workers measure nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace
from pyspark import SparkContext

from onceproof.engine.checkpoint.events import CheckpointCompleted
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.events import Deploy
from onceproof.engine.job.master import JobState
from onceproof.engine.messages import CHECKPOINT, TaskId
from onceproof.engine.metrics import MetricScope
from onceproof.engine.runtime.clocks import SYSTEM_CLOCKS, Clocks
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.runtime.monitor.job_view import SubtaskReading
from onceproof.engine.runtime.monitor.monitored_driver import PublishingDriver
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.runtime.spark.driver import SparkExecution
from onceproof.engine.runtime.spark.epoch import Shipment
from onceproof.engine.runtime.spark.epoch_job import EpochJob, EpochJobFailed
from onceproof.engine.task.task_counters import TaskCounters

_STATES: Final = {JobState.RUNNING: "RUNNING", JobState.FINISHED: "FINISHED"}
"""The state of a subtask by that of its job; in all others its attempt is over."""

_ADDED: Final = ("records_in", "records_out", "busy_ms", "turn_ms", "aborted_transactions")
"""What adds up from epoch to epoch; the rest is what it was at the end of the last one."""


class MonitoredSparkExecution(PublishingDriver, SparkExecution):
    """One process's run of a job on Spark that is monitored."""

    def __init__(
        self,
        graph: JobGraph,
        context: SparkContext,
        storage: MountedStorage,
        recovered: Recovered,
        *,
        clocks: Clocks = SYSTEM_CLOCKS,
        **settings: Any,
    ) -> None:
        self.begin_monitoring(graph, storage, recovered, clocks)
        self._totals: dict[TaskId, SubtaskReading] = {}
        """What each subtask has counted in the complete epochs of the attempt."""
        self._read: dict[TaskId, SubtaskReading] = {}
        """What the subtasks have counted in the epoch whose checkpoint is not complete yet."""
        self._scopes: Mapping[str, MetricScope] = {}
        self._uncommitted: set[TaskId] = set()
        """The subtasks for which the latest checkpoint is not committed yet."""
        self._attempt_began_ms = self._counted_ms = self.monitor.now_ms()
        super().__init__(graph, context, storage, recovered, clocks=clocks, **settings)

    def run(self) -> JobExecutionResult:
        """Run until the job has ended, and publish what is seen of it. Raises AddressInUse."""
        with self.published(self.submit):
            return super().run()

    def _step(self) -> bool:
        progress = super()._step()
        self.time_passes(self.now())
        return progress

    # What the driver does, seen.

    def ship(self, shipment: Shipment) -> None:
        """Ask the workers to measure."""
        super().ship(replace(shipment, measures=True))

    def attempt_started(self, effect: Deploy) -> None:
        """Begin new counts, as in Flink."""
        self._totals, self._read, self._scopes = {}, {}, {}
        self._uncommitted = set()
        self._attempt_began_ms = self._counted_ms = self.monitor.now_ms()
        super().attempt_started(effect)

    def take_results(self, job: EpochJob) -> None:
        """Take what the tasks have counted from their reports."""
        super().take_results(job)
        try:
            reports = job.reports()
        except EpochJobFailed:
            return
        self._read = {report.task: report.reading for report in reports if report.reading is not None}
        self._scopes = {name: scope for report in reports for name, scope in report.scopes.items()}

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """Add what the epoch has counted."""
        super().checkpoint_completed(effect)
        self.metrics.know_scopes(self._scopes)
        for task, reading in self._read.items():
            self._totals[task] = _added(self._totals.get(task), reading)
        self._uncommitted = set(self._read)
        self._read = {}
        self._counted_ms = self.monitor.now_ms()

    def publish(self, metadata: CheckpointMetadata) -> None:
        """Make a checkpoint complete, and note a savepoint, which is a copy between two epochs."""
        if metadata.kind == CHECKPOINT:
            super().publish(metadata)
            return
        checkpoint_id, checkpoints = metadata.checkpoint_id, self.monitor.checkpoints
        self.monitor.triggered(checkpoint_id, metadata.kind, tasks=0)
        try:
            super().publish(metadata)
        except OSError as error:
            checkpoints.aborted(checkpoint_id, str(error), self.monitor.now_ms())
            raise
        checkpoints.completed(checkpoint_id, self.savepoint_place(checkpoint_id), self.monitor.now_ms())

    def _settle(self, task: TaskId) -> bool:
        is_committed = super()._settle(task)
        if is_committed:
            self._uncommitted.discard(task)
        return is_committed

    # What others see.

    def read_subtasks(self) -> tuple[SubtaskReading, ...]:
        """Return what each subtask has counted up to the end of the last complete epoch."""
        committer = self._committer
        commits = {} if committer is None else committer.counters
        return tuple([self._reading(task, commits.get(task)) for task in sorted(self._plans)])

    def _reading(self, task: TaskId, commits: TaskCounters | None) -> SubtaskReading:
        state = _STATES.get(self.master.state, "CANCELED")
        found = self._totals.get(task, _nothing(task))
        since_ms = self._counted_ms - self._attempt_began_ms
        pending = found.pending_transactions
        if pending and task not in self._uncommitted:
            pending = 0
        found = replace(
            found,
            state=state,
            seen_ms=self._counted_ms,
            idle_ms=max(0, since_ms - found.busy_ms),
            pending_transactions=pending,
        )
        if commits is None:
            return found
        return replace(
            found,
            commits=commits.commits,
            aborted_transactions=found.aborted_transactions + commits.aborted_transactions,
            commit_ms=commits.commit_ms,
            last_commit_ms=commits.last_commit_ms,
            longest_commit_ms=commits.longest_commit_ms,
        )


def _added(so_far: SubtaskReading | None, later: SubtaskReading) -> SubtaskReading:
    if so_far is None:
        return later
    return replace(later, **{name: getattr(so_far, name) + getattr(later, name) for name in _ADDED})


def _nothing(task: TaskId) -> SubtaskReading:
    """Return the reading of a subtask that has not ended an epoch yet."""
    return SubtaskReading(
        vertex=task.vertex, subtask=task.subtask, state="RUNNING", process=os.getpid(), seen_ms=0
    )
