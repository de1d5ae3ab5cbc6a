"""A simulated world that notes each place of its run at which a fault could strike.

It looks on: the run is step by step the same as in the world without.
"""

from __future__ import annotations

from collections import Counter
from typing import cast

from onceproof.harness.model.family import Family
from onceproof.harness.model.faults import POINTS, Point
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.enumeration.space import Passage


class WatchedWorld(World):
    """Notes the passages of a run, and at which of them its faults struck."""

    __slots__ = ("_counts", "passages", "struck")

    def __init__(self, family: Family, scenario: Scenario) -> None:
        super().__init__(family, scenario)
        self.passages: list[Passage] = []
        self.struck: list[tuple[Fault, int]] = []
        """Each fault with the index of its passage."""
        self._counts: Counter[tuple[bool, str, str, int]] = Counter()
        self.watches_elements = True
        # Whoever is about to make a message, a write or a commit asks here first.
        self.other_faults = {point: [] for point in POINTS}

    def probe(self, point: str, task: str, checkpoint_id: int) -> None:
        """Note it first: who is killed here does not come back."""
        self._note(True, point, task, checkpoint_id)
        super().probe(point, task, checkpoint_id)

    def fault_at(self, point: str, task: str, checkpoint_id: int) -> Fault | None:
        """Note it."""
        self._note(False, point, task, checkpoint_id)
        return super().fault_at(point, task, checkpoint_id)

    def _note(self, is_kill: bool, point: str, task: str, checkpoint_id: int) -> None:
        key = (is_kill, point, task, checkpoint_id)
        self._counts[key] += 1
        self.passages.append(Passage(is_kill, cast(Point, point), task, checkpoint_id, self._counts[key]))

    def fired(self, fault: Fault, task: str) -> None:
        self.struck.append((fault, len(self.passages) - 1))
        super().fired(fault, task)


def watched_run(family: Family, scenario: Scenario) -> tuple[History, list[Passage], list[tuple[Fault, int]]]:
    """Run a scenario; return its history, its passages, and each fault that struck with its passage."""
    world = WatchedWorld(family, scenario)
    history = world.run()
    return history, world.passages, world.struck
