"""no_leaks: after the job has finished, nothing is left behind, and nothing is gone that had to stay.

After the end of the job, the system looks for open transactions, orphan files, unowned timers and pending
notifications, and records each as a leak event; each kind is an anomaly. So is what a dead attempt has left
in its process while the job ran on (timers, waiting snapshots, tasks, threads, open files), and a file of a
savepoint or of a retained checkpoint that was deleted too early. Leaks of a run that did not finish are
ignored, because the job may still use these resources.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.harness.checkers.checker import WITNESS_ROWS, Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import JOB_FINISHED, LEAK, History
from onceproof.harness.model.scenario import Scenario


class NoLeaks:
    """Returns one violation for each kind of leak of a finished run."""

    property = "no_leaks"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return one violation for each kind of resource that a finished run left behind."""
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
