"""The jobs of a campaign on Spark: waves of tasks, in their order, and judgements.

The rules this module lives by:

- Each job runs in a thread of its own, because Spark's actions block. Spark begins all tasks of a job before
  those of a later one, so the later one takes the cores that have nothing left to do.
- Progress is the number of finished tasks, which Spark reports; the tasks report nothing.
- An interrupt cancels the job, so that it does not continue in the background.
- An error in a family's file, or a full disk, is raised on an executor: the original exception is restored
  from Spark's error text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final, Generic, Protocol, TypeVar

from pyspark import InheritableThread, SparkContext
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from onceproof.engine.runtime.spark_session import SparkFailed, one_line
from onceproof.harness.campaign.answers import ANSWERS, Answer, answers_in
from onceproof.harness.campaign.executor import Wave
from onceproof.harness.campaign.trial_files import TrialsLost
from onceproof.harness.model.family import FamilyError
from onceproof.harness.trials.output_files import OutputUnwritable
from onceproof.harness.trials.pool import WorkerDied, WorkerFailed

POLL_SECONDS: Final = 0.2

# Errors of an executor that one line explains.
_USER_ERRORS: Final[tuple[type[Exception], ...]] = (FamilyError, OutputUnwritable, TrialsLost, WorkerDied)
_groups = count(1)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Job(Protocol[T_co]):
    """Work of the executors for one result."""

    @property
    def tasks(self) -> int:
        """The number of Spark tasks, for the progress."""

    def run(self, session: SparkSession) -> T_co:
        """Do the work and return its result."""


@dataclass(frozen=True, slots=True)
class WaveJob:
    """The scenarios of a wave, of all families."""

    wave: Wave

    @property
    def tasks(self) -> int:
        """The number of Spark tasks."""
        return len(self.wave.tasks)

    def run(self, session: SparkSession) -> list[Answer]:
        """Simulate the scenarios, write their trials, and return the answers of the tasks."""
        if not self.tasks:
            return []
        # As many partitions as numbers: each task has one, and Spark begins them in this order.
        numbers = session.range(0, self.tasks, 1, self.tasks)
        return list(answers_in(numbers.mapInArrow(self.wave, from_arrow_schema(ANSWERS)).toArrow()))


class RunningJob(Generic[T]):
    """A job that has been started; several run at the same time, and Spark begins the tasks of the first."""

    def __init__(self, session: SparkSession, job: Job[T]) -> None:
        self._context = session.sparkContext
        self._job = job
        self._group = f"onceproof campaign {next(_groups)}"
        self._failures: list[Exception] = []
        self._results: list[T] = []
        self._thread = InheritableThread(target=self._run, args=(session,))
        self._thread.start()

    def _run(self, session: SparkSession) -> None:
        try:
            self._context.setJobGroup(self._group, type(self._job).__name__, interruptOnCancel=True)
            self._results.append(self._job.run(session))
        except Exception as error:
            self._failures.append(error)

    @property
    def finished_part(self) -> float:
        """The finished part of all tasks, from 0 to 1."""
        return min(1.0, _finished_tasks(self._context, self._group) / max(self._job.tasks, 1))

    def result(self, progress: Callable[[], None] = lambda: None) -> T:
        """Wait for the result; an error or interrupt meanwhile cancels the job.

        Args:
            progress: called several times a second.

        Raises:
            FamilyError, OutputUnwritable, TrialsLost: an executor met an error that the user can fix.
            WorkerFailed, SparkFailed: an internal error on an executor, or an error of Spark.
        """
        try:
            while self._thread.is_alive():
                self._thread.join(POLL_SECONDS)
                progress()
        finally:
            self.cancel()
        if self._failures:
            raise original_error(self._failures[0]) from self._failures[0]
        return self._results[0]

    def cancel(self) -> None:
        """End the job if it is still running."""
        if self._thread.is_alive():
            self._context.cancelJobGroup(self._group)
        self._thread.join()


def _finished_tasks(context: SparkContext, group: str) -> int:
    """Return how many tasks of a job group have finished, of the stages that Spark still lists."""
    tracker = context.statusTracker()
    finished = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            about = tracker.getStageInfo(stage)
            finished += about.numCompletedTasks if about else 0
    return finished


def original_error(failure: Exception) -> Exception:
    """Return the error of an executor: a user's error, an internal error with its traceback, or Spark's."""
    if isinstance(failure, _USER_ERRORS):
        return failure
    if not isinstance(failure, PythonException):
        return SparkFailed(f"Spark could not run the campaign: {one_line(failure)}")
    text = str(failure).strip()
    last = text.splitlines()[-1] if text else ""
    for kind in _USER_ERRORS:
        name, _, message = last.partition(": ")
        if name == f"{kind.__module__}.{kind.__qualname__}":
            return kind(message)
    return WorkerFailed(text)
