"""The verdict on one run: the violations that all checkers found, and the signature of the failure.

The rules this module lives by:

- Every checker runs on every history, even after a violation: several violations explain more than one.
- The signature is that of the first violation in the order of CHECKERS. A project lists the known ones; so it
  holds no step, no task and no number.
- Lost, repeated and wrong rows are symptoms of one thing: which of them is first depends on how far the job
  came. So wrong rows are one failure for the shrinker and for findings, whichever property judges them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onceproof.harness.checkers import CHECKERS, Signature, Violation, exactly_once, restore_anywhere
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.mode import Mode
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario

WRONG_ROWS: Final = ("rows", "wrong")
_JUDGE_ROWS: Final = (ExactlyOnce.property, Mode.property, restore_anywhere.PROPERTY)


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


def what_is_wrong(signature: Signature) -> Signature:
    """Return WRONG_ROWS for the signature of wrong rows, and any other signature as it is."""
    is_about_rows = signature[0] in _JUDGE_ROWS and signature[1] in exactly_once.ANOMALIES
    return WRONG_ROWS if is_about_rows else signature


def is_same_failure(found: Signature | None, signature: Signature) -> bool:
    """Return whether a run that ends with ``found`` fails in the same way as another; None: it passes."""
    return found is not None and what_is_wrong(found) == what_is_wrong(signature)


def judge(scenario: Scenario, history: History, oracle: Oracle) -> Verdict:
    """Run every checker on the history of a scenario and return the verdict."""
    violations: list[Violation] = []
    for checker in CHECKERS:
        found = checker.check(scenario, history, oracle)
        if found:
            violations += found
    return Verdict(tuple(violations))
