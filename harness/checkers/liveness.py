"""liveness: after the last fault, the job completes its checkpoints, commits and finishes within a bound.

The bound is the scenario's step budget. The generator draws it so large that only a job without progress uses
it up. After the schedule's horizon every schedule is fair, so an unlucky order of steps is no excuse.

Anomalies:

- stuck: the run used up its step budget. Where tasks wait for each other in a circle, the witness has it.
- job failed: the job gave up, although its restart strategy allows one more restart. A job whose input has
  changed, or whose checkpoints are gone, has to give up, if it cannot do without: then it is asked to name
  what has changed.
- restarted too often: the job restarts where its restart strategy tells it to give up. Failures count in the
  life of a process. A history does not say when an attempt failed, so of strategies that look at the time it
  is only known how many failures they need before they give up.
- unfinished: the run ended in neither way, and the job had not finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import UNSET

from onceproof.harness.checkers.checker import Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    BUDGET_EXHAUSTED,
    CHECKPOINT_COMPLETED,
    FAULT_FIRED,
    JOB_FAILED,
    JOB_FINISHED,
    RESTART_WAIT,
    TRANSACTION_VISIBLE,
    WAIT_BEGUN,
    History,
)
from onceproof.harness.model.job_settings import Restarts
from onceproof.harness.model.scenario import Scenario

STUCK = "stuck"
JOB_GAVE_UP = "job failed"
RESTARTED_TOO_OFTEN = "restarted too often"
UNFINISHED = "unfinished"
CIRCLE = "tasks that wait for each other"
"""The entry of a witness that says why a job is stuck: a sentence a task, each waiting for the next one."""

_PROGRESS = {
    ATTEMPT_STARTED: "last attempt",
    CHECKPOINT_COMPLETED: "last checkpoint",
    TRANSACTION_VISIBLE: "last transaction",
    FAULT_FIRED: "last fault",
}


_BREAKS_ITS_WORD: Final = frozenset(row.kind for row in FAULTS.values() if row.strikes in ("input", "folder"))
"""The kinds after which something outside of the job is not what it was. It has to be reported."""


def _broken_words(history: History) -> Iterator[str]:
    """Yield the names of what has changed outside of the job, or is gone."""
    for _, kind, subject, payload in history.events:
        if kind == FAULT_FIRED and subject in _BREAKS_ITS_WORD:
            yield payload["task"]


class Liveness:
    """Checks that the job finished."""

    property = "liveness"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return one violation if the job did not finish, and one if its restarts are not as asked for."""
        violations = self._unfinished(scenario, history)
        if scenario.restarts is not UNSET and (wrong := self._restarts(scenario.restarts, history)):
            return [wrong, *(each for each in violations if each.anomaly != JOB_GAVE_UP)]
        return violations

    def _restarts(self, restarts: Restarts, history: History) -> Violation | None:
        """Return the first restart that should not be, or the first end of the job that comes too early."""
        process, failures = "", 0
        for step, kind, subject, payload in history.events:
            if kind == ATTEMPT_STARTED:
                if process != (process := subject.partition(".")[0]):
                    failures = 0
            elif kind == WAIT_BEGUN and subject == RESTART_WAIT:
                failures += 1
                if failures > restarts.most and not restarts.looks_at_time:
                    return self._violation(RESTARTED_TOO_OFTEN, step, restarts, failures)
            elif kind == JOB_FAILED:
                failures += 1
                is_known = any(name in payload["cause"] for name in _broken_words(history))
                if failures <= restarts.most and not is_known:
                    return self._violation(JOB_GAVE_UP, step, restarts, failures, payload["cause"])
                failures = 0
        return None

    def _violation(
        self, anomaly: str, step: int, restarts: Restarts, failures: int, cause: str = ""
    ) -> Violation:
        witness: dict[str, Any] = {"step": step, "restart strategy": str(restarts), "failures": failures}
        return Violation(
            self.property, anomaly, f"step {step}", witness | ({"cause": cause} if cause else {})
        )

    def _unfinished(self, scenario: Scenario, history: History) -> Sequence[Violation]:
        """Return one violation if the job did not finish; the witness names its last progress."""
        anomaly, cause = UNFINISHED, ""
        circle: Sequence[str] = ()
        # Backwards, because the event that decides is among the last.
        for _, kind, _, payload in reversed(history.events):
            if kind == JOB_FINISHED:
                return ()
            if kind == BUDGET_EXHAUSTED:
                anomaly, circle = STUCK, payload.get("circle", ())
                break
            if kind == JOB_FAILED:
                anomaly, cause = JOB_GAVE_UP, payload["cause"]
                if any(name in cause for name in _broken_words(history)):
                    return ()
                break
        last_step = history.events[-1][0] if history.events else 0
        witness: dict[str, Any] = {"step": last_step, "budget": scenario.step_budget}
        if cause:
            witness["cause"] = cause
        if circle:
            witness[CIRCLE] = circle
        for step, kind, subject, payload in history.events:
            if kind == ATTEMPT_STARTED and "outside" in payload:
                witness["outside"] = True
            if kind in _PROGRESS:
                witness[_PROGRESS[kind]] = {"step": step, "which": subject}
        return [Violation(self.property, anomaly, f"step {last_step}", witness)]
