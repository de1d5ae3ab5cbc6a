"""The simulation as a Spark job: all tasks of a wave, in their order.

The rules this module lives by:

- The job runs in a thread of its own, because Spark's actions block.
- Progress is the number of finished tasks, which Spark reports; the tasks report nothing.
- An interrupt cancels the job, so that it does not continue in the background.
- An error in a family's file, or a full disk, is raised on an executor: the original exception is restored
  from Spark's error text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol

import pyarrow as pa
from pyspark import InheritableThread, SparkContext
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from onceproof.engine.runtime.spark_session import SparkFailed, one_line
from onceproof.harness.campaign.executor import Wave
from onceproof.harness.campaign.trial_store import TrialsLost
from onceproof.harness.campaign.trial_tables import ANSWERS
from onceproof.harness.model.family import FamilyError
from onceproof.harness.trials.output_files import OutputUnwritable
from onceproof.harness.trials.pool import WorkerDied, WorkerFailed

POLL_SECONDS: Final = 0.2

# Errors of an executor that one line explains.
_USER_ERRORS: Final[tuple[type[Exception], ...]] = (FamilyError, OutputUnwritable, TrialsLost, WorkerDied)
_groups = count(1)


class Job(Protocol):
    """Scenarios that one Spark job simulates."""

    @property
    def tasks(self) -> int:
        """The number of Spark tasks."""

    def run(self, session: SparkSession) -> pa.Table:
        """Simulate the scenarios and return a row for each."""


@dataclass(frozen=True, slots=True)
class WaveJob:
    """The scenarios of a wave, of all families."""

    wave: Wave

    @property
    def tasks(self) -> int:
        """The number of Spark tasks."""
        return len(self.wave.tasks)

    def run(self, session: SparkSession) -> pa.Table:
        """Simulate the scenarios, write their trials, and return their verdicts."""
        # As many partitions as numbers: each task has one, and Spark begins them in this order.
        numbers = session.range(0, self.tasks, 1, self.tasks)
        return numbers.mapInArrow(self.wave, from_arrow_schema(ANSWERS)).toArrow()


def run_job(session: SparkSession, job: Job, progress: Callable[[float], None]) -> pa.Table:
    """Run a job and return its table.

    Args:
        progress: called several times a second with the finished part of all tasks, from 0 to 1.

    Raises:
        FamilyError, OutputUnwritable: an executor met an error that the user can fix.
        WorkerFailed, SparkFailed: an internal error on an executor, or an error of Spark.
    """
    context = session.sparkContext
    group = f"onceproof simulation {next(_groups)}"
    failures: list[Exception] = []
    tables: list[pa.Table] = []

    def run() -> None:
        try:
            context.setJobGroup(group, "simulate", interruptOnCancel=True)
            tables.append(job.run(session))
        except Exception as error:
            failures.append(error)

    thread = InheritableThread(target=run)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            progress(min(1.0, _finished_tasks(context, group) / job.tasks))
    finally:
        if thread.is_alive():
            context.cancelJobGroup(group)
        thread.join()
    if failures:
        raise original_error(failures[0]) from failures[0]
    return tables[0]


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
    if not isinstance(failure, PythonException):
        return SparkFailed(f"Spark could not run the campaign: {one_line(failure)}")
    text = str(failure).strip()
    last = text.splitlines()[-1] if text else ""
    for kind in _USER_ERRORS:
        name, _, message = last.partition(": ")
        if name == f"{kind.__module__}.{kind.__qualname__}":
            return kind(message)
    return WorkerFailed(text)
