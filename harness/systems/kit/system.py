"""A system whose jobs run on drivers of a pool: what Structured Streaming, Bytewax and Quix have in common.

Rules:

- A family takes part with a function in its option ``jobs``, under the name of the system. A family without
  it is refused before a driver starts.
- A run has folders of its own. Faults that the system cannot take are counted as not applicable, beside
  those that the run itself refuses.
- A system says how a driver starts (``start``), how a scenario is prepared, and what turns the events of a
  run into its history (``history_of``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, FamilyError, options_of
from onceproof.harness.model.fault_answers import FaultAnswer, MissingPoints
from onceproof.harness.model.fault_kinds import FaultKind
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.system import applicable, refusal_of_servers
from onceproof.harness.systems.kit.drivers import Driver, DriverRun, Drivers
from onceproof.harness.systems.kit.incarnations import trial_folder
from onceproof.harness.systems.kit.run_history import HistoryBuilder
from onceproof.harness.systems.process.job_specification import Spec, spec_of


class DriverSystem(ABC):
    """Runs scenarios of families with a job for the system, one after another.

    Args:
        folder: where the folders of runs are made, and kept; None: temporary ones.
        process_seconds: how long a process may show nothing new; 0: ``longest_process_seconds``.
    """

    name: ClassVar[str]
    capabilities: ClassVar[frozenset[Capability]]
    missing: ClassVar[MissingPoints]
    answers: ClassVar[Mapping[FaultKind, FaultAnswer]]
    longest_process_seconds: ClassVar[float]
    is_forked: ClassVar[bool]
    """Whether the processes that faults kill are forks of a driver, which lives on."""

    def __init__(self, folder: Path | None = None, process_seconds: float = 0.0) -> None:
        self._drivers = Drivers(self.start)
        self._folder = folder
        self._process_seconds = process_seconds or self.longest_process_seconds

    @classmethod
    def refusal(cls, family: Family) -> str:
        """Return why it cannot run a family: without a job for it, or with servers; "" if it can."""
        if cls.name not in options_of(family).jobs:
            return f"the family has no job for {cls.name}"
        return refusal_of_servers(family)

    @staticmethod
    @abstractmethod
    def start() -> Driver:
        """Start a driver."""

    @abstractmethod
    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs, with its faults at points of the system."""

    @abstractmethod
    def history_of(self, family: Family, spec: Spec, lengths: Mapping[str, int]) -> HistoryBuilder:
        """Return what builds the history of a run; ``lengths`` are the numbers of records by split."""

    @contextmanager
    def ends(self, scenario: Scenario, spec: Spec) -> Iterator[Spec]:
        """Yield the specification of a run with what stands at its ends as long as it lasts."""
        yield spec

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """Run a scenario in new folders, and return its history; there is no trace."""
        if self.name not in options_of(family).jobs:
            raise FamilyError(
                f"family {family.name!r} has no job for {self.name}: give it a function job_of(records, io)"
                f" and options = FamilyOptions(jobs={{{self.name!r}: job_of}})"
            )
        lengths = lengths_of(scenario)
        with trial_folder(self._folder) as folder:
            faults, left = applicable(scenario.faults, self.capabilities, self.missing)
            planned = replace(spec_of(family, scenario, folder), faults=faults)
            with self.ends(scenario, planned) as spec:
                history = DriverRun(
                    spec,
                    lengths,
                    folder,
                    drivers=self._drivers,
                    process_seconds=self._process_seconds,
                    builder=self.history_of(family, spec, lengths),
                    is_forked=self.is_forked,
                ).run()
        # The run itself may have refused rescales.
        not_applicable = history.statistics.not_applicable
        for key, count in left.items():
            not_applicable[key] = not_applicable.get(key, 0) + count
        return history

    def close(self) -> None:
        """End all idle drivers; a later run starts new ones."""
        self._drivers.close()


def lengths_of(scenario: Scenario) -> dict[str, int]:
    """Return the numbers of records by split."""
    return {split: len(records) for split, records in scenario.records.items()}
