"""mode: at-least-once loses nothing, and repeats only after a failure.

Asked of scenarios with that guarantee alone, in the place of exactly_once. Anomalies:

- lost: a row is there less often than it should be, whatever went wrong.
- repeated without a failure: no attempt was restarted, and the rows are not exactly the expected ones.
- phantom: after a failure there is a row that nothing in the input explains, of a family whose records may
  give no other rows when they count twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.harness.checkers.base import Violation
from onceproof.harness.checkers.exactly_once import LOST, PHANTOM, violation_of
from onceproof.harness.checkers.oracle import Oracle, count_rows
from onceproof.harness.model.history import ATTEMPT_STARTED, JOB_FINISHED, History, Row, rows_at_end
from onceproof.harness.model.scenario import Scenario

REPEATED = "repeated without a failure"


class Mode:
    """Compares all visible rows with the oracle's, once, at the end."""

    property = "mode"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return a violation for each anomaly that occurs."""
        if scenario.is_exactly_once:
            return ()
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
        expected, actual = oracle.rows(visible), count_rows(visible)
        violations = []

        def found(anomaly: str, rows: list[Row]) -> None:
            if rows:
                violations.append(violation_of(self.property, anomaly, rows, expected, actual, history))

        if finished:
            found(LOST, [row for row, count in expected.items() if actual.get(row, 0) < count])
        if attempts <= 1 and not restored:
            found(REPEATED, [row for row, count in actual.items() if expected.get(row, 0) < count])
        elif oracle.at_least_once != "effects":
            found(PHANTOM, [row for row in actual if row not in expected])
        return violations
