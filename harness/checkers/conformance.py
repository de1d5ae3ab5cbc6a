"""conformance: each machine of the engine answers each event as its specification says.

The specifications in `harness/specifications/` say what barrier handlers, valves, windows and the job
master must answer. The simulation replays a share of its runs through them, and records the first answer
that differs.

The rules this checker lives by:

- What follows the first deviation is a consequence of it: a run has one violation at most.
- Only the simulation watches machines, so only its histories have deviations.

Anomaly: another answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onceproof.harness.checkers.checker import Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import DEVIATED, History
from onceproof.harness.model.scenario import Scenario

OTHER_ANSWER: Final = "another answer"


class Conformance:
    """Reports the first answer of a machine that is not as specified."""

    property = "conformance"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return a violation for the first deviation of the run."""
        for step, kind, machine, payload in reversed(history.events):
            if kind == DEVIATED:
                witness = {"step": step, "machine": machine, **payload}
                return [Violation(self.property, OTHER_ANSWER, f"{machine}, step {step}", witness)]
        return []
