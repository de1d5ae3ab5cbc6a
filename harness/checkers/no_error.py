"""no_error: no machine raises or fails its ``validate()``, and restarts are spent on injected faults only.

Anomalies:

- exception: a machine raised. The signature is (exception type, function), independent of task and step.
- part stayed dead: a part of a program was killed alone, nothing has started it again, and rows are missing.
- failure without a fault: a task fails in an attempt in which no fault has fired. Consequences of a fault in
  the same attempt are excused, such as a checkpoint that fails because a message was lost.
- restart without a fault: there are more restarts than fired faults. Each fault ends at most one attempt. The
  attempt that starts after a stop with savepoint, successful or not, is not counted, nor is one that starts
  because the user rescaled the running job. Nor is one that follows
  on an attempt without a fault of its own, which ended because a server was away: a server that was struck
  may be away for many attempts, and a task that was idle finds its connection broken long after. Nor is one
  that follows on an attempt whose failure names a process that an earlier kill has ended: an engine that has
  not noticed the death yet deploys tasks there, and fails once more. Nor is the start of a program that had
  ended by itself after a fault: its supervisor starts it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onceproof.harness.checkers.checker import Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.faults import FAULTS, KILLS
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    ERROR,
    FAULT_FIRED,
    JOB_RESCALED,
    JOB_STOPPED,
    JOB_UPGRADED,
    PART_DEAD,
    STOP_FAILED,
    TASK_FAILED,
    History,
)
from onceproof.harness.model.scenario import Scenario

EXCEPTION = "exception"
DEAD_PART = "part stayed dead"
FAILURE_WITHOUT_FAULT = "failure without a fault"
RESTART_WITHOUT_FAULT = "restart without a fault"
_AWAY: Final = frozenset(row.kind for row in FAULTS.values() if row.strikes in ("server", "pause", "own"))
"""The kinds after which a server, or a program, is away for a while."""


class NoError:
    """Counts faults and restarts, and reports exceptions and failures without a fault."""

    property = "no_error"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return the exceptions first, because they explain the task failures after them; then dead parts."""
        exceptions: list[Violation] = []
        dead: list[Violation] = []
        violations: list[Violation] = []
        faults, faults_at_start, restarts = 0, 0, -1
        # Requests have a short time-out where the server is to be paused; a busy machine may exceed it.
        is_struck = any(fault.kind == "pause_server" for fault in scenario.faults)
        has_killed = is_away = reaches_for_the_dead = False
        for step, kind, subject, payload in history.events:
            if kind == FAULT_FIRED:
                faults += 1
                has_killed |= subject in KILLS
                is_struck |= subject in _AWAY
            elif kind == ATTEMPT_STARTED:
                by_supervisor = "by_supervisor" in payload
                is_aftermath = (is_away and faults == faults_at_start) or reaches_for_the_dead
                restarts += not (by_supervisor or is_aftermath)
                is_away = reaches_for_the_dead = False
                if restarts > faults:
                    witness = {"step": step, "attempt": subject, "restarts": restarts, "faults": faults}
                    where = f"attempt {subject}, step {step}"
                    violations.append(Violation(self.property, RESTART_WITHOUT_FAULT, where, witness))
                faults_at_start = faults
            elif kind in (JOB_STOPPED, STOP_FAILED, JOB_RESCALED):
                restarts -= 1
            elif kind == JOB_UPGRADED:
                restarts -= payload["killed"]
            elif kind == TASK_FAILED:
                is_away |= is_struck and payload["injected"]
                if has_killed and payload.get("names_killed"):
                    reaches_for_the_dead |= faults == faults_at_start
                elif not payload["injected"] and faults == faults_at_start:
                    witness = {"step": step, "task": subject, "cause": payload["cause"]}
                    where = f"task {subject}, step {step}"
                    violations.append(Violation(self.property, FAILURE_WITHOUT_FAULT, where, witness))
            elif kind == PART_DEAD:
                where = f"part {subject}, step {step}"
                dead.append(Violation(self.property, DEAD_PART, where, {"part": subject, "step": step}))
            elif kind == ERROR:
                witness = {
                    "step": step,
                    "exception": payload["type"],
                    "function": payload["function"],
                    "text": payload["text"],
                }
                exceptions.append(Violation(self.property, EXCEPTION, f"{subject}, step {step}", witness))
        return exceptions + dead + violations
