"""Simulation as Spark jobs: one for each family of a wave, run side by side and called off together.

The rules this module lives by:

- Each job runs from a thread of its own, because Spark's actions wait for their end, and in a pool of its
  own, so that all get on alike: where the time ends, no family is left with nothing. The cores that the last
  tasks of one job leave idle are taken by the others.
- How far they are is asked of Spark, by finished tasks; tasks themselves report nothing.
- One that fails takes the others with it, and so does an interrupt: nothing goes on in the background.
- A mistake in a family's file, or a full disk, happens on an executor and is the user's to mend: it comes
  out of Spark's error as what it was.
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
from onceproof.harness.campaign.tables import VERDICTS
from onceproof.harness.model.family import FamilyError
from onceproof.harness.trials.pool import WorkerFailed
from onceproof.harness.trials.runner import OutputUnwritable

SECONDS_BETWEEN_LOOKS: Final = 0.2

# What a worker may say that its user can mend.
_MENDABLE: Final[tuple[type[Exception], ...]] = (FamilyError, OutputUnwritable)
_groups = count(1)


class Job(Protocol):
    """Scenarios of one family that are simulated in one job of Spark's."""

    @property
    def family(self) -> str:
        """Whose scenarios."""

    @property
    def tasks(self) -> int:
        """Into how many tasks they are cut."""

    def run(self, session: SparkSession) -> pa.Table:
        """Simulate them; return a row for each."""


@dataclass(frozen=True, slots=True)
class SimulationJob:
    """The scenarios of one family in one wave."""

    simulation: Simulation
    numbers: range
    tasks: int

    @property
    def family(self) -> str:
        """Whose scenarios."""
        return self.simulation.tables.family

    def run(self, session: SparkSession) -> pa.Table:
        """Simulate and write the trials; return the verdicts."""
        numbers = self.numbers
        rows = session.range(numbers.start, numbers.stop, numbers.step, self.tasks)
        return rows.mapInArrow(self.simulation, from_arrow_schema(VERDICTS)).toArrow()


def run_side_by_side(
    session: SparkSession, jobs: Sequence[Job], progress: Callable[[float], None]
) -> list[pa.Table]:
    """Run jobs to their end and return their tables; ``progress`` is told which part of all is done."""
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
                SECONDS_BETWEEN_LOOKS
            )
            progress(min(1.0, _finished_tasks(context, group) / tasks))
    finally:
        if any(thread.is_alive() for thread in threads):
            context.cancelJobGroup(group)
        for thread in threads:
            thread.join()
    if failures:
        raise _as_it_was(failures[0]) from failures[0]
    return [tables[place] for place in range(len(jobs))]


def _finished_tasks(context: SparkContext, group: str) -> int:
    """Return how many tasks of a group are done, as far as Spark remembers."""
    tracker = context.statusTracker()
    finished = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            about = tracker.getStageInfo(stage)
            finished += about.numCompletedTasks if about else 0
    return finished


def _as_it_was(failure: Exception) -> Exception:
    """Return what an executor met: a family's mistake, a mistake of ours with its traceback, or Spark's."""
    if not isinstance(failure, PythonException):
        return SparkFailed(f"Spark could not run the campaign: {one_line(failure)}")
    text = str(failure).strip()
    last = text.splitlines()[-1] if text else ""
    for kind in _MENDABLE:
        name, _, said = last.partition(": ")
        if name == f"{kind.__module__}.{kind.__qualname__}":
            return kind(said)
    return WorkerFailed(text)
