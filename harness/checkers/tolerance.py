"""Runs whose numbers differ a little from the expected ones: by a tolerance, or by rounding.

Rules:

- With a tolerance the history of a run is judged with the expected rows in the places of those that stand for
  them (`model/close_rows.py`).
- Without one, rows that differ by no more than rounding are a near miss: a failure, with its remedy. What is
  wrong besides is judged as if there were no rounding.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from onceproof.harness.checkers.checker import WITNESS_ROWS, Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.close_rows import AmountsOf, Forms, forms_of, nearest_row, with_rounding
from onceproof.harness.model.history import (
    ROWS_FOUND,
    ROWS_GONE,
    ROWS_WRITTEN,
    TRANSACTION_VISIBLE,
    Event,
    History,
    Row,
    rows_at_end,
)

NEAR_MISS: Final = "near miss"


class NearMisses(NamedTuple):
    """What of a failure is rounding."""

    history: History
    """The run without it."""
    pairs: Sequence[tuple[Row, Row]]
    """The rows that are visible, each with the expected one."""
    columns: Sequence[str]
    """Of the first of them."""

    def violation(self, name: str) -> Violation:
        """Return the violation of a property by rounding."""
        rows = [
            {
                "row": list(row),
                "expected_row": list(expected),
                "expected": 1,
                "visible": 0,
                "transactions": [],
            }
            for row, expected in self.pairs[:WITNESS_ROWS]
        ]
        row, expected = self.pairs[0]
        differences = {
            self.columns[place] if place < len(self.columns) else f"column {place + 1}": abs(
                float(one) - float(other)
            )
            for place, (one, other) in enumerate(zip(row, expected, strict=True))
            if one != other
        }
        witness = {"rows": rows, "count": len(self.pairs), "differences": differences}
        return Violation(name, NEAR_MISS, "the end of the run", witness)


def within_tolerance(history: History, oracle: Oracle) -> History:
    """Return the history of a run with each row that is close to an expected one as that row."""
    if not oracle.comparisons.have_tolerances:
        return history
    visible = rows_at_end(history)
    expected = oracle.rows(visible, history)
    others = [row for rows in oracle.versions_at(None).values() for row in rows] if oracle.table_keys else []
    amounts_of = oracle.comparisons.amounts_of
    forms = forms_of(expected, visible, amounts_of)
    return _renamed(history, forms, [*expected, *others], amounts_of)


def near_misses(history: History, oracle: Oracle) -> NearMisses | None:
    """Return what of a failure is rounding; None if nothing is."""
    visible = rows_at_end(history)
    expected = oracle.rows(visible, history)
    rounded = with_rounding((*expected, *visible), oracle.comparisons)
    if not rounded.have_tolerances:
        return None
    forms = forms_of(expected, visible, rounded.amounts_of)
    pairs = [(row, form) for row, those in forms.items() for form in those if row != form]
    if not pairs:
        return None
    columns = rounded.of(pairs[0][0]).columns
    return NearMisses(_renamed(history, forms, [*expected], rounded.amounts_of), pairs, columns)


def _renamed(history: History, forms: Forms, known: Sequence[Row], amounts_of: AmountsOf) -> History:
    """Return a history with rows as what they stand for; one that is gone by the end as the nearest known."""
    left = {row: deque(those) for row, those in forms.items()}
    shown: defaultdict[Row, deque[Row]] = defaultdict(deque)
    # Rows that went take no form from those that stayed.
    gone = Counter([row for event in history.events if event[1] == ROWS_GONE for row in event[3]["rows"]])

    def came(row: Row) -> Row:
        if gone[row] or not left.get(row):
            gone[row] -= 1
            form = nearest_row(row, known, amounts_of(row))
        else:
            form = left[row].popleft()
        shown[row].append(form)
        return form

    def form_in(kind: str, row: Row) -> Row:
        if kind == ROWS_GONE:
            return shown[row].popleft()
        return nearest_row(row, known, amounts_of(row)) if kind == ROWS_WRITTEN else came(row)

    events: list[Event] = []
    for step, kind, subject, payload in history.events:
        changed: dict[str, Any] = payload
        if kind in (ROWS_FOUND, TRANSACTION_VISIBLE, ROWS_WRITTEN, ROWS_GONE):
            changed = {**payload, "rows": [form_in(kind, row) for row in payload["rows"]]}
        events.append((step, kind, subject, changed))
    return dataclasses.replace(history, events=events)
