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

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from onceproof.harness.model.family import Family, FamilyOptions
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.systems.bytewax.flow_fault_points import ANSWERS, CAPABILITIES, MISSING, prepared
from onceproof.harness.systems.bytewax.flow_history_builder import BytewaxHistory
from onceproof.harness.systems.kit.driver_pool import DriverRun
from onceproof.harness.systems.kit.driver_process import Driver
from onceproof.harness.systems.kit.packages import folder_with
from onceproof.harness.systems.kit.run_history import HistoryBuilder
from onceproof.harness.systems.kit.system import DriverSystem, lengths_of
from onceproof.harness.systems.process.job_specification import Spec

NAME: Final = "bytewax"
PACKAGES: Final = ("bytewax==0.21.1",)
CHILD: Final = "onceproof.harness.systems.bytewax.flow_child"
LONGEST_PROCESS_SECONDS: Final = 60.0


class BytewaxSystem(DriverSystem):
    """Runs scenarios against Bytewax, one after another."""

    name = NAME
    option = "bytewax_flow"
    job_for = "flow for Bytewax"
    capabilities = CAPABILITIES
    missing = MISSING
    answers = ANSWERS

    def __init__(self, folder: Path | None = None, process_seconds: float = LONGEST_PROCESS_SECONDS) -> None:
        super().__init__(lambda: Driver(CHILD, str(folder_with(PACKAGES))), folder, process_seconds)

    @staticmethod
    def builder_in(options: FamilyOptions) -> Callable[[Any, Any], Any] | None:
        """Return the function that builds a family's flow, if it has one."""
        return options.bytewax_flow

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs, with its faults at points of a flow."""
        return prepared(scenario)

    def run_job(self, family: Family, scenario: Scenario, spec: Spec, folder: Path) -> History:
        """Run the flow of a scenario."""
        lengths = lengths_of(scenario)
        return FlowRun(
            spec, lengths, folder, drivers=self._drivers, process_seconds=self._process_seconds
        ).run()


@dataclass(slots=True)
class FlowRun(DriverRun):
    """One flow's run, from its first start to the end of its input."""

    def kills_driver(self, fault: Fault) -> bool:
        """Return False: the processes that die are forks of the driver."""
        return False

    def history_builder(self) -> HistoryBuilder:
        """Return the history builder for epochs."""
        spec = self.spec
        return BytewaxHistory(
            spec.faults, self.lengths, Path(spec.output), Path(spec.checkpoints), spec.parallelism
        )
