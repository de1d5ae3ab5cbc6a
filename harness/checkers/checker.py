"""The interface of a checker, and the violations that it returns.

The rules this module lives by:

- A checker judges one property from a history, the scenario and the oracle, and from nothing else. It never
  imports the engine, so a mistake in the engine's code cannot appear in the checker as well.
- A checker never reports a correct engine. Where arrival order or a tolerated fault allows several results,
  all of them pass; the docstring of each checker lists these cases.
- A violation carries a witness: a few rows or numbers from which a person can verify it.
- The anomalies of a checker are a closed list of short names. They are half of a signature, and the shrinker
  and the reports compare them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario

Signature: TypeAlias = tuple[str, str]
"""(property, anomaly), or (exception type, function). Failures with equal signatures count as the same."""

RunForSignature: TypeAlias = Callable[[Scenario], Signature | None]
"""Runs a scenario and returns the signature of its failure, or None if it passes."""

WITNESS_ROWS = 5
"""The most rows that a witness shows; their full number stands beside them."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of a property by a run."""

    property: str
    anomaly: str
    where: str
    """The step, transaction or task at which it shows, as text."""
    witness: dict[str, Any] = field(default_factory=dict)
    """The evidence, in values that JSON can hold. An exception has the keys ``exception`` and
    ``function``."""

    def signature(self) -> Signature:
        """Return (property, anomaly), or (exception type, function) where a machine raised."""
        if "exception" in self.witness:
            return self.witness["exception"], self.witness["function"]
        return self.property, self.anomaly


class Checker(Protocol):
    """A checker judges the history of a run by one property."""

    @property
    def property(self) -> str:
        """The name of the property in verdicts and reports."""

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return the violations of the property in a history.

        Args:
            scenario: the scenario that was run.
            history: its visible events.
            oracle: the rows that the scenario should commit.

        Returns:
            The violations, the most telling first; empty if the property holds.
        """
