"""The engine on Spark as a system under test: drivers, their Java and workers, real files, real SIGKILLs.

Rules:

- A driver process is one incarnation (`incarnations.py`). It runs many scenarios until it is killed. If a
  scenario will kill it, the next driver starts beforehand, because a start takes seconds.
- A kill of a task kills the Python worker that runs it; a kill of all tasks kills all such workers. Spark
  runs their tasks in other workers, and the job continues in the same attempt. A kill of the process kills
  the driver with all its child processes.
- Tasks live for one epoch, the records between two barriers, so some faults cannot occur (``MISSING``). They
  are counted as inapplicable.
- The schedule, steps and time-outs of a scenario do not apply. A checkpoint interval in steps is converted to
  records, as on the local runtime.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from onceproof.engine.runtime.java import find_java
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.fault_kinds import CLIENT_ANSWERS, Means
from onceproof.harness.model.fault_means import with_means
from onceproof.harness.model.history import History
from onceproof.harness.model.mutants import find_mutant
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.model.system import applicable, refusal_of_servers
from onceproof.harness.systems.kit.drivers import (
    JAVA_DIED,
    Driver,
    DriverRun,
    Drivers,
)
from onceproof.harness.systems.kit.incarnations import trial_folder
from onceproof.harness.systems.kit.run_history import HistoryBuilder
from onceproof.harness.systems.kit.system import lengths_of
from onceproof.harness.systems.process.job_specification import spec_of
from onceproof.harness.systems.spark.cluster import (
    CLUSTER_MASTER,
    LOCAL_MASTER,
    STANDALONE_MASTER,
    YARN_MASTER,
    yarn_program,
)
from onceproof.harness.systems.spark.history import SparkHistory, tears_metadata
from onceproof.harness.systems.spark.points import (
    ANSWERS,
    CAPABILITIES,
    CLUSTER_MEANS,
    LOCAL_MEANS,
    MISSING,
    STANDALONE_MEANS,
    UNFENCED,
)

NAME: Final = "spark"
CHILD: Final = "onceproof.harness.systems.spark.run"
CLUSTER_NAME: Final = "spark-cluster"
STANDALONE_NAME: Final = "spark-standalone"
YARN_NAME: Final = "spark-yarn"
LONGEST_PROCESS_SECONDS: Final = 120.0


class SparkSystem:
    """Runs scenarios against the engine on Spark, one after another."""

    name: str = NAME
    master: str = LOCAL_MASTER
    """Spark master of the driver's session."""
    capabilities = CAPABILITIES
    missing = MISSING
    answers = ANSWERS
    refusal = staticmethod(refusal_of_servers)
    means: frozenset[Means] = LOCAL_MEANS
    """Means of faults that this system supports, besides the plain one."""

    def __init__(
        self,
        folder: Path | None = None,
        mutant: str = "",
        mutant_file: str = "",
        process_seconds: float = LONGEST_PROCESS_SECONDS,
        drivers: Drivers | None = None,
    ) -> None:
        # A missing program or an unknown mutant is an error here, not in each driver.
        self.require_programs()
        if mutant:
            find_mutant(mutant, mutant_file)
        self.drivers = drivers or spark_drivers(mutant, mutant_file, self.master)
        """The drivers of this system, or of several systems with the same planted bug."""
        self._folder = folder
        self._process_seconds = process_seconds

    @staticmethod
    def require_programs() -> None:
        """Find what the drivers start. Raises JavaMissing."""
        find_java(os.environ)

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """Run a scenario in new folders, and return its history; there is no trace."""
        with trial_folder(self._folder) as folder:
            faults, left = applicable(scenario.faults, CAPABILITIES, MISSING)
            means = self.means - UNFENCED if options_of(family).table_keys else self.means
            means |= frozenset(CLIENT_ANSWERS)
            for fault in faults:
                if fault.means and fault.means not in means:
                    left[fault.kind, fault.point] = left.get((fault.kind, fault.point), 0) + 1
            faults = tuple([fault for fault in faults if not fault.means or fault.means in means])
            spec = msgspec.structs.replace(spec_of(family, scenario, folder), faults=faults)
            lengths = lengths_of(scenario)
            run = SparkRun(spec, lengths, folder, drivers=self.drivers, process_seconds=self._process_seconds)
            history = run.run()
        history.statistics.not_applicable = left
        return history

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs: its seed decides which faults get other means."""
        return with_means(scenario, self.means)

    def close(self) -> None:
        """End all idle drivers; a later run starts new ones."""
        self.drivers.close()


class SparkClusterSystem(SparkSystem):
    """The engine on Spark with executors in separate processes, each a Java with its own workers."""

    name = CLUSTER_NAME
    master = CLUSTER_MASTER
    means = CLUSTER_MEANS


class SparkStandaloneSystem(SparkSystem):
    """The engine on a standalone Spark cluster of two hosts, whose speculation runs slow tasks twice."""

    name = STANDALONE_NAME
    master = STANDALONE_MASTER
    means = STANDALONE_MEANS


class SparkYarnSystem(SparkSystem):
    """The engine on Spark with two executors in containers of YARN, which replaces those that die."""

    name = YARN_NAME
    master = YARN_MASTER
    means = CLUSTER_MEANS

    @staticmethod
    def require_programs() -> None:
        """Find YARN's jars and Java, and fetch the jars if need be. Raises ServiceError."""
        yarn_program()


def spark_drivers(mutant: str = "", mutant_file: str = "", master: str = LOCAL_MASTER) -> Drivers:
    """Return a pool of drivers of the engine on Spark, with a planted bug or none."""
    return Drivers(lambda: Driver(CHILD, mutant, mutant_file, master))


@dataclass(slots=True)
class SparkRun(DriverRun):
    """The run of one job on Spark."""

    deaths: ClassVar[frozenset[int]] = frozenset({-signal.SIGKILL, JAVA_DIED})

    process_seconds: float = field(default=LONGEST_PROCESS_SECONDS, kw_only=True)

    def history_builder(self) -> HistoryBuilder:
        """Return the history builder for drivers and workers."""
        spec = self.spec
        output = Path(spec.output)
        return SparkHistory(spec.faults, self.lengths, output, spec.suffix, self.read_rows, spec.parallelism)

    def kills_driver(self, fault: Fault) -> bool:
        """Return whether the driver dies of a fault; it is also the process that writes metadata."""
        # Not super(): dataclass(slots=True) makes a new class, and super() would refer to the old one.
        return DriverRun.kills_driver(self, fault) or tears_metadata(fault)
