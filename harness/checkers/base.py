"""What a checker is, and what it answers.

The rules this module lives by:

- A checker judges one property from a history, the scenario and the oracle, and from nothing else. It never
  imports the engine: the judge does not know the accused, so no mistake of the engine can hide in both.
- It must never accuse a sound engine. Where arrival order or a tolerated fault leaves a choice, every choice
  passes; each checker's text says which these are.
- A violation carries a witness, small enough to read, from which a person sees that it is one.
- The anomalies of a checker are a closed list of a few words: they are half of a signature, and the shrinker
  and the reports compare them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario

Signature: TypeAlias = tuple[str, str]
"""(property, anomaly), or (exception type, function): what makes two failures the same."""

WITNESS_ROWS = 5
"""A witness shows at most so many rows; it tells how many there are."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which a run broke a property."""

    property: str
    anomaly: str
    where: str
    """The step, transaction or task at which it can be seen."""
    witness: dict[str, Any] = field(default_factory=dict)
    """JSON-able."""

    def signature(self) -> Signature:
        """Return what this violation has in common with others of the same cause."""
        if "exception" in self.witness:
            return self.witness["exception"], self.witness["function"]
        return self.property, self.anomaly


class Checker(Protocol):
    """Judges one property."""

    @property
    def property(self) -> str:
        """Its name in verdicts and reports."""

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return the violations in a history; none if the property holds."""
