"""exactly_once: at the end, the visible rows are the oracle's rows, each as often as the oracle expects it.

Anomalies:

- lost: a row is visible less often than expected.
- duplicated: an expected row is visible too often.
- wrong value: an unexpected row replaces a missing one; the two differ in their last column only.
- phantom: a row is visible that the oracle does not expect.
- out of order: a row appears after one that should come after it, where the family asks for an order.
- near miss: rows differ from the expected ones by rounding only, in a column without a tolerance.
- answered again: an attempt answers a window a second time (``FamilyOptions.answers``). The oracle takes rows
  of a window as they are declared, and cannot tell. Only a restore begins event time anew, so only then may a
  late record open a window again. Where a restored checkpoint holds records in flight, a row of an earlier
  attempt may be among them, and comes with those of the new one.

Of several sinks some may promise only at least once (``FamilyOptions.may_repeat``): after a failure their
rows may come again.

Where a sink writes by key, only the last row of each key counts, so a repeated write is no duplicate. A
missing row is lost only if the job has finished: a run that was cut off is judged by liveness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceproof.harness.checkers.checker import WITNESS_ROWS, Violation
from onceproof.harness.checkers.oracle import Answers, Oracle, RowCounts, count_rows
from onceproof.harness.checkers.row_order import out_of_order
from onceproof.harness.checkers.tolerance import near_misses
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    ROWS_FOUND,
    ROWS_WRITTEN,
    TRANSACTION_VISIBLE,
    History,
    Row,
    rows_at_end,
)
from onceproof.harness.model.scenario import Scenario

LOST = "lost"
DUPLICATED = "duplicated"
WRONG_VALUE = "wrong value"
PHANTOM = "phantom"
ANSWERED_AGAIN = "answered again"
ANOMALIES = (LOST, DUPLICATED, WRONG_VALUE, PHANTOM)
"""Those of comparing rows with the oracle's."""


class ExactlyOnce:
    """Compares the rows that are visible at the end with the oracle's rows."""

    property = "exactly_once"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return one violation for each anomaly that occurs; none for at-least-once scenarios."""
        if not scenario.is_exactly_once:
            return ()
        if oracle.table_keys and not history.has_finished:
            # Before the end a table shows intermediate rows of its keys, which consistent_cut judges.
            return ()
        visible = rows_at_end(history)
        expected = oracle.rows(visible, history)
        actual = _counted(visible, expected, history, oracle)
        if actual == expected:
            if oracle.comparisons.have_orders:
                return out_of_order(self.property, history, expected, oracle)
            return () if oracle.answers is None else _answered_again(self.property, oracle.answers, history)
        near = near_misses(history, oracle)
        if near is not None:
            history = near.history
            actual = _counted(rows_at_end(history), expected, history, oracle)
        finished = history.has_finished
        found = [
            row_violation(self.property, anomaly, rows, expected, actual, history)
            for anomaly, rows in classify_rows(expected, actual, finished)
            if rows
        ]
        found += out_of_order(self.property, history, expected, oracle)
        return found if near is None else [*found, near.violation(self.property)]


def _answered_again(name: str, answers: Answers, history: History) -> list[Violation]:
    """Return a violation for the first attempt that answers something more often than it may."""
    in_flight: dict[int | None, int] = {None: 0}
    limit = 1
    limits: dict[str, int] = {}
    given: dict[tuple[str, object], list[str]] = {}
    for step, kind, subject, payload in history.events:
        if kind == CHECKPOINT_COMPLETED:
            in_flight[subject] = payload["in_flight"]
        elif kind == ATTEMPT_STARTED:
            # A checkpoint that completed before this history began may hold any records in flight.
            limit = limit + 1 if in_flight.get(payload["restored"], 1) else 1
            limits[subject] = limit
        elif kind == TRANSACTION_VISIBLE and payload["attempt"] in limits:
            attempt = payload["attempt"]
            for row in payload["rows"]:
                if (answered := answers(row)) is None:
                    continue
                transactions = given.setdefault((attempt, answered), [])
                transactions.append(subject)
                if len(transactions) > limits[attempt]:
                    witness = {
                        "step": step,
                        "attempt": attempt,
                        "row": list(row),
                        "transactions": transactions[-WITNESS_ROWS:],
                        "times": len(transactions),
                    }
                    return [Violation(name, ANSWERED_AGAIN, f"transaction {subject}, step {step}", witness)]
    return []


def _counted(visible: Sequence[Row], expected: RowCounts, history: History, oracle: Oracle) -> RowCounts:
    """Return how often rows are visible; those that may repeat after a failure, at most as expected."""
    actual = count_rows(visible)
    if oracle.may_repeat is None or not _has_failed(history):
        return actual
    return {
        row: min(count, expected.get(row, count)) if oracle.may_repeat(row) else count
        for row, count in actual.items()
    }


def _has_failed(history: History) -> bool:
    return sum(event[1] == ATTEMPT_STARTED for event in history.events) > 1


def row_violation(
    name: str, anomaly: str, rows: list[Row], expected: RowCounts, actual: RowCounts, history: History
) -> Violation:
    """Return the violation for rows that are visible too often or not often enough.

    Args:
        name: the property that is violated.
        rows: the rows in question; the witness shows the first WITNESS_ROWS of them.
    """
    shown: list[dict[str, Any]] = [
        {
            "row": list(row),
            "expected": expected.get(row, 0),
            "visible": actual.get(row, 0),
            "transactions": _transactions_with(row, history),
        }
        for row in rows[:WITNESS_ROWS]
    ]
    transactions = shown[0]["transactions"]
    where = f"transaction {transactions[-1]}" if transactions else "the end of the run"
    return Violation(name, anomaly, where, {"rows": shown, "count": len(rows)})


def classify_rows(
    expected: RowCounts, actual: RowCounts, finished: bool
) -> tuple[tuple[str, list[Row]], ...]:
    """Return the rows of each anomaly, the gravest anomaly first; a row has at most one anomaly.

    Args:
        finished: whether the job has finished; if not, no row counts as lost.
    """
    missing = [row for row, count in expected.items() if actual.get(row, 0) < count] if finished else []
    duplicated = [row for row, count in actual.items() if 0 < expected.get(row, 0) < count]
    unexplained = [row for row in actual if row not in expected]
    # An unexpected row that equals a missing one but for its last column counts as a wrong value of it.
    unmatched: dict[Row, int] = {}
    for row in missing:
        unmatched[row[:-1]] = unmatched.get(row[:-1], 0) + 1
    wrong, phantom = [], []
    for row in unexplained:
        if unmatched.get(row[:-1], 0):
            unmatched[row[:-1]] -= 1
            wrong.append(row)
        else:
            phantom.append(row)
    matched = {row[:-1] for row in wrong}
    lost = [row for row in missing if row[:-1] not in matched or unmatched[row[:-1]] > 0]
    return (LOST, lost), (DUPLICATED, duplicated), (WRONG_VALUE, wrong), (PHANTOM, phantom)


def _transactions_with(row: Row, history: History) -> list[str]:
    """Return the transactions or looks in which a row became visible, or the tasks that wrote it by key."""
    return [
        subject
        for _, kind, subject, payload in history.events
        if kind in (TRANSACTION_VISIBLE, ROWS_FOUND, ROWS_WRITTEN) and row in payload["rows"]
    ]
