"""The year of flights through the local runtime, under kills: what `make nightly` does first.

The rules this module lives by:

- The seed decides who dies where; the points are different ones, spread over the year, and each kill waits
  until the one before has struck. That a restore can be killed, too, needs exactly this order.
- Some points are never left out: in the middle of commits, during a restore, and between the moment when the
  metadata is durable and the moment when anyone hears of it.
- The history is judged by all checkers with the Python oracle, over records that are read without the
  engine. The comparison in Spark SQL comes on top and shares no line with either.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random
from typing import Final

from harness.chance import Chance
from harness.family import NOTHING_DECLARED, Records, load_family
from harness.history import ATTEMPT_STARTED, CHECKPOINT_COMPLETED, Cut, History, Row
from harness.oracle import RowCounts, count_rows
from harness.scenario import (
    COORDINATOR_POINTS,
    POINTS,
    Fault,
    FaultKind,
    InputRecord,
    Point,
    Scenario,
    Schedule,
)
from harness.systems.local import LocalRun
from harness.systems.spec import Spec
from harness.verdict import Verdict, judge

FAMILY: Final = "flights"
INTERVAL_RECORDS: Final = 10_000
BUFFER_RECORDS: Final = 250
"""So small that a checkpoint comes within a few hundred records of its time."""

KILLS: Final = 12
RESCALES: Final = (3, 2)
PARALLELISM: Final = 2
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
            share = (place + 0.3 + 0.4 * chance.unit()) / kills
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


@dataclass(frozen=True, slots=True)
class FlightsTrial:
    """What became of the year."""

    history: History
    verdict: Verdict
    planned: tuple[Fault, ...]
    files: tuple[Path, ...]
    """What was read, a split each."""
    output: Path
    """The folder of the committed rows."""
    records: int
    seconds: float
    """Of the job alone, deaths and restarts included."""

    @property
    def kills(self) -> int:
        """How many of the planned deaths came true."""
        return len(self.history.statistics.recoveries)

    @property
    def rescales(self) -> int:
        """How often an attempt began at another parallelism than the one before."""
        found = [
            payload["parallelism"] for _, kind, _, payload in self.history.events if kind == ATTEMPT_STARTED
        ]
        return sum(map(int.__ne__, found, found[1:]))

    @property
    def checkpoints(self) -> int:
        """How many completed."""
        return sum(kind == CHECKPOINT_COMPLETED for _, kind, _, _ in self.history.events)


def run_flights(
    files: Sequence[Path],
    folder: Path,
    seed: int,
    kills: int = KILLS,
    progress: Callable[[History], None] | None = None,
) -> FlightsTrial:
    """Run the year, a file for each airport, in a folder that holds nothing else, and judge it."""
    records = {path.stem: read_flights(path) for path in files}
    lengths = {split: len(flights) for split, flights in records.items()}
    total = sum(lengths.values())
    faults = planned_kills(seed, total, kills)
    spec = Spec(
        family=FAMILY,
        job_name=FAMILY,
        checkpoints=str(folder / "checkpoints"),
        output=str(folder / "rows"),
        events="",
        input="year",
        files=tuple(str(path) for path in files),
        rows="csv",
        source_parallelism=len(files),
        parallelism=PARALLELISM,
        interval_records=INTERVAL_RECORDS,
        buffer_records=BUFFER_RECORDS,
        faults=faults,
        in_turn=True,
    )
    run = LocalRun(spec, lengths, folder, read_rows, process_seconds=PROCESS_SECONDS, progress=progress)
    history = run.run()
    verdict = judge(scenario_of(seed, records, faults), history, YearOracle(records))
    return FlightsTrial(
        history,
        verdict,
        faults,
        tuple(files),
        Path(spec.output),
        total,
        history.statistics.milliseconds / 1000,
    )


class YearOracle:
    """The family's own oracle, asked once: each flight gives one row, so the rows before a cut come first."""

    def __init__(self, records: Records) -> None:
        expected = load_family(FAMILY).expected
        self._rows = {
            split: expected({split: flights}, NOTHING_DECLARED) for split, flights in records.items()
        }

    def rows(self) -> RowCounts:
        """Return the rows of the year."""
        return count_rows(chain.from_iterable(self._rows.values()))

    def rows_at(self, cut: Cut) -> RowCounts:
        """Return the rows of the flights before a cut."""
        return count_rows(
            chain.from_iterable([rows[: cut.get(split, 0)] for split, rows in self._rows.items()])
        )


def scenario_of(
    seed: int, records: dict[str, tuple[InputRecord, ...]], faults: tuple[Fault, ...]
) -> Scenario:
    """Return the year as checkers want to see it; nothing runs by this value."""
    return Scenario(
        family=FAMILY,
        generator_version=1,
        seed=seed,
        parameters={},
        records=records,
        parallelism=PARALLELISM,
        max_parallelism=128,
        source_parallelism=len(records),
        sink_parallelism=0,
        channel_capacity=8,
        checkpoint_interval_ms=1,
        checkpoint_timeout_ms=1,
        tolerable_failures=0,
        retained=1,
        restart_delay_ms=0,
        faults=faults,
        schedule=Schedule(),
        step_budget=1,
    )


def read_flights(path: Path) -> tuple[InputRecord, ...]:
    """Return the records of a file of the year, read without the engine."""
    with path.open(encoding="utf-8", newline="") as lines:
        return tuple(
            [
                (int(row["scheduled"]), (row["carrier"], _number(row["delay"]), row["cancelled"] == "true"))
                for row in csv.DictReader(lines)
            ]
        )


def _number(text: str) -> int | None:
    return int(text) if text else None


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a part file; a line that is no row is one that nothing explains."""
    with path.open(encoding="utf-8", newline="") as lines:
        return [_row(fields) for fields in csv.reader(lines)]


def _row(fields: list[str]) -> Row:
    try:
        carrier, origin, *numbers = fields
        return (carrier, origin, *map(int, numbers))
    except ValueError:
        return tuple(fields)
