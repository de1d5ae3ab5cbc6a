"""The simulation with a meter for the cost of barrier alignment.

The rules this module lives by:

- The meter observes protocol points that every run passes. So a measured run is the same, step for step.
"""

from __future__ import annotations

from onceproof.engine.protocol_points import ALIGNED, BARRIER_RECEIVED
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family
from onceproof.harness.model.history import History, Statistics
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.simulation.agenda import Clock
from onceproof.harness.systems.simulation.fault_injection import PointObserver
from onceproof.harness.systems.simulation.schedule import Chooser
from onceproof.harness.systems.simulation.simulated_system import CAPABILITIES, SimulatedSystem
from onceproof.harness.systems.simulation.tracing import NO_TRACER, Tracer
from onceproof.harness.systems.simulation.world import World


class AlignmentMeter(PointObserver):
    """Adds up for how many steps barriers blocked channels."""

    def __init__(self, statistics: Statistics, clock: Clock) -> None:
        self._statistics = statistics
        self._clock = clock
        self._barriers: dict[tuple[str, int], list[int]] = {}
        """By task and checkpoint, the steps at which the barriers of an alignment came."""
        statistics.alignment_steps = 0

    def point_passed(self, point: str, task: str, checkpoint_id: int) -> None:
        """Add up an alignment that comes to its end; one that a death cuts off does not count."""
        if point == BARRIER_RECEIVED:
            self._barriers.setdefault((task, checkpoint_id), []).append(self._clock.step)
        elif point == ALIGNED:
            step = self._clock.step
            waited = sum(step - since for since in self._barriers.pop((task, checkpoint_id), ()))
            self._statistics.alignment_steps = (self._statistics.alignment_steps or 0) + waited

    def process_died(self) -> None:
        """Forget the alignments; the next process may use the id of a checkpoint again."""
        self._barriers.clear()


def measured_world(
    family: Family, scenario: Scenario, chooser: Chooser | None = None, tracer: Tracer = NO_TRACER
) -> World:
    """Return a world whose history will say for how many steps barriers blocked channels.

    Only aligned barriers are measured: others block no channel, or only until they overtake.
    """
    world = World(family, scenario, chooser, tracer)
    if scenario.checkpoint_mode.barriers == "aligned":
        world.faults.observer = AlignmentMeter(world.history.statistics, world.clock)
    return world


class MeasuredSystem(SimulatedSystem):
    """The simulation as a system on trial, measured.

    Each scenario runs once: it is not repeated, and its checkpoints are not restored.
    """

    capabilities = CAPABILITIES - {Capability.CONTINUATIONS, Capability.DETERMINISM}

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        """Run a scenario once; the history has more statistics than without the meter."""
        return measured_world(family, scenario, tracer=Tracer() if trace else NO_TRACER).run()
