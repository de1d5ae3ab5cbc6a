"""An experiment on Spark: executors run its scenarios by their numbers and return the trials.

The rules this module lives by:

- The number and the design decide a scenario, so a task that Spark repeats returns the same trials.
- The trials contain the scenarios as JSON, because each is the proof of its costs; there are only thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from onceproof.harness.campaign.executor import FamilySource, load
from onceproof.harness.campaign.jobs import RunningJob
from onceproof.harness.checkers.outcome import from_line, to_line
from onceproof.harness.model.scenario import from_json, to_json
from onceproof.harness.sensitivity.experiment import DesignedTrial, Experiment
from onceproof.harness.systems.simulation.cost_meter import MeasuredSystem
from onceproof.harness.trials.trial import run_scenario

TRIALS: Final = pa.schema(
    [
        ("number", pa.int64()),
        ("scenario", pa.string()),
        ("outcome", pa.binary()),
        ("alignment_steps", pa.int64()),
    ]
)
SCENARIOS_PER_TASK: Final = 64
LEAST_TASKS_PER_CORE: Final = 4


@dataclass(frozen=True, slots=True)
class DesignedSimulation:
    """The function that mapInArrow calls for each task: it runs an experiment's scenarios by number."""

    source: FamilySource
    experiment: Experiment

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the trials of the numbers in the first column."""
        for batch in batches:
            trials = [self._try(number) for number in batch.column(0).to_pylist()]
            columns = [
                [trial.number for trial in trials],
                [to_json(trial.scenario) for trial in trials],
                [to_line(trial.outcome) for trial in trials],
                [trial.alignment_steps for trial in trials],
            ]
            arrays = [pa.array(column, kind) for column, kind in zip(columns, TRIALS.types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=TRIALS)

    def _try(self, number: int) -> DesignedTrial:
        family = load(self.source)
        scenario = self.experiment.scenario(family, number)
        outcome, history = run_scenario(family, scenario, MeasuredSystem())
        return DesignedTrial.of(number, scenario, outcome, history)


@dataclass(frozen=True, slots=True)
class DesignedJob:
    """All scenarios of an experiment as one Spark job."""

    simulation: DesignedSimulation
    tasks: int

    def run(self, session: SparkSession) -> pa.Table:
        """Simulate the scenarios and return their trials."""
        rows = session.range(0, self.simulation.experiment.scenarios, 1, self.tasks)
        return rows.mapInArrow(self.simulation, from_arrow_schema(TRIALS)).toArrow()


def run_experiment(
    session: SparkSession,
    asked: str,
    experiment: Experiment,
    progress: Callable[[float], None] = lambda part: None,
) -> list[DesignedTrial]:
    """Run an experiment and return its trials by number.

    Args:
        asked: the family's name or path, as on the command line.
        progress: called with the finished part, from 0 to 1.
    """
    simulation = DesignedSimulation(FamilySource.of(asked), experiment)
    cores = session.sparkContext.defaultParallelism
    tasks = max(cores * LEAST_TASKS_PER_CORE, experiment.scenarios // SCENARIOS_PER_TASK)
    job = DesignedJob(simulation, min(tasks, experiment.scenarios))
    running = RunningJob(session, job)
    table = running.result(lambda: progress(running.finished_part)).sort_by("number")
    columns = (table.column(name).to_pylist() for name in TRIALS.names)
    return [
        DesignedTrial(number, from_json(scenario), from_line(line), steps)
        for number, scenario, line, steps in zip(*columns, strict=True)
    ]
