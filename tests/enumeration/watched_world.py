"""Notes each place of a simulated run at which a fault could strike.

The observer changes nothing: the run is step by step the same as without it.
"""

from __future__ import annotations

from collections import Counter
from typing import cast

from onceproof.harness.model.family import Family
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.systems.simulation.fault_injection import PointObserver
from onceproof.harness.systems.simulation.world import World
from tests.enumeration.space import Passage


class PassageRecorder(PointObserver):
    """Records the passages of a run, and at which of them its faults struck."""

    def __init__(self) -> None:
        self.passages: list[Passage] = []
        self.struck: list[tuple[Fault, int]] = []
        """Each fired fault with the index of its passage."""
        self._counts: Counter[tuple[bool, str, str, int]] = Counter()

    def point_passed(self, point: str, task: str, checkpoint_id: int) -> None:
        """Record a place for a kill."""
        self._add(True, point, task, checkpoint_id)

    def io_begins(self, point: str, task: str, checkpoint_id: int) -> None:
        """Record a place for a fault of a message, write or commit."""
        self._add(False, point, task, checkpoint_id)

    def fault_fired(self, fault: Fault, task: str) -> None:
        """Record that a fault has struck at the latest passage."""
        self.struck.append((fault, len(self.passages) - 1))

    def _add(self, is_pass: bool, point: str, task: str, checkpoint_id: int) -> None:
        key = (is_pass, point, task, checkpoint_id)
        self._counts[key] += 1
        self.passages.append(Passage(is_pass, cast(Point, point), task, checkpoint_id, self._counts[key]))


def watched_run(family: Family, scenario: Scenario) -> tuple[History, list[Passage], list[tuple[Fault, int]]]:
    """Run a scenario; return its history, its passages, and (fault, passage index) of each fired fault."""
    world = World(family, scenario)
    recorder = world.faults.observer = PassageRecorder()
    world.faults.watch_everything()
    history = world.run()
    return history, recorder.passages, recorder.struck
