"""The verdict on one run: the violations that all checkers found, and the signature of the failure.

The rules this module lives by:

- Every checker runs on every history, even after a violation: several violations explain more than one.
- The signature is that of the first violation in the order of CHECKERS. The shrinker keeps it, reports group
  by it, and a project lists the known ones; so it holds no step, no task and no number.
"""

from __future__ import annotations

from dataclasses import dataclass

from onceproof.harness.checkers import CHECKERS, Signature, Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Verdict:
    """The violations that the checkers found in one run, in the order of CHECKERS."""

    violations: tuple[Violation, ...]

    @property
    def passed(self) -> bool:
        """Return whether every property holds."""
        return not self.violations

    @property
    def signature(self) -> Signature | None:
        """Return the signature of the first violation; None if the run passed."""
        return self.violations[0].signature() if self.violations else None

    def failed_properties(self) -> tuple[str, ...]:
        """Return each broken property once, in the order of CHECKERS."""
        return tuple(dict.fromkeys(violation.property for violation in self.violations))


def judge(scenario: Scenario, history: History, oracle: Oracle) -> Verdict:
    """Run every checker on the history of a scenario and return the verdict."""
    violations: list[Violation] = []
    for checker in CHECKERS:
        found = checker.check(scenario, history, oracle)
        if found:
            violations += found
    return Verdict(tuple(violations))
