"""The year of flights on two executors of Spark, under twenty kills of every kind and three rescales.

The rules this module lives by:

- How many die of each kind is fixed, for a year that by chance kills no executor would prove nothing of them:
  Python workers, one or all that run a task; the Java of executors, likewise; the driver's Python; its Java.
  The seed decides their order, the point at which each dies, and the pass of that point.
- Three of the deaths, drawn as well, let the job go on at another parallelism: twice, half, and more than
  there are executors.
- Each kill waits until the one before has struck. Kills at points of a checkpoint have an epoch to themselves
  at the least, so what each cost can be told; not the first epoch, which has no checkpoint before it, and not
  the last one, behind which nothing shows what was lost. Kills while a record is read follow at once on the
  kill before, while the job is still coming back from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from onceproof.harness.benchmarks.real_faults import (
    DRIVER,
    EXECUTOR,
    EXECUTORS,
    JAVA,
    WORKER,
    WORKERS,
    RealKind,
)
from onceproof.harness.flights.on_spark import passes_of, tried_on_spark
from onceproof.harness.flights.year import PARALLELISM, FlightsTrial, Year
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.faults import Point
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.spark.driver_process import CLUSTER_MASTER
from onceproof.harness.systems.spark.spark_system import DRIVER_POINTS, WORKER_POINTS

NAME: Final = "flights on a cluster"
INTERVAL_RECORDS: Final = 5_000
BUFFER_RECORDS: Final = 250
DEATHS: Final[tuple[tuple[RealKind, int], ...]] = (
    (WORKER, 6),
    (WORKERS, 1),
    (EXECUTOR, 4),
    (EXECUTORS, 1),
    (DRIVER, 4),
    (JAVA, 4),
)
"""How many die of each kind."""
KILLS: Final = sum(count for _, count in DEATHS)
RESCALES: Final = (4, 1, 3)
"""The parallelism that the job goes on with, one after the other."""

_FIRST_CHECKPOINT: Final = 2
_SPREAD: Final = 0.4
"""Over which part of its share of the year a kill may come: the rest lies between it and the next one."""
_ELEMENT_PASSES: Final = 40
"""What one epoch has at the least, over all tasks."""
_WORKER_POINTS: Final[tuple[Point, ...]] = tuple([point for point in WORKER_POINTS if point != "end_of_data"])
_RESTORES: Final[tuple[Point, ...]] = ("restoring", "restored")


def planned_kills(seed: int, records: int) -> tuple[Fault, ...]:
    """Return who dies where, in the order of time."""
    chance = Chance(Random(seed))
    kinds = [kind for kind, count in DEATHS for _ in range(count)]
    shuffled = sorted((chance.unit(), place) for place in range(len(kinds)))
    rescaling = chance.sample(range(len(kinds) - 1), len(RESCALES))
    rescales = dict(zip(rescaling, RESCALES, strict=True))
    share = (records // INTERVAL_RECORDS - _FIRST_CHECKPOINT) / len(kinds)
    parallelism = PARALLELISM
    faults = []
    for place, (_, drawn) in enumerate(shuffled):
        kind = kinds[drawn]
        kills_driver = kind.kind == "kill_process"
        point = chance.choice((*_WORKER_POINTS, *DRIVER_POINTS) if kills_driver else _WORKER_POINTS)
        checkpoint = _FIRST_CHECKPOINT + int((place + _SPREAD * chance.unit()) * share)
        passes = passes_of(point, parallelism)
        if point == "element":
            # It belongs to no checkpoint, and strikes soon after the kill before it.
            checkpoint, passes = 0, _ELEMENT_PASSES
        elif point in _RESTORES:
            # What an epoch restores is the checkpoint before it.
            checkpoint -= 1
        fault = Fault(
            kind.kind,
            point,
            checkpoint=checkpoint,
            occurrence=chance.integer(1, passes),
            rescale_to=rescales.get(place, 0),
            means=kind.means,
        )
        parallelism = fault.rescale_to or parallelism
        faults.append(fault)
    return tuple(faults)


def run_flights_on_cluster(
    files: Sequence[Path],
    folder: Path,
    seed: int,
    progress: Callable[[History], None] | None = None,
) -> FlightsTrial:
    """Run the year, a file for each airport, in a folder that holds nothing else, and judge it."""
    year = Year(files)
    runtime = (
        f"Spark's {CLUSTER_MASTER}, two executors with a Java and a Python worker of their own; workers,"
        " executors, the driver's Python and the driver's Java are killed by SIGKILL; with a checkpoint every"
        f" {INTERVAL_RECORDS:,} records"
    )
    spec = year.spec(folder, planned_kills(seed, year.total), INTERVAL_RECORDS, BUFFER_RECORDS)
    return tried_on_spark(year, spec, folder, seed, runtime, progress, CLUSTER_MASTER)
