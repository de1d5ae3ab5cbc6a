"""Bytewax as a system under test: a family's flow, its recovery store, real SIGKILLs.

Rules:

- The run tests Bytewax, the flow and its sink; the engine is not involved. `points.py` maps the faults,
  `history.py` defines checkpoints and transactions, `run.py` runs a flow.
- Bytewax is in an environment of its own in the user's cache, of the version that is named here. Its packages
  stand behind the harness's own, so a family finds in a flow whatever it finds elsewhere.
- One driver process is kept over scenarios. It has imported Bytewax, and forks the processes of a flow, which
  run until they are killed or the input ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onceproof.harness.model.family import Family
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.bytewax import points
from onceproof.harness.systems.bytewax.history import BytewaxHistory
from onceproof.harness.systems.kit.drivers import Driver
from onceproof.harness.systems.kit.packages import folder_with
from onceproof.harness.systems.kit.system import DriverSystem
from onceproof.harness.systems.process.job_specification import Spec

PACKAGES: Final = ("bytewax==0.21.1",)
PROGRAM: Final = "onceproof.harness.systems.bytewax.run"


class BytewaxSystem(DriverSystem):
    """Runs scenarios against Bytewax, one after another."""

    name = "bytewax"
    capabilities = points.CAPABILITIES
    missing = points.MISSING
    answers = points.ANSWERS
    longest_process_seconds = 60.0
    is_forked = True

    @staticmethod
    def start() -> Driver:
        """Start a driver, which has imported Bytewax."""
        return Driver(PROGRAM, str(folder_with(PACKAGES)))

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs, with its faults at points of a flow."""
        return points.prepared(scenario)

    def history_of(self, family: Family, spec: Spec, lengths: Mapping[str, int]) -> BytewaxHistory:
        """Return what builds a history of epochs."""
        return BytewaxHistory(spec, lengths)
