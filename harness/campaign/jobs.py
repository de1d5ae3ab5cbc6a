"""The simulation as Spark jobs: one job for each family of a wave, run in parallel and cancelled together.

The rules this module lives by:

- Each job runs in its own thread, because Spark's actions block, and in its own scheduler pool, so that all
  families progress equally. Cores that the last tasks of one job leave idle go to the other jobs.
- Progress is the number of finished tasks, which Spark reports; the tasks report nothing.
- A failed job or an interrupt cancels all jobs, so no job continues in the background.
- An error in a family's file, or a full disk, is raised on an executor: the original exception is restored
  from Spark's error text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol

import pyarrow as pa
from pyspark import InheritableThread, SparkContext
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from onceproof.engine.runtime.spark_session import SparkFailed, one_line
from onceproof.harness.campaign.executor import Simulation
from onceproof.harness.campaign.trial_store import TrialsLost
from onceproof.harness.campaign.trial_tables import ANSWERS
from onceproof.harness.model.family import FamilyError
from onceproof.harness.trials.pool import WorkerDied, WorkerFailed
from onceproof.harness.trials.runner import OutputUnwritable

POLL_SECONDS: Final = 0.2

# Errors of an executor that one line explains.
_USER_ERRORS: Final[tuple[type[Exception], ...]] = (FamilyError, OutputUnwritable, TrialsLost, WorkerDied)
_groups = count(1)


class Job(Protocol):
    """The scenarios of one family that one Spark job simulates."""

    @property
    def family(self) -> str:
        """The family's name."""

    @property
    def tasks(self) -> int:
        """The number of Spark tasks."""

    def run(self, session: SparkSession) -> pa.Table:
        """Simulate the scenarios and return a row for each."""


@dataclass(frozen=True, slots=True)
class SimulationJob:
    """The scenarios of one family in one wave."""

    simulation: Simulation
    tasks: int

    @property
    def family(self) -> str:
        """Return the family's name."""
        return self.simulation.tables.family

    def run(self, session: SparkSession) -> pa.Table:
        """Simulate the scenarios, write their trials, and return their verdicts."""
        indexes = session.range(0, sum(map(len, self.simulation.turns)), 1, self.tasks)
        return indexes.mapInArrow(self.simulation, from_arrow_schema(ANSWERS)).toArrow()


def run_in_parallel(
    session: SparkSession, jobs: Sequence[Job], progress: Callable[[float], None]
) -> list[pa.Table]:
    """Run jobs in parallel and return their tables in the same order.

    :param progress: called several times a second with the finished part of all tasks, from 0 to 1
    :raises FamilyError, OutputUnwritable: an executor met an error that the user can fix
    :raises WorkerFailed, SparkFailed: an internal error on an executor, or an error of Spark
    """
    context = session.sparkContext
    group = f"onceproof simulation {next(_groups)}"
    failures: list[Exception] = []
    tables: dict[int, pa.Table] = {}

    def run(place: int, job: Job) -> None:
        try:
            context.setJobGroup(group, f"simulate {job.family}", interruptOnCancel=True)
            context.setLocalProperty("spark.scheduler.pool", f"family {place}")
            tables[place] = job.run(session)
        except Exception as error:
            failures.append(error)

    threads = [InheritableThread(target=run, args=numbered) for numbered in enumerate(jobs)]
    for thread in threads:
        thread.start()
    tasks = sum(job.tasks for job in jobs)
    try:
        while any(thread.is_alive() for thread in threads) and not failures:
            next(thread for thread in threads if thread.is_alive() or thread is threads[-1]).join(
                POLL_SECONDS
            )
            progress(min(1.0, _finished_tasks(context, group) / tasks))
    finally:
        if any(thread.is_alive() for thread in threads):
            context.cancelJobGroup(group)
        for thread in threads:
            thread.join()
    if failures:
        raise original_error(failures[0]) from failures[0]
    return [tables[place] for place in range(len(jobs))]


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
