"""no_leaks: at rest nothing is left behind.

Whoever runs a scenario looks, once the job has ended, for open transactions, orphan files, unowned timers and
pending notifications, and records what it finds; each kind is an anomaly. What a run that did not finish
still holds is no leak: it may be in use.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.harness.checkers.base import WITNESS_ROWS, Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import JOB_FINISHED, LEAK, History
from onceproof.harness.model.scenario import Scenario


class NoLeaks:
    """Turns the leaks of a finished run into violations, one a kind."""

    property = "no_leaks"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return one violation for each kind of thing that was left behind."""
        leaked: dict[str, list[str]] = {}
        finished = False
        for _, kind, subject, payload in history.events:
            if kind == LEAK:
                leaked.setdefault(subject, []).append(payload["name"])
            elif kind == JOB_FINISHED:
                finished = True
        if not finished:
            return ()
        violations = []
        for kind, names in leaked.items():
            witness = {"names": names[:WITNESS_ROWS], "count": len(names)}
            violations.append(Violation(self.property, kind, f"{kind} {names[0]}", witness))
        return violations
