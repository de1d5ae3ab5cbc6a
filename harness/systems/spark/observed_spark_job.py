"""The driver on Spark under observation: it tells what becomes visible, and dies where it is told to.

The rules this module lives by:

- It is the runtime as it is, derived from; what it adds looks on (`told.py`), and every event is told before
  the next thing can become visible.
- The first mistake of the engine's own ends the run, whether the driver makes it or a worker has told of it.
  Errors that were injected are none, nor is what follows from them, as an epoch whose workers were killed
  more often than Spark tries again.
- The parallelism that a kill of tasks asks for is that of the next epoch: in the middle of one nothing can be
  dealt out anew. What a kill of the driver asks for is left to the next driver.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark import SparkContext

from onceproof.engine.checkpoint.events import CheckpointCompleted
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import Layout
from onceproof.engine.job.deployment import RestorePlan
from onceproof.engine.job.events import Deploy, JobFailed, JobFinished
from onceproof.engine.messages import AttemptId, TaskFailed, TaskId
from onceproof.engine.protocol_points import COORDINATOR, Probe
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
    RunOver,
    ToldDriver,
    say_error,
    say_failed,
)
from onceproof.harness.systems.spark.observed_subtask import JobRecipe, ObservedSubtask, assembly_of


class ObservedSparkExecution(ToldDriver, SparkExecution):
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
        """They are counted on the board."""
        return {}

    # What is seen.

    def attempt_started(self, effect: Deploy) -> None:
        """As every driver, at the parallelism that was asked for last."""
        self._follow_board()
        super().attempt_started(effect)

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """As every driver; between two epochs the job can be dealt out anew."""
        super().checkpoint_completed(effect)
        self._follow_board()

    def job_finished(self, effect: JobFinished) -> None:
        """Tell once that is durable."""
        super().job_finished(effect)
        self.tell_finished()

    def job_failed(self, effect: JobFailed) -> None:
        """Tell; where the driver's Java was killed, it is this process that has failed, and not the job."""
        super().job_failed(effect)
        if not self._board.state().java_is_dead:
            self.tell_failed(effect.cause)

    def make_tasks(self, attempt: AttemptId, graph: JobGraph, layout: Layout) -> None:
        """As every driver, with a committer that tells its mistakes."""
        super().make_tasks(attempt, graph, layout)

        def failed(task: str, error: Exception) -> None:
            self._failed(task, attempt, error)

        self._committer = ObservedCommitter(graph, self.storage.read, self.probe, self.now, failed)

    # What goes wrong.

    def _take_results(self, job: EpochJob) -> None:
        """As every driver, but a job that nobody attacked must not be lost, and no task fail by itself."""
        deaths = self._board.state().deaths
        try:
            for report in job.reports():
                self._look_at(report)
        except EpochJobFailed as error:
            if deaths == self._deaths:
                say_error(self.log, "spark", error)
                raise RunOver from error
        self._deaths = deaths
        super()._take_results(job)
        if self._board.state().is_over:
            raise RunOver

    def _look_at(self, report: Report) -> None:
        """A channel that is broken, in a task that Spark has let pass, is a mistake."""
        for message in report.messages:
            if isinstance(message, TaskFailed) and BrokenChannel.__name__ in message.cause:
                error = BrokenChannel(message.cause)
                say_error(self.log, self._name_of(report.task), error)
                raise RunOver from error

    def _failed(self, task: str, attempt: AttemptId, error: Exception) -> None:
        """A commit or a sweep raised: an injected error is the outside's, any other a mistake."""
        injected = is_injected(error)
        say_failed(self.log, task, attempt, f"{type(error).__name__}: {error}", injected)
        if not injected:
            say_error(self.log, task, error)
            raise RunOver from error

    def _follow_board(self) -> None:
        asked = self._board.state().parallelism
        if asked not in (0, self.parallelism):
            self.parallelism = asked
            graph = assembly_of(self._spec, self._board).graph(asked)
            self.rescale(graph, JobRecipe(self._spec, asked, self._board))


class ObservedCommitter(DriverCommitter):
    """Commits for one attempt, and says what went wrong."""

    def __init__(
        self,
        graph: JobGraph,
        read: Callable[[str], bytes],
        probe: Probe,
        now: Callable[[], int],
        failed: Callable[[str, Exception], None],
    ) -> None:
        super().__init__(graph, read, probe, now)
        self._names = [vertex.name for vertex in graph.vertices]
        self._failed = failed

    def settle(self, task: TaskId, plan: RestorePlan) -> None:
        """Commit what a checkpoint lists for a subtask."""
        try:
            super().settle(task, plan)
        except Exception as error:
            self._failed(f"{self._names[task.vertex]}-{task.subtask}", error)
            raise

    def sweep(self) -> None:
        """Abort what is not committed."""
        try:
            super().sweep()
        except Exception as error:
            self._failed(COORDINATOR, error)
            raise
