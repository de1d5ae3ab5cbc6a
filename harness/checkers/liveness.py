"""liveness: after the last fault, the job completes its checkpoints, commits and finishes within a bound.

The bound is the scenario's step budget, which the generator draws so generously that only a job which makes
no progress meets it; from the schedule's horizon on every schedule is fair, so no choice of steps excuses it.

Anomalies:

- stuck: the budget was used up.
- job failed: the job gave up, which no scenario's restart strategy allows.
- unfinished: the run ended without either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceproof.harness.checkers.base import Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    BUDGET_EXHAUSTED,
    CHECKPOINT_COMPLETED,
    FAULT_FIRED,
    JOB_FAILED,
    JOB_FINISHED,
    TRANSACTION_VISIBLE,
    History,
)
from onceproof.harness.model.scenario import Scenario

STUCK = "stuck"
JOB_GAVE_UP = "job failed"
UNFINISHED = "unfinished"

_PROGRESS = {
    ATTEMPT_STARTED: "last attempt",
    CHECKPOINT_COMPLETED: "last checkpoint",
    TRANSACTION_VISIBLE: "last transaction",
    FAULT_FIRED: "last fault",
}


class Liveness:
    """Looks for the end of the job."""

    property = "liveness"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return one violation if the job did not finish; its witness tells how far it came."""
        anomaly, cause = UNFINISHED, ""
        # From the end, because that is where the answer stands.
        for _, kind, _, payload in reversed(history.events):
            if kind == JOB_FINISHED:
                return ()
            if kind == BUDGET_EXHAUSTED:
                anomaly = STUCK
                break
            if kind == JOB_FAILED:
                anomaly, cause = JOB_GAVE_UP, payload["cause"]
                break
        last_step = history.events[-1][0] if history.events else 0
        witness: dict[str, Any] = {"step": last_step, "budget": scenario.step_budget}
        if cause:
            witness["cause"] = cause
        for step, kind, subject, _ in history.events:
            if kind in _PROGRESS:
                witness[_PROGRESS[kind]] = {"step": step, "which": subject}
        return [Violation(self.property, anomaly, f"step {last_step}", witness)]
