"""The year of flights on Spark, under kills of workers and of the driver: a part of `make nightly`.

The rules this module lives by:

- The seed decides who dies where. Five workers die, in epochs spread over the year and at different points:
  after a sink has pre-committed, between snapshot and upload, and in the middle of the write of a snapshot,
  always; one of the deaths takes all workers that run a task. The driver dies once, at a point of its own,
  and the job goes on at another parallelism.
- Each kill waits until the one before has struck, as on the local runtime, and the same checkers judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

from onceproof.harness.flights.year import PARALLELISM, FlightsTrial, Year, read_rows
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.faults import FaultKind, Point
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.spark.driver_process import LOCAL_MASTER
from onceproof.harness.systems.spark.spark_system import DRIVER_POINTS, WORKER_POINTS, SparkRun, spark_drivers

NAME: Final = "flights on Spark"
INTERVAL_RECORDS: Final = 24_000
BUFFER_RECORDS: Final = 500
WORKER_KILLS: Final = 5
RESCALE: Final = 3
SPLITS: Final = 3
"""The sources keep their number; counts and sinks are as many as the parallelism says."""
PROCESS_SECONDS: Final = 240.0

_ALWAYS: Final[tuple[tuple[FaultKind, Point], ...]] = (
    ("kill_task", "pre_committed"),
    ("kill_task", "snapshotted"),
    ("tear_write", "snapshotted"),
)
_ELEMENT_PASSES: Final = 100
"""About what one epoch has, over all tasks."""


def passes_of(point: Point, parallelism: int) -> int:
    """Return how often an epoch passes a point that belongs to a checkpoint at least, over all workers."""
    if point in ("triggered", "metadata_written", "completed"):
        return 1
    if point in ("pre_committed", "committing", "committed"):
        return parallelism
    if point == "barrier_received":
        return 2 * parallelism
    return SPLITS + 2 * parallelism


def planned_deaths(seed: int, records: int) -> tuple[Fault, ...]:
    """Return who dies where, in the order of time."""
    chance = Chance(Random(seed))
    deaths = _deaths_of_workers(chance)
    driver = chance.integer(1, len(deaths))
    deaths.insert(driver, ("kill_process", chance.choice(DRIVER_POINTS)))
    epochs = records // INTERVAL_RECORDS
    faults = []
    for place, (kind, point) in enumerate(deaths):
        # The first epoch has no checkpoint before it, and behind the last one nothing shows what was lost.
        share = (place + 0.3 + 0.4 * chance.unit()) / len(deaths)
        passes = _ELEMENT_PASSES if point == "element" else passes_of(point, PARALLELISM)
        rescale_to = RESCALE if place == driver else 0
        if place == len(deaths) - 1:
            rescale_to = PARALLELISM if rescale_to == 0 else rescale_to
        faults.append(
            Fault(
                kind,
                point,
                checkpoint=0 if point == "element" else 1 + int(share * (epochs - 1)),
                occurrence=chance.integer(1, passes),
                rescale_to=rescale_to if kind != "tear_write" else 0,
            )
        )
    return tuple(faults)


def _deaths_of_workers(chance: Chance) -> list[tuple[FaultKind, Point]]:
    """Draw the deaths of workers, and their order in time."""
    used = {point for _, point in _ALWAYS}
    others = [point for point in WORKER_POINTS if point not in used and point != "end_of_data"]
    all_at, one_at = chance.sample(others, WORKER_KILLS - len(_ALWAYS))
    deaths = [*_ALWAYS, ("kill_all", all_at), ("kill_task", one_at)]
    return [deaths[place] for _, place in sorted((chance.unit(), place) for place in range(len(deaths)))]


def run_flights_on_spark(
    files: Sequence[Path],
    folder: Path,
    seed: int,
    progress: Callable[[History], None] | None = None,
) -> FlightsTrial:
    """Run the year, a file for each airport, in a folder that holds nothing else, and judge it."""
    year = Year(files)
    runtime = (
        "Spark, each epoch a Spark job; the Python workers of tasks are killed by SIGKILL, and once the"
        " driver with its Java, for which another one stands ready; with a checkpoint every"
        f" {INTERVAL_RECORDS:,} records"
    )
    spec = year.spec(folder, planned_deaths(seed, year.total), INTERVAL_RECORDS, BUFFER_RECORDS)
    return tried_on_spark(year, spec, folder, seed, runtime, progress)


def tried_on_spark(
    year: Year,
    spec: Spec,
    folder: Path,
    seed: int,
    runtime: str,
    progress: Callable[[History], None] | None,
    master: str = LOCAL_MASTER,
) -> FlightsTrial:
    """Run the year with drivers of its own, whose tasks run where ``master`` says, and judge it."""
    with closing(spark_drivers(master=master)) as drivers:
        run = SparkRun(
            spec, year.lengths, folder, read_rows, progress, drivers=drivers, process_seconds=PROCESS_SECONDS
        )
        return year.tried(run, seed, runtime, "the driver")
