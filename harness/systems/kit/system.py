"""A system whose jobs run on drivers of a pool: what Structured Streaming, Bytewax and Quix have in common.

Rules:

- A family takes part with an option of its own, a function that builds its job for the system. A family
  without it is refused before a driver starts.
- A run has folders of its own. Faults that the system cannot take are counted as not applicable, beside those
  that the run itself refuses.
- Subclasses give the run of one job (``driver_run``), and what it needs around it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, FamilyError, FamilyOptions, options_of
from onceproof.harness.model.fault_answers import MissingPoints
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.system import applicable, refusal_of_servers
from onceproof.harness.systems.kit.driver_pool import Drivers
from onceproof.harness.systems.kit.driver_process import Driver
from onceproof.harness.systems.kit.incarnations import trial_folder
from onceproof.harness.systems.process.job_specification import Spec, spec_of


class DriverSystem(ABC):
    """Runs scenarios of families with an option for the system, one after another.

    Args:
        start: starts a driver.
        folder: where the folders of runs are made, and kept; None: temporary ones.
        process_seconds: the longest time that a process may take.
    """

    option: ClassVar[str]
    """The option of a family that takes part."""
    job_for: ClassVar[str]
    """What its function builds, and for what: "flow for Bytewax"."""
    capabilities: ClassVar[frozenset[Capability]]
    missing: ClassVar[MissingPoints]

    def __init__(self, start: Callable[[], Driver], folder: Path | None, process_seconds: float) -> None:
        self._drivers = Drivers(start)
        self._folder = folder
        self._process_seconds = process_seconds

    @staticmethod
    @abstractmethod
    def builder_in(options: FamilyOptions) -> Callable[[Any, Any], Any] | None:
        """Return the function in a family's options that builds its job; None: it takes no part."""

    @classmethod
    def refusal(cls, family: Family) -> str:
        """Return why it cannot run a family: without the option, or with servers; "" if it can."""
        if cls.builder_in(options_of(family)) is None:
            return f"the family has no {cls.option}"
        return refusal_of_servers(family)

    @abstractmethod
    def run_job(self, family: Family, scenario: Scenario, spec: Spec, folder: Path) -> History:
        """Run the job of a scenario in a new folder, and return its history."""

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """Run a scenario in new folders, and return its history; there is no trace."""
        if self.builder_in(options_of(family)) is None:
            raise FamilyError(
                f"family {family.name!r} has no {self.job_for}: give it a function"
                f" {self.option}(records, io) and options = FamilyOptions({self.option}={self.option})"
            )
        with trial_folder(self._folder) as folder:
            faults, left = applicable(scenario.faults, self.capabilities, self.missing)
            spec = replace(spec_of(family, scenario, folder), faults=faults)
            history = self.run_job(family, scenario, spec, folder)
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
