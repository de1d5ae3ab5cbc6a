"""timeliness: the job waits no longer than its settings say, and reports a failed write at once.

Liveness looks at the end of a run. A job that begins its checkpoints twenty times too late, or restarts after
an hour, finishes all the same. So each wait is judged when it begins. What a schedule adds to it does not
count: the wait is what the job master asks of its clock.

Anomalies:

- late restart: after a failure the job waits longer than the delay of its restart strategy.
- late checkpoint: the next periodic checkpoint is due later than interval and pause allow.
- late expiry: a checkpoint may stay under way for longer than its time-out.
- silent failure: the storage refuses a write of a checkpoint under way, and neither does the task decline the
  checkpoint nor the coordinator abort it in that step. It would last until its time-out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from onceproof.harness.checkers.checker import Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import (
    CHECKPOINT_ABORTED,
    CHECKPOINT_COMPLETED,
    CHECKPOINT_DECLINED,
    CHECKPOINT_TRIGGERED,
    EXPIRY_WAIT,
    INTERVAL_WAIT,
    RESTART_WAIT,
    SAVEPOINT_COMPLETED,
    WAIT_BEGUN,
    WRITE_REFUSED,
    History,
)
from onceproof.harness.model.scenario import COORDINATOR, Scenario

LATE_RESTART: Final = "late restart"
LATE_CHECKPOINT: Final = "late checkpoint"
LATE_EXPIRY: Final = "late expiry"
SILENT_FAILURE: Final = "silent failure"

_LATE: Final = {
    RESTART_WAIT: LATE_RESTART,
    INTERVAL_WAIT: LATE_CHECKPOINT,
    EXPIRY_WAIT: LATE_EXPIRY,
}


class Timeliness:
    """Compares each wait with the settings, and each refused write with what follows it."""

    property = "timeliness"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return the violations in the order of their steps."""
        pause_ms = scenario.checkpoint_mode.min_pause_ms
        longest_ms = {
            RESTART_WAIT: scenario.restart_delay_ms,
            INTERVAL_WAIT: max(scenario.checkpoint_interval_ms, pause_ms),
            EXPIRY_WAIT: scenario.checkpoint_timeout_ms,
        }
        violations: list[Violation] = []
        under_way: set[int] = set()
        refused: list[tuple[int, int, str]] = []
        for step, kind, subject, payload in history.events:
            if refused and refused[0][0] != step:
                violations += self._silent(refused)
            if kind == WAIT_BEGUN:
                allowed_ms = longest_ms[subject]
                waits_ms = payload["ms"]
                if waits_ms > allowed_ms:
                    witness = {"step": step, "waits_ms": waits_ms, "allowed_ms": allowed_ms}
                    violations.append(Violation(self.property, _LATE[subject], f"step {step}", witness))
            elif kind == CHECKPOINT_TRIGGERED:
                under_way.add(subject)
            elif kind in (CHECKPOINT_COMPLETED, SAVEPOINT_COMPLETED):
                under_way.discard(subject)
            elif kind == CHECKPOINT_ABORTED:
                under_way.discard(subject)
                refused = [each for each in refused if each[1:] != (subject, COORDINATOR)]
            elif kind == WRITE_REFUSED:
                if payload["checkpoint"] in under_way:
                    refused.append((step, payload["checkpoint"], subject))
            elif kind == CHECKPOINT_DECLINED:
                refused = [each for each in refused if each[1:] != (payload["checkpoint"], subject)]
        return violations + self._silent(refused)

    def _silent(self, refused: list[tuple[int, int, str]]) -> list[Violation]:
        """Return a violation for each refused write that nothing has followed, and clear the list."""
        found = []
        for step, checkpoint, task in refused:
            witness: dict[str, Any] = {"step": step, "task": task, "checkpoint": checkpoint}
            found.append(Violation(self.property, SILENT_FAILURE, f"task {task}, step {step}", witness))
        refused.clear()
        return found
