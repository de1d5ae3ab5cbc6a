"""The simulation with a meter: what a run costs beyond what every run tells.

The rules it lives by:

- What is measured is seen from the protocol points that are passed anyway. So the run is the same, step for
  step, and runs that nobody measures pay nothing.
"""

from __future__ import annotations

from onceproof.engine.protocol_points import ALIGNED, BARRIER_RECEIVED
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.simulation.schedule import Chooser
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.systems.simulation.tracing import NO_TRACER, Tracer
from onceproof.harness.systems.simulation.world import World


class MeasuringWorld(World):
    """A world that adds up for how long channels were blocked by barriers."""

    __slots__ = ("_barriers", "_measures")

    def __init__(
        self, family: Family, scenario: Scenario, chooser: Chooser | None = None, tracer: Tracer = NO_TRACER
    ) -> None:
        self._barriers: dict[tuple[str, int], list[int]] = {}
        """By task and checkpoint, the steps at which the barriers of an alignment came."""
        super().__init__(family, scenario, chooser, tracer)
        self._measures = scenario.checkpoint_mode.barriers == "aligned"
        """Other barriers block none of the channels, or only until they overtake."""
        if self._measures:
            self.history.statistics.alignment_steps = 0

    def probe(self, point: str, task: str, checkpoint_id: int) -> None:
        """As any world; an alignment that comes to its end is added up, one that a death cuts off is not."""
        if not self._measures:
            pass
        elif point == BARRIER_RECEIVED:
            self._barriers.setdefault((task, checkpoint_id), []).append(self.clock.step)
        elif point == ALIGNED:
            step = self.clock.step
            waited = sum(step - since for since in self._barriers.pop((task, checkpoint_id), ()))
            statistics = self.history.statistics
            statistics.alignment_steps = (statistics.alignment_steps or 0) + waited
        super().probe(point, task, checkpoint_id)

    def process_died(self) -> None:
        """As any world; the next process may give a checkpoint's number again."""
        self._barriers.clear()
        super().process_died()


class MeasuredSystem(SimulatedSystem):
    """The simulation as a system on trial, measured.

    A run says what it costs once: nothing is run again or gone on from, which would take many times as long.
    """

    capabilities = frozenset(Capability) - {Capability.CONTINUATIONS, Capability.DETERMINISM}

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """One run; the same as without the meter, with more statistics."""
        return MeasuringWorld(family, scenario, tracer=Tracer() if trace else NO_TRACER).run()
