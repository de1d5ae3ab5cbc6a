"""mode: an at-least-once job loses no row, and repeats rows only after a failure.

A program repeats rows after a fault, too, that it survives: when one of its parts or a server was struck.

It replaces exactly_once for scenarios with the at-least-once guarantee. Anomalies:

- lost: a row is visible less often than expected.
- repeated without a failure: the job ran in one attempt, and some row is visible too often.
- phantom: after a failure, a row is visible that the oracle does not expect. Families whose rows change when
  a record counts twice (at_least_once = "effects") are excused.
- out of order, near miss: as in exactly_once.

A job without checkpoints begins anew after each failure, with its whole input and no state, and commits at
its end. After a stop or a cancel it begins from their savepoint. So each attempt is judged together with
those from whose savepoints it descends: the last one makes the oracle's rows visible (lost), and none makes
a row visible too often (repeated within an attempt), or another one (phantom), or completes a checkpoint
that is no savepoint (unasked checkpoint).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onceproof.harness.checkers.checker import Violation
from onceproof.harness.checkers.exactly_once import LOST, PHANTOM, row_violation
from onceproof.harness.checkers.oracle import Oracle, count_rows
from onceproof.harness.checkers.row_order import out_of_order
from onceproof.harness.checkers.tolerance import near_misses
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    FAULT_FIRED,
    JOB_FINISHED,
    SAVEPOINT_COMPLETED,
    TRANSACTION_VISIBLE,
    History,
    Row,
    rows_at_end,
)
from onceproof.harness.model.scenario import Scenario

REPEATED = "repeated without a failure"
REPEATED_IN_ATTEMPT = "repeated within an attempt"
UNASKED = "unasked checkpoint"


class Mode:
    """Compares the rows that are visible at the end with the oracle's rows."""

    property = "mode"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return one violation for each anomaly that occurs; none for exactly-once scenarios."""
        if scenario.is_exactly_once:
            return ()
        if not scenario.takes_checkpoints:
            return self._of_attempts(history, oracle)
        found = self._compared(history, oracle)
        if found and (near := near_misses(history, oracle)) is not None:
            return [*self._compared(near.history, oracle), near.violation(self.property)]
        return found

    def _of_attempts(self, history: History, oracle: Oracle) -> list[Violation]:
        """Judge the attempts of a job without checkpoints."""
        rows_of: dict[str, list[Row]] = {}
        parents: dict[str, str] = {}
        savepoints: dict[int, str] = {}
        attempt, is_finished = "", False
        for step, kind, subject, payload in history.events:
            if kind == CHECKPOINT_COMPLETED and "savepoint" not in payload:
                return [Violation(self.property, UNASKED, f"checkpoint {subject}", {"step": step})]
            if kind in (CHECKPOINT_COMPLETED, SAVEPOINT_COMPLETED):
                savepoints[subject] = payload["attempt"]
            elif kind == ATTEMPT_STARTED:
                attempt = subject
                if (saved_by := savepoints.get(payload["restored"])) is not None:
                    parents[attempt] = saved_by
            elif kind == TRANSACTION_VISIBLE:
                rows_of.setdefault(payload["attempt"], []).extend(payload["rows"])
            elif kind == JOB_FINISHED:
                is_finished = True
        rows_of = {each: _with_ancestors(each, parents, rows_of) for each in {**rows_of, attempt: ()}}
        if oracle.table_keys:
            # Each attempt writes the same keys again: what is there in the end counts.
            rows_of = {attempt: list(rows_at_end(history))} if is_finished else {}
        last = rows_of.get(attempt, [])
        expected = oracle.rows(last, history)
        violations: list[Violation] = []
        for each, visible in rows_of.items():
            actual = count_rows(visible)
            missing = [row for row, count in expected.items() if actual.get(row, 0) < count]
            known = [row for row in actual if row in expected]
            for anomaly, rows in (
                (LOST, missing if is_finished and each == attempt else []),
                (REPEATED_IN_ATTEMPT, [row for row in known if actual[row] > expected[row]]),
                (PHANTOM, [row for row in actual if row not in expected]),
            ):
                if rows:
                    violations.append(row_violation(self.property, anomaly, rows, expected, actual, history))
        return violations

    def _compared(self, history: History, oracle: Oracle) -> list[Violation]:
        visible = rows_at_end(history)
        finished = False
        attempts = 0
        restored = False
        for _, kind, _, payload in history.events:
            if kind == JOB_FINISHED:
                finished = True
            elif kind == ATTEMPT_STARTED:
                attempts += 1
                restored = restored or payload["restored"] is not None
            elif kind == FAULT_FIRED and "outside" in payload:
                restored = True
        expected, actual = oracle.rows(visible, history), count_rows(visible)
        violations: list[Violation] = []

        def add(anomaly: str, rows: list[Row]) -> None:
            if rows:
                violations.append(row_violation(self.property, anomaly, rows, expected, actual, history))

        if finished:
            add(LOST, [row for row, count in expected.items() if actual.get(row, 0) < count])
        if attempts <= 1 and not restored:
            add(REPEATED, [row for row, count in actual.items() if expected.get(row, 0) < count])
        elif oracle.at_least_once != "effects":
            add(PHANTOM, [row for row in actual if row not in expected])
        return violations + out_of_order(self.property, history, expected, oracle)


def _with_ancestors(attempt: str, parents: Mapping[str, str], rows_of: Mapping[str, list[Row]]) -> list[Row]:
    """Return the rows of an attempt, and of those whose savepoints led to it."""
    rows = list(rows_of.get(attempt, ()))
    while (parent := parents.get(attempt)) is not None:
        attempt = parent
        rows += rows_of.get(attempt, ())
    return rows
