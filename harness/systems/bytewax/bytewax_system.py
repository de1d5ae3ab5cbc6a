"""Bytewax as a system under test: a family's flow, its recovery store, real SIGKILLs.

The rules this module lives by:

- The run tests Bytewax, the flow and its sink; the engine is not involved. `flow_fault_points.py` maps the
  faults, `flow_history_builder.py` defines checkpoints and transactions.
- Bytewax is in an environment of its own in the user's cache, of the version that is named here. Its packages
  stand behind the harness's own, so a family finds in a flow whatever it finds elsewhere.
- One driver process is kept over scenarios. It has imported Bytewax, and forks the processes of a flow, which
  run until they are killed or the input ends.
- A family without ``bytewax_flow`` is refused before a driver starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from onceproof.harness.model.family import Family, FamilyError, options_of
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.model.system import applicable, refusal_of_servers
from onceproof.harness.systems.bytewax.flow_fault_points import ANSWERS, CAPABILITIES, MISSING, prepared
from onceproof.harness.systems.bytewax.flow_history_builder import FlowHistoryBuilder
from onceproof.harness.systems.process.driver_pool import DriverRun, Drivers
from onceproof.harness.systems.process.driver_process import Driver
from onceproof.harness.systems.process.incarnations import trial_folder
from onceproof.harness.systems.process.job_specification import spec_of
from onceproof.harness.systems.program.program_packages import folder_with
from onceproof.harness.systems.recording.history_builder import HistoryBuilder

NAME: Final = "bytewax"
PACKAGES: Final = ("bytewax==0.21.1",)
CHILD: Final = "onceproof.harness.systems.bytewax.flow_child"
LONGEST_PROCESS_SECONDS: Final = 60.0


class BytewaxSystem:
    """Runs scenarios against Bytewax, one after another."""

    name = NAME
    capabilities = CAPABILITIES
    missing = MISSING
    answers = ANSWERS

    def __init__(self, folder: Path | None = None, process_seconds: float = LONGEST_PROCESS_SECONDS) -> None:
        self._drivers = Drivers(lambda: Driver(CHILD, str(folder_with(PACKAGES))))
        self._folder = folder
        self._process_seconds = process_seconds

    @staticmethod
    def refusal(family: Family) -> str:
        """Return why it cannot run a family: without a flow, or with servers or a table; "" if it can."""
        options = options_of(family)
        if options.bytewax_flow is None:
            return "the family has no bytewax_flow"
        return refusal_of_servers(family)

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs, with its faults at points of a flow."""
        return prepared(scenario)

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """Run a scenario in new folders, and return its history; there is no trace."""
        if options_of(family).bytewax_flow is None:
            raise FamilyError(
                f"family {family.name!r} has no flow for Bytewax: give it a function"
                " bytewax_flow(records, io) and options = FamilyOptions(bytewax_flow=bytewax_flow)"
            )
        with trial_folder(self._folder) as folder:
            faults, left = applicable(scenario.faults, CAPABILITIES, MISSING)
            spec = msgspec.structs.replace(spec_of(family, scenario, folder), faults=faults)
            lengths = {split: len(records) for split, records in scenario.records.items()}
            run = FlowRun(spec, lengths, folder, drivers=self._drivers, process_seconds=self._process_seconds)
            history = run.run()
        history.statistics.not_applicable.update(left)
        return history

    def close(self) -> None:
        """End the driver; a later run starts a new one."""
        self._drivers.close()


@dataclass(slots=True)
class FlowRun(DriverRun):
    """One flow's run, from its first start to the end of its input."""

    def kills_driver(self, fault: Fault) -> bool:
        """Return False: the processes that die are forks of the driver."""
        return False

    def history_builder(self) -> HistoryBuilder:
        """Return the history builder for epochs."""
        spec = self.spec
        return FlowHistoryBuilder(
            spec.faults, self.lengths, Path(spec.output), Path(spec.checkpoints), spec.parallelism
        )
