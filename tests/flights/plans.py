"""Three plans for the year of flights: what runs it, which tasks and processes die, where and when.

The rules this module lives by:

- The seed decides the faults of a plan. Each fault waits until the one before has struck: a kill during a
  restore needs a kill before it.
- On the local runtime all points differ. Some are never left out: in the middle of commits, during a restore,
  and between the moment when the metadata is durable and the moment when the tasks hear of it.
- On Spark five workers die, always after a sink has pre-committed, between snapshot and upload, and in the
  middle of the write of a snapshot; one of the deaths takes all workers that run a task. The driver dies
  once, and the job goes on at another parallelism.
- On a cluster the number of deaths of each kind is fixed: a year that by chance kills no executor would prove
  nothing of executors. Three of the deaths change the parallelism: twice, half, and more than there are
  executors.
- On a cluster kills at points of a checkpoint have an epoch to themselves, so that each recovery can be
  measured apart. It is not the first epoch, which has no checkpoint before it, and not the last one, behind
  which no rows show what was lost. Kills while a record is read follow at once on the kill before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, TypeAlias, TypeVar

from onceproof.harness.model.chance import Chance
from onceproof.harness.model.fault_kinds import COORDINATOR_POINTS, POINTS, FaultKind, Means, Point
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.local.system import LocalRun
from onceproof.harness.systems.spark.cluster import CLUSTER_MASTER, LOCAL_MASTER
from onceproof.harness.systems.spark.points import DRIVER_POINTS, WORKER_POINTS
from onceproof.harness.systems.spark.system import SparkRun, spark_drivers
from tests.flights.year import FAMILY, PARALLELISM, FlightsTrial, Year, read_rows

Progress: TypeAlias = Callable[[History], None]
T = TypeVar("T")

SPLITS: Final = 3
"""One for each airport. A rescale changes the number of counts and sinks, not that of the sources."""
SUBTASKS: Final = SPLITS + 2 * PARALLELISM

KILLS: Final = 12
"""Deaths on the local runtime."""
RESCALES: Final = (3, 2)
WORKER_KILLS: Final = 5
"""Deaths of workers on Spark; one of the driver comes on top."""
RESCALE: Final = 3

DEATHS: Final[Mapping[tuple[FaultKind, Means], int]] = {
    ("kill_task", ""): 6,
    ("kill_all", ""): 1,
    ("kill_task", "executor"): 4,
    ("kill_all", "executor"): 1,
    ("kill_process", ""): 4,
    ("kill_process", "java"): 4,
}
"""Deaths on a cluster by kind and means: of a worker, of all workers, of an executor's Java, of all
executors, of the driver's Python, of the driver's Java."""
CLUSTER_RESCALES: Final = (4, 1, 3)
"""The parallelism that the job on a cluster goes on with, one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the year runs on one system."""

    system: str
    """The name of the system, as in ``--system``."""
    name: str
    """How reports call the year on it."""
    runtime: str
    """What runs the job and what is killed, in words."""
    process: str
    """What dies when a process is killed, in words."""
    interval_records: int
    buffer_records: int
    """So few that a checkpoint comes within a few hundred records of its time."""
    draw: Callable[[int, int, int], tuple[Fault, ...]]
    """Draws the faults from a seed, the number of records, and the records between two checkpoints."""
    process_seconds: float
    """After so long a process without a sign of life is a failure."""
    master: str | None = None
    """Where Spark runs the tasks; None: the local runtime runs them."""

    def faults(self, seed: int, records: int) -> tuple[Fault, ...]:
        """Return the faults of a seed for that many records, in the order of time."""
        return self.draw(seed, records, self.interval_records)


def run_plan(
    plan: Plan, files: Sequence[Path], folder: Path, seed: int, progress: Progress | None = None
) -> FlightsTrial:
    """Run the year by a plan, a file for each airport, in a folder that holds nothing else, and judge it."""
    year = Year(files)
    spec = year.spec(folder, plan.faults(seed, year.total), plan.interval_records, plan.buffer_records)
    runtime = f"{plan.runtime}; with a checkpoint every {plan.interval_records:,} records"
    seconds = plan.process_seconds
    if plan.master is None:
        local = LocalRun(spec, year.lengths, folder, read_rows, process_seconds=seconds, progress=progress)
        return year.tried(local, seed, runtime, plan.process)
    with closing(spark_drivers(master=plan.master)) as drivers:
        spark = SparkRun(
            spec, year.lengths, folder, read_rows, progress, drivers=drivers, process_seconds=seconds
        )
        return year.tried(spark, seed, runtime, plan.process)


def _shuffled(chance: Chance, values: Sequence[T]) -> list[T]:
    return [values[place] for _, place in sorted((chance.unit(), place) for place in range(len(values)))]


# The local runtime.

_ALWAYS_LOCALLY: Final[tuple[Point, ...]] = ("committing", "restoring", "metadata_written")
# Where one task can die alone; a task that aborts may be dying already.
_SUBTASK_POINTS: Final = frozenset(POINTS) - COORDINATOR_POINTS - {"aborted"}
# Passed by every attempt as it begins: a kill there strikes the attempt after the kill before.
_RESTORE_PASSES: Final[dict[Point, int]] = {"restoring": SUBTASKS, "restored": SUBTASKS, "aborted": 2}
# By points that belong to a checkpoint, how often one checkpoint passes them at least.
_CHECKPOINT_PASSES: Final[dict[Point, int]] = {
    "triggered": 1,
    "barrier_received": SPLITS * PARALLELISM + PARALLELISM * PARALLELISM,
    "aligned": SUBTASKS,
    "pre_committed": PARALLELISM,
    "snapshotted": SUBTASKS,
    "uploaded": SUBTASKS - PARALLELISM,
    "acknowledged": SUBTASKS,
    "metadata_written": 1,
    "completed": 1,
    "notified": SUBTASKS,
    "committing": PARALLELISM,
    "committed": PARALLELISM,
}
_STRUCK_BY: Final = 0.85
"""The part of the year in which kills at checkpoints are planned. After it the shortest log comes to its end,
and its tasks pass fewer points than were counted on; and each kill delays the checkpoints that follow."""
_INTERVAL_ELEMENTS: Final = 250
"""About how many buffers all tasks handle between two checkpoints."""


def local_faults(seed: int, records: int, interval_records: int) -> tuple[Fault, ...]:
    """Draw the faults on the local runtime; two of the deaths are of tasks, the rest of processes."""
    chance = Chance(Random(seed))
    order = _ordered_points(chance)
    # At the other points no task dies alone, or it is dying already.
    deaths_of_tasks = chance.sample([point for point in order if point in _SUBTASK_POINTS], 2)
    rescales = dict(zip((KILLS // 3, 2 * KILLS // 3), RESCALES, strict=True))
    checkpoints = records // interval_records
    faults = []
    for place, point in enumerate(order):
        checkpoint, passes = 0, _RESTORE_PASSES.get(point, 1)
        if point in _CHECKPOINT_PASSES:
            share = _STRUCK_BY * (place + 0.3 + 0.4 * chance.unit()) / KILLS
            checkpoint, passes = 1 + int(share * checkpoints), _CHECKPOINT_PASSES[point]
        elif point == "element":
            passes = _INTERVAL_ELEMENTS
        kind: FaultKind = "kill_process"
        if point in deaths_of_tasks:
            kind = "kill_task" if point == deaths_of_tasks[0] else "kill_all"
        faults.append(
            Fault(
                kind,
                point,
                checkpoint=checkpoint,
                occurrence=chance.integer(1, passes),
                rescale_to=rescales.get(place, 0),
            )
        )
    return tuple(faults)


def _ordered_points(chance: Chance) -> list[Point]:
    """Draw different points, and their order in time."""
    others = [point for point in POINTS if point not in _ALWAYS_LOCALLY]
    points = [*_ALWAYS_LOCALLY, *chance.sample(others, KILLS - len(_ALWAYS_LOCALLY))]
    shuffled = _shuffled(chance, points)
    order: list[Point] = [
        point for point in shuffled if point not in _RESTORE_PASSES and point != "end_of_data"
    ]
    for point in shuffled:
        if point in _RESTORE_PASSES:
            # Not among the first two: it needs a kill before it, and a checkpoint to be restored.
            order.insert(chance.integer(2, len(order)), point)
    if "end_of_data" in points:
        order.append("end_of_data")
    return order


# Spark.

_ALWAYS_ON_SPARK: Final[tuple[tuple[FaultKind, Point], ...]] = (
    ("kill_task", "pre_committed"),
    ("kill_task", "snapshotted"),
    ("tear_write", "snapshotted"),
)
_EPOCH_ELEMENTS: Final = 100
"""About how many buffers all tasks handle in an epoch."""


def _epoch_passes(point: Point, parallelism: int) -> int:
    """Return how often an epoch passes a point that belongs to a checkpoint at least, over all workers."""
    if point in ("triggered", "metadata_written", "completed"):
        return 1
    if point in ("pre_committed", "committing", "committed"):
        return parallelism
    if point == "barrier_received":
        return 2 * parallelism
    return SPLITS + 2 * parallelism


def spark_faults(seed: int, records: int, interval_records: int) -> tuple[Fault, ...]:
    """Draw the faults on Spark whose tasks run in the Java of the driver."""
    chance = Chance(Random(seed))
    deaths = _deaths_of_workers(chance)
    driver = chance.integer(1, len(deaths))
    deaths.insert(driver, ("kill_process", chance.choice(DRIVER_POINTS)))
    epochs = records // interval_records
    faults = []
    for place, (kind, point) in enumerate(deaths):
        # The first epoch has no checkpoint before it, and behind the last one no rows show what was lost.
        share = (place + 0.3 + 0.4 * chance.unit()) / len(deaths)
        passes = _EPOCH_ELEMENTS if point == "element" else _epoch_passes(point, PARALLELISM)
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
    used = {point for _, point in _ALWAYS_ON_SPARK}
    others = [point for point in WORKER_POINTS if point not in used and point != "end_of_data"]
    all_at, one_at = chance.sample(others, WORKER_KILLS - len(_ALWAYS_ON_SPARK))
    return _shuffled(chance, [*_ALWAYS_ON_SPARK, ("kill_all", all_at), ("kill_task", one_at)])


# Executors of Spark.

_FIRST_CHECKPOINT: Final = 2
_SPREAD: Final = 0.4
"""Over which part of its share of the year a kill may come: the rest lies between it and the next one."""
_FEWEST_ELEMENTS: Final = 40
"""How many buffers all tasks handle in one epoch at the least."""
_CLUSTER_POINTS: Final[tuple[Point, ...]] = tuple(
    [point for point in WORKER_POINTS if point != "end_of_data"]
)
_RESTORES: Final[tuple[Point, ...]] = ("restoring", "restored")


def cluster_faults(seed: int, records: int, interval_records: int) -> tuple[Fault, ...]:
    """Draw the faults on two executors of Spark."""
    chance = Chance(Random(seed))
    kinds = _shuffled(chance, [kind for kind, count in DEATHS.items() for _ in range(count)])
    rescaling = chance.sample(range(len(kinds) - 1), len(CLUSTER_RESCALES))
    rescales = dict(zip(rescaling, CLUSTER_RESCALES, strict=True))
    share = (records // interval_records - _FIRST_CHECKPOINT) / len(kinds)
    parallelism = PARALLELISM
    faults = []
    for place, (kind, means) in enumerate(kinds):
        points = (*_CLUSTER_POINTS, *DRIVER_POINTS) if kind == "kill_process" else _CLUSTER_POINTS
        point = chance.choice(points)
        checkpoint = _FIRST_CHECKPOINT + int((place + _SPREAD * chance.unit()) * share)
        passes = _epoch_passes(point, parallelism)
        if point == "element":
            # It belongs to no checkpoint, and strikes soon after the kill before it.
            checkpoint, passes = 0, _FEWEST_ELEMENTS
        elif point in _RESTORES:
            # What an epoch restores is the checkpoint before it.
            checkpoint -= 1
        fault = Fault(
            kind,
            point,
            checkpoint=checkpoint,
            occurrence=chance.integer(1, passes),
            rescale_to=rescales.get(place, 0),
            means=means,
        )
        parallelism = fault.rescale_to or parallelism
        faults.append(fault)
    return tuple(faults)


LOCAL: Final = Plan(
    system="local",
    name=FAMILY,
    runtime=(
        "the local runtime, in processes that are killed by SIGKILL and started again over the same folders"
    ),
    process="the process",
    interval_records=10_000,
    buffer_records=250,
    draw=local_faults,
    process_seconds=120.0,
)
SPARK: Final = Plan(
    system="spark",
    name="flights on Spark",
    runtime=(
        "Spark, each epoch a Spark job; the Python workers of tasks are killed by SIGKILL, and once the"
        " driver with its Java, for which another one stands ready"
    ),
    process="the driver",
    interval_records=24_000,
    buffer_records=500,
    draw=spark_faults,
    process_seconds=240.0,
    master=LOCAL_MASTER,
)
CLUSTER: Final = Plan(
    system="spark-cluster",
    name="flights on a cluster",
    runtime=(
        f"Spark's {CLUSTER_MASTER}, two executors with a Java and a Python worker of their own; workers,"
        " executors, the driver's Python and the driver's Java are killed by SIGKILL"
    ),
    process="the driver",
    interval_records=5_000,
    buffer_records=250,
    draw=cluster_faults,
    process_seconds=240.0,
    master=CLUSTER_MASTER,
)
PLANS: Final[Mapping[str, Plan]] = {plan.system: plan for plan in (LOCAL, SPARK, CLUSTER)}
"""By the name of the system on trial."""
