"""The scenarios of an experiment on executors: from numbers to trials, measured and judged.

The rules this module lives by:

- The numbers and the design decide everything, as everywhere; a task that Spark runs again gives the same.
- The scenarios come back as their JSON: there are thousands of them, not millions, and each is the proof of
  its own costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from onceproof.harness.campaign.executor import FamilySource, load
from onceproof.harness.campaign.jobs import run_side_by_side
from onceproof.harness.checkers.outcome import from_line, to_line
from onceproof.harness.model.scenario import from_json, to_json
from onceproof.harness.sensitivity.designed import designed_family
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
SCENARIOS_A_TASK: Final = 64
LEAST_TASKS_PER_CORE: Final = 4


@dataclass(frozen=True, slots=True)
class DesignedSimulation:
    """Runs scenarios of an experiment by their numbers; what mapInArrow calls for each task."""

    source: FamilySource
    experiment: Experiment

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the trials of the numbers in the first column."""
        for batch in batches:
            trials = [self._tried(number) for number in batch.column(0).to_pylist()]
            columns = [
                [trial.number for trial in trials],
                [to_json(trial.scenario) for trial in trials],
                [to_line(trial.outcome) for trial in trials],
                [trial.alignment_steps for trial in trials],
            ]
            arrays = [pa.array(column, kind) for column, kind in zip(columns, TRIALS.types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=TRIALS)

    def _tried(self, number: int) -> DesignedTrial:
        family = designed_family(load(self.source))
        scenario = self.experiment.scenario(family, number)
        outcome, history = run_scenario(family, scenario, MeasuredSystem())
        return DesignedTrial.of(number, scenario, outcome, history)


@dataclass(frozen=True, slots=True)
class DesignedJob:
    """All scenarios of an experiment, as one job of Spark's."""

    family: str
    simulation: DesignedSimulation
    tasks: int

    def run(self, session: SparkSession) -> pa.Table:
        """Simulate, and return the trials."""
        rows = session.range(0, self.simulation.experiment.scenarios, 1, self.tasks)
        return rows.mapInArrow(self.simulation, from_arrow_schema(TRIALS)).toArrow()


def run_experiment(
    session: SparkSession,
    asked: str,
    experiment: Experiment,
    progress: Callable[[float], None] = lambda part: None,
) -> list[DesignedTrial]:
    """Run an experiment with a family, named as on the command line, and return its trials in order.

    ``progress`` is told which part of them is done.
    """
    simulation = DesignedSimulation(FamilySource.of(asked), experiment)
    cores = session.sparkContext.defaultParallelism
    tasks = max(cores * LEAST_TASKS_PER_CORE, experiment.scenarios // SCENARIOS_A_TASK)
    job = DesignedJob(asked, simulation, min(tasks, experiment.scenarios))
    (table,) = run_side_by_side(session, [job], progress)
    table = table.sort_by("number")
    columns = (table.column(name).to_pylist() for name in TRIALS.names)
    return [
        DesignedTrial(number, from_json(scenario), from_line(line), steps)
        for number, scenario, line, steps in zip(*columns, strict=True)
    ]
