"""exactly_once: at the end, the committed rows are the oracle's rows, each as often as it should be.

Anomalies:

- lost: a row is there less often than it should be.
- duplicated: a row that should be there is there too often.
- wrong value: a row is there in the place of a lost one; the two differ in their last column only.
- phantom: a row is there that nothing in the input explains.

Where a sink writes by key, a row is there if it was the last of its key: to write one again is no duplicate.
What is not there yet is lost only if the job has finished: a run that was cut off is the matter of liveness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceproof.harness.checkers.base import WITNESS_ROWS, Violation
from onceproof.harness.checkers.oracle import Oracle, RowCounts, count_rows
from onceproof.harness.model.history import (
    JOB_FINISHED,
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
ANOMALIES = (LOST, DUPLICATED, WRONG_VALUE, PHANTOM)


class ExactlyOnce:
    """Compares all visible rows with the oracle's, once, at the end."""

    property = "exactly_once"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return a violation for each anomaly that occurs; at-least-once is the matter of mode."""
        if not scenario.is_exactly_once:
            return ()
        if oracle.table_keys and not _has_finished(history):
            # On its way a table shows rows that are not the last of their keys; see tables.py.
            return ()
        visible = rows_at_end(history)
        actual = count_rows(visible)
        expected = oracle.rows(visible)
        if actual == expected:
            return ()
        finished = _has_finished(history)
        return [
            violation_of(self.property, anomaly, rows, expected, actual, history)
            for anomaly, rows in sorted_out(expected, actual, finished)
            if rows
        ]


def _has_finished(history: History) -> bool:
    return any(event[1] == JOB_FINISHED for event in history.events)


def violation_of(
    name: str, anomaly: str, rows: list[Row], expected: RowCounts, actual: RowCounts, history: History
) -> Violation:
    """Return what shows that rows are there too often, or not often enough."""
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


def sorted_out(expected: RowCounts, actual: RowCounts, finished: bool) -> tuple[tuple[str, list[Row]], ...]:
    """Return the rows of each anomaly, each row once, those that weigh most first."""
    missing = [row for row, count in expected.items() if actual.get(row, 0) < count] if finished else []
    duplicated = [row for row, count in actual.items() if 0 < expected.get(row, 0) < count]
    unexplained = [row for row in actual if row not in expected]
    # A row that only its last column tells from a missing one has taken that one's place.
    places: dict[Row, int] = {}
    for row in missing:
        places[row[:-1]] = places.get(row[:-1], 0) + 1
    wrong, phantom = [], []
    for row in unexplained:
        if places.get(row[:-1], 0):
            places[row[:-1]] -= 1
            wrong.append(row)
        else:
            phantom.append(row)
    taken = {row[:-1] for row in wrong}
    lost = [row for row in missing if row[:-1] not in taken or places[row[:-1]] > 0]
    return (LOST, lost), (DUPLICATED, duplicated), (WRONG_VALUE, wrong), (PHANTOM, phantom)


def _transactions_with(row: Row, history: History) -> list[str]:
    """Return the transactions in which a row became visible, or the tasks that wrote it."""
    return [
        subject
        for _, kind, subject, payload in history.events
        if kind in (TRANSACTION_VISIBLE, ROWS_WRITTEN) and row in payload["rows"]
    ]
