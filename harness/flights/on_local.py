"""The year of flights through the local runtime, under kills: what `make nightly` does first.

The rules this module lives by:

- The seed decides who dies where; the points are different ones, spread over the year, and each kill waits
  until the one before has struck. That a restore can be killed, too, needs exactly this order.
- Some points are never left out: in the middle of commits, during a restore, and between the moment when the
  metadata is durable and the moment when anyone hears of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from onceproof.harness.flights.year import PARALLELISM, FlightsTrial, Year, read_rows
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.faults import COORDINATOR_POINTS, POINTS, FaultKind, Point
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.local.local_system import LocalRun

INTERVAL_RECORDS: Final = 10_000
BUFFER_RECORDS: Final = 250
"""So small that a checkpoint comes within a few hundred records of its time."""

KILLS: Final = 12
RESCALES: Final = (3, 2)
SUBTASKS: Final = 3 + 2 * PARALLELISM
PROCESS_SECONDS: Final = 120.0

_ALWAYS: Final[tuple[Point, ...]] = ("committing", "restoring", "metadata_written")
# Where a task of its own can die; one that aborts may be dying already.
_SUBTASK_POINTS: Final = frozenset(POINTS) - COORDINATOR_POINTS - {"aborted"}
# Passed by every attempt as it begins: a kill there strikes the attempt after the kill before.
_RESTORE_PASSES: Final[dict[Point, int]] = {"restoring": SUBTASKS, "restored": SUBTASKS, "aborted": 2}
# By points that belong to a checkpoint, how often one checkpoint passes them at least.
_CHECKPOINT_PASSES: Final[dict[Point, int]] = {
    "triggered": 1,
    "barrier_received": 3 * PARALLELISM + PARALLELISM * PARALLELISM,
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
and takes passes away that were counted on; and each kill puts the checkpoints that follow off a little."""
_ELEMENT_PASSES: Final = 250
"""About what one checkpoint interval has, over all tasks."""


def planned_kills(seed: int, records: int, kills: int = KILLS) -> tuple[Fault, ...]:
    """Return who dies where, in the order of time; two of the deaths are of tasks, the rest of processes."""
    chance = Chance(Random(seed))
    order = _ordered_points(chance, kills)
    # A task that dies where only a process can was not asked for; nor one that is dying already.
    deaths_of_tasks = chance.sample([point for point in order if point in _SUBTASK_POINTS], 2)
    rescales = dict(zip((kills // 3, 2 * kills // 3), RESCALES, strict=True))
    checkpoints = records // INTERVAL_RECORDS
    faults = []
    for place, point in enumerate(order):
        checkpoint, passes = 0, _RESTORE_PASSES.get(point, 1)
        if point in _CHECKPOINT_PASSES:
            share = _STRUCK_BY * (place + 0.3 + 0.4 * chance.unit()) / kills
            checkpoint, passes = 1 + int(share * checkpoints), _CHECKPOINT_PASSES[point]
        elif point == "element":
            passes = _ELEMENT_PASSES
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


def _ordered_points(chance: Chance, kills: int) -> list[Point]:
    """Draw different points, and their order in time."""
    others = [point for point in POINTS if point not in _ALWAYS]
    points = [*_ALWAYS, *chance.sample(others, kills - len(_ALWAYS))]
    shuffled = sorted((chance.unit(), point) for point in points)
    order: list[Point] = [
        point for _, point in shuffled if point not in _RESTORE_PASSES and point != "end_of_data"
    ]
    for _, point in shuffled:
        if point in _RESTORE_PASSES:
            # Not among the first two: it needs a kill before it, and a checkpoint to be restored.
            order.insert(chance.integer(2, len(order)), point)
    if "end_of_data" in points:
        order.append("end_of_data")
    return order


def run_flights(
    files: Sequence[Path],
    folder: Path,
    seed: int,
    kills: int = KILLS,
    progress: Callable[[History], None] | None = None,
) -> FlightsTrial:
    """Run the year, a file for each airport, in a folder that holds nothing else, and judge it."""
    year = Year(files)
    faults = planned_kills(seed, year.total, kills)
    spec = year.spec(folder, faults, INTERVAL_RECORDS, BUFFER_RECORDS)
    run = LocalRun(spec, year.lengths, folder, read_rows, process_seconds=PROCESS_SECONDS, progress=progress)
    runtime = (
        "the local runtime, in processes that are killed by SIGKILL and started again over the same folders,"
        f" with a checkpoint every {INTERVAL_RECORDS:,} records"
    )
    return year.tried(run, seed, runtime, "the process")
