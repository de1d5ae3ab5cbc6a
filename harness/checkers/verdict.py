"""The verdict on one run: what all checkers say of it, and the signature by which the failure is known.

The rules this module lives by:

- Every checker is asked, always: a failure that shows in three properties tells more than the first alone.
- The signature is that of the first violation in the order of CHECKERS. The shrinker keeps it, reports group
  by it, and a project lists the ones it knows about; so it holds no step, no task and no number.
"""

from __future__ import annotations

from dataclasses import dataclass

from onceproof.harness.checkers import CHECKERS, Signature, Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checkers say of one run."""

    violations: tuple[Violation, ...]

    @property
    def passed(self) -> bool:
        """Return whether every property holds."""
        return not self.violations

    @property
    def signature(self) -> Signature | None:
        """Return what makes this failure the same as others; None if it is none."""
        return self.violations[0].signature() if self.violations else None

    def failed_properties(self) -> tuple[str, ...]:
        """Return each broken property once, in the order of CHECKERS."""
        return tuple(dict.fromkeys(violation.property for violation in self.violations))


def judge(scenario: Scenario, history: History, oracle: Oracle) -> Verdict:
    """Ask every checker about a run."""
    violations: list[Violation] = []
    for checker in CHECKERS:
        found = checker.check(scenario, history, oracle)
        if found:
            violations += found
    return Verdict(tuple(violations))
