"""The engine's Spark driver with an event log and a fault board.

Rules:

- The class derives from the engine's driver. It only adds observation (`event_logging_driver.py`), and writes
  each event before a later one can become visible.
- The first error of the engine itself, in the driver or in a worker, ends the run. Injected errors and their
  consequences do not count, for example an epoch whose workers were killed more often than Spark retries.
- A kill of tasks with a rescale takes effect at the next epoch, because a running epoch cannot be
  redistributed. A kill of the driver with a rescale takes effect in the next driver.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark import SparkContext

from onceproof.engine.checkpoint.events import CheckpointCompleted
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.deployment import RestorePlan
from onceproof.engine.job.events import Deploy, JobFailed, JobFinished
from onceproof.engine.messages import AttemptId, TaskFailed, TaskId
from onceproof.engine.protocol_points import COORDINATOR, Probe
from onceproof.engine.runtime.clocks import SYSTEM_CLOCKS, Clocks
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.runtime.spark.driver import SparkExecution
from onceproof.engine.runtime.spark.driver_committer import DriverCommitter
from onceproof.engine.runtime.spark.epoch import Report
from onceproof.engine.runtime.spark.epoch_job import EpochJob, EpochJobFailed
from onceproof.engine.runtime.spark.subtask import BrokenChannel
from onceproof.harness.model.injected_error import is_injected
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.recording.event_logging_driver import (
    EventLoggingDriver,
    RunOver,
    log_error,
    log_task_failure,
)
from onceproof.harness.systems.spark.observed_subtask import JobRecipe, ObservedSubtask, assembly_of


class ObservedSparkExecution(EventLoggingDriver, SparkExecution):
    """One run of a job in this driver, with its faults, logging its events."""

    def __init__(
        self,
        spec: Spec,
        graph: JobGraph,
        context: SparkContext,
        storage: MountedStorage,
        recovered: Recovered,
        board: FaultBoard,
    ) -> None:
        self.log = board.log
        self.parallelism = spec.parallelism
        self._spec = spec
        self._board = board
        self._deaths = board.state().deaths
        SparkExecution.__init__(
            self,
            graph,
            context,
            storage,
            recovered,
            recipe=JobRecipe(spec, spec.parallelism, board),
            probe=board,
            subtask_class=ObservedSubtask,
        )

    def points_passed(self) -> dict[str, int]:
        """Return nothing: the fault board counts the protocol points."""
        return {}

    # Observation.

    def attempt_started(self, effect: Deploy) -> None:
        """Start an attempt with the parallelism that the last fault asked for."""
        self._follow_board()
        super().attempt_started(effect)

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """Log the checkpoint, then rescale the job if a fault asked for it."""
        super().checkpoint_completed(effect)
        self._follow_board()

    def job_finished(self, effect: JobFinished) -> None:
        """Log the end of the job after it is durable."""
        super().job_finished(effect)
        self.log_finished()

    def job_failed(self, effect: JobFailed) -> None:
        """Log the failure of the job, unless a fault killed the driver's Java."""
        super().job_failed(effect)
        if not self._board.state().java_is_dead:
            self.log_failed(effect.cause)

    def make_committer(self, attempt: AttemptId, graph: JobGraph) -> ObservedCommitter:
        """Return a committer that logs its errors."""

        def failed(task: str, error: Exception) -> None:
            self._failed(task, attempt, error)

        return ObservedCommitter(
            graph, attempt, self.storage.read, self.probe, SYSTEM_CLOCKS, self.scope, failed
        )

    # Errors.

    def take_results(self, job: EpochJob) -> None:
        """Hand the reports on; an epoch that fails without a fault is an error of the engine."""
        deaths = self._board.state().deaths
        try:
            for report in job.reports():
                self._check_report(report)
        except EpochJobFailed as error:
            if deaths == self._deaths:
                log_error(self.log, "spark", error)
                raise RunOver from error
        self._deaths = deaths
        super().take_results(job)
        if self._board.state().is_over:
            raise RunOver

    def _check_report(self, report: Report) -> None:
        """Look for a broken channel: in a task that Spark has let pass it is an error of the engine."""
        for message in report.messages:
            if isinstance(message, TaskFailed) and BrokenChannel.__name__ in message.cause:
                error = BrokenChannel(message.cause)
                log_error(self.log, self.name_of(report.task), error)
                raise RunOver from error

    def _failed(self, task: str, attempt: AttemptId, error: Exception) -> None:
        """Log an error of a commit or a sweep; end the run if it was not injected."""
        injected = is_injected(error)
        log_task_failure(self.log, task, attempt, f"{type(error).__name__}: {error}", injected)
        if not injected:
            log_error(self.log, task, error)
            raise RunOver from error

    def _follow_board(self) -> None:
        asked = self._board.state().parallelism
        if asked not in (0, self.parallelism):
            self.parallelism = asked
            graph = assembly_of(self._spec, self._board).graph(asked)
            self.rescale(graph, JobRecipe(self._spec, asked, self._board))


class ObservedCommitter(DriverCommitter):
    """Commits for one attempt, and reports errors to ``failed``."""

    def __init__(
        self,
        graph: JobGraph,
        attempt: AttemptId,
        read: Callable[[str], bytes],
        probe: Probe,
        clocks: Clocks,
        scope: str,
        failed: Callable[[str, Exception], None],
    ) -> None:
        super().__init__(graph, attempt, read, probe, clocks, scope)
        self._names = [vertex.name for vertex in graph.vertices]
        self._failed = failed

    def settle(self, task: TaskId, plan: RestorePlan) -> None:
        """Commit the transactions that a checkpoint lists for a subtask."""
        try:
            super().settle(task, plan)
        except Exception as error:
            self._failed(f"{self._names[task.vertex]}-{task.subtask}", error)
            raise

    def sweep(self) -> None:
        """Abort all transactions that are not committed."""
        try:
            super().sweep()
        except Exception as error:
            self._failed(COORDINATOR, error)
            raise
