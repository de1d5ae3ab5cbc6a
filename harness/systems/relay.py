"""The relay: one job runs on the local runtime and on Spark in turn, each restoring the other's checkpoint.

The rules this module lives by:

- An incarnation is a leg. Odd legs are processes of the local runtime, even legs are drivers on Spark. They
  share the same folders and nothing else: when one dies, the next restores its last completed checkpoint, at
  the parallelism that the kill asks for.
- The faults strike in turn: each waits until the one before it has struck. So the event logs show between two
  legs how far the faults have come, although the local runtime counts passes in its process and Spark counts
  them on a fault board.
- The state backend, the kills and the parallelism of each leg are drawn from the scenario's seed. The faults
  that the generator planned are not used, because many of them exist on one of the two runtimes only.
- The checkers judge the history like that of any other system.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace

from onceproof.engine.runtime.java import find_java
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.chance import Chance, derived_seed
from onceproof.harness.model.family import Family
from onceproof.harness.model.fault_answers import MissingPoints, answers
from onceproof.harness.model.fault_kinds import COORDINATOR_POINTS, FaultKind, Point
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault, Scenario, StateBackend
from onceproof.harness.model.step_limits import STEPS_PER_RECORD
from onceproof.harness.model.system import applicable, refusal_of_servers
from onceproof.harness.systems.kit.drivers import Drivers
from onceproof.harness.systems.kit.incarnations import Ending, JobRun, trial_folder
from onceproof.harness.systems.kit.run_history import HistoryBuilder
from onceproof.harness.systems.kit.system import lengths_of
from onceproof.harness.systems.local.system import LocalRun
from onceproof.harness.systems.process.fault_board import BoardFile
from onceproof.harness.systems.process.job_specification import read_spec, spec_of
from onceproof.harness.systems.spark.history import SparkHistory
from onceproof.harness.systems.spark.kills import WorkerKills
from onceproof.harness.systems.spark.system import SparkRun, spark_drivers

NAME: Final = "relay"

CAPABILITIES: Final = frozenset(
    {
        Capability.KILL_TASK,
        Capability.KILL_ALL,
        Capability.KILL_PROCESS,
        Capability.RESCALE,
        Capability.CHECKPOINTS_SEEN,
        Capability.INPUT_SEEN,
        Capability.ENGINE,
    }
)

TASK_POINTS: Final[tuple[Point, ...]] = ("pre_committed", "snapshotted", "uploaded", "element")
"""The points at which a fault can kill a task on both runtimes."""
PROCESS_POINTS: Final[tuple[Point, ...]] = (
    "triggered",
    "barrier_received",
    "aligned",
    "pre_committed",
    "snapshotted",
    "uploaded",
    "acknowledged",
    "metadata_written",
    "completed",
    "notified",
    "committing",
    "committed",
    "restoring",
    "restored",
    "element",
)
"""The points at which a fault can kill the process of a leg: both runtimes pass them before end of data."""
MISSING: Final[MissingPoints] = {
    (row.kind, point): "Only one of the two runtimes comes to this point, or neither does in time."
    for row in FAULTS.values()
    if row.kills_tasks or row.strikes == "process"
    for point in row.points
    if point not in (TASK_POINTS if row.kills_tasks else PROCESS_POINTS)
}
"""Kinds of kills at points that not both runtimes pass in time, and why."""

_ONLY_DEATHS: Final = "A relay is about the change of runtimes: only deaths are planned for it."
ANSWERS: Final = answers(
    CAPABILITIES,
    {"tasks": WorkerKills.strike, "process": WorkerKills.strike},
    MISSING,
    dict.fromkeys(Capability, _ONLY_DEATHS),
)

BACKENDS: Final[tuple[tuple[StateBackend, bool], ...]] = (
    ("hashmap", False),
    ("rocksdb", False),
    ("rocksdb", True),
)
"""State backends, and whether their checkpoints are incremental."""
LEGS: Final = (4, 5)
"""The least and the largest number of planned legs; a relay whose input ends early has fewer."""
CHECKPOINTS_OF_LEG: Final = 3
"""How many checkpoints a leg completes, about; the checkpoint interval follows from it."""
MOST_PASSES: Final = 12
"""The largest drawn occurrence of a point that each task passes in each checkpoint."""
MOST_PASSES_OF_COORDINATOR: Final = 3
"""The largest drawn occurrence of a point that the coordinator passes, once in each checkpoint."""
MOST_SUBTASKS: Final = 4
DEATH_OF_TASK: Final = 0.4
"""The probability that a leg has a kill of tasks before the kill of its process."""


class RelaySystem:
    """Runs scenarios as relays, one after another."""

    name = NAME
    capabilities = CAPABILITIES
    missing = MISSING
    answers = ANSWERS
    refusal = staticmethod(refusal_of_servers)

    def __init__(self, folder: Path | None = None, drivers: Drivers | None = None) -> None:
        # A missing Java is an error here, not in each driver.
        find_java(os.environ)
        self._drivers = drivers or spark_drivers()
        self._folder = folder

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario with drawn kills and settings; one without a seed is returned unchanged."""
        if scenario.seed is None:
            return scenario
        chance = Chance(Random(derived_seed("relay", scenario.seed)))
        backend, incremental = chance.choice(BACKENDS)
        legs = chance.integer(*LEGS)
        interval = max(1, scenario.record_count() // (CHECKPOINTS_OF_LEG * legs))
        return replace(
            scenario,
            state_backend=backend,
            incremental=incremental,
            checkpoint_interval_ms=STEPS_PER_RECORD * interval,
            restart_delay_ms=1,
            faults=tuple(_faults(scenario, legs, interval, chance)),
        )

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """Run a scenario in new folders, and return its history; there is no trace."""
        with trial_folder(self._folder) as folder:
            faults, left = applicable(scenario.faults, CAPABILITIES, MISSING)
            spec = replace(spec_of(family, scenario, folder), faults=faults, in_turn=True)
            lengths = lengths_of(scenario)
            history = RelayRun(spec, lengths, folder, drivers=self._drivers).run()
        history.statistics.not_applicable = left
        return history

    def close(self) -> None:
        """End all idle drivers; a later run starts new ones."""
        self._drivers.close()


def _faults(scenario: Scenario, legs: int, interval: int, chance: Chance) -> Sequence[Fault]:
    """Return the kills of all legs but the last: of the process, and perhaps of tasks before it.

    ``interval`` is the checkpoint interval in records.
    """
    faults: list[Fault] = []
    parallelism = scenario.parallelism
    for _ in range(legs - 1):
        if chance.chance(DEATH_OF_TASK):
            kind: FaultKind = "kill_task" if chance.chance(0.5) else "kill_all"
            faults.append(Fault(kind, chance.choice(TASK_POINTS)))
        point = chance.choice(PROCESS_POINTS)
        others = [
            number
            for number in range(1, min(MOST_SUBTASKS, scenario.max_parallelism) + 1)
            if number != parallelism
        ]
        parallelism = chance.choice(others) if others else parallelism
        faults.append(
            Fault(
                "kill_process",
                point,
                occurrence=chance.integer(1, _passes(point, interval)),
                rescale_to=parallelism,
            )
        )
    return faults


def _passes(point: Point, interval: int) -> int:
    """Return the largest occurrence to draw for a point: a leg reaches it within a few checkpoints."""
    if point in COORDINATOR_POINTS:
        return MOST_PASSES_OF_COORDINATOR
    if point == "element":
        return 2 * CHECKPOINTS_OF_LEG * interval
    # The first restore of a leg: a process that dies there has processed no record.
    return 1 if point in ("restoring", "restored") else MOST_PASSES


@dataclass(slots=True)
class SparkLegs(SparkRun):
    """The legs of a relay on Spark."""

    def needs_another_driver(self) -> bool:
        """Return whether another leg on Spark follows, whose driver can start now: the leg after the next."""
        return self.deaths_to_come() > 1


@dataclass(slots=True)
class RelayRun(JobRun):
    """One job whose incarnations run on the two runtimes in turn."""

    drivers: Drivers = field(kw_only=True)
    _local: LocalRun = field(init=False)
    _spark: SparkLegs = field(init=False)

    def history_builder(self) -> HistoryBuilder:
        """Return the history builder of Spark, which reads the event logs of local processes as well."""
        spec = self.spec
        output = Path(spec.output)
        return SparkHistory(spec.faults, self.lengths, output, spec.suffix, self.read_rows, spec.parallelism)

    def run(self) -> History:
        """Run leg after leg until the job has ended.

        The counts of protocol points are summed from the local processes' logs and the fault board of Spark.
        """
        board = self.folder / "faults.json"
        self.spec = msgspec.structs.replace(self.spec, board=str(board))
        self._local = LocalRun(self.spec, self.lengths, self.folder)
        self._spark = SparkLegs(self.spec, self.lengths, self.folder, drivers=self.drivers)
        # The driver starts now, so that it is ready when the first leg is over.
        self.drivers.prepare()
        # Not super(): dataclass(slots=True) makes a new class, and super() would refer to the old one.
        history = JobRun.run(self)
        totals = history.statistics.points
        for point, count in BoardFile(board).read().points.items():
            totals[point] = totals.get(point, 0) + count
        return history

    def live(self, number: int, path: Path) -> Ending:
        """Run one leg to its death, or to the end of the job."""
        leg = self._local if number % 2 else self._spark
        if leg is self._spark:
            with BoardFile(self.spec.board).held() as state:
                state.waiting = read_spec(path).waiting
        waited_before = leg.waited_seconds
        ending = leg.live(number, path)
        self.waited_seconds += leg.waited_seconds - waited_before
        return ending
