"""Rows that must appear in an order, those of an output or of a key in it (``FamilyOptions.ordered_by``).

Rules:

- A row counts when it appears first. A job that promises at least once may go back after a fault, and repeat
  rows from there on; whether it may repeat any is judged by `mode`, and by `exactly_once`.
- Two rows are in the wrong order only if a reader must have seen them so: in one file, partition or
  transaction by their places in it; else if one was there and the other was not. Rows in two files that the
  harness reads one after the other have no order before a whole look lies between them, and rows in two
  partitions have none.
- Rows that are expected more than once look alike, and have no order where the oracle's decides.
  Rows that are not expected are judged elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from onceproof.harness.checkers.checker import WITNESS_ROWS, Violation
from onceproof.harness.checkers.oracle import Oracle, RowCounts
from onceproof.harness.model.columns import Comparisons
from onceproof.harness.model.history import ROWS_FOUND, TRANSACTION_VISIBLE, History, Row

OUT_OF_ORDER: Final = "out of order"


class _Appearance(NamedTuple):
    """The first time that a row is visible."""

    row: Row
    rank: Any
    """Rows of a group must appear by ascending ranks."""
    group: Row
    step: int
    by: str
    """The transaction or the look."""
    place: str | None
    """Where it stands among others, each behind those that appeared before; None: nowhere."""
    since: int
    """No reader has seen it before this moment."""
    until: int
    """A reader has seen it by this moment."""


def out_of_order(name: str, history: History, expected: RowCounts, oracle: Oracle) -> list[Violation]:
    """Return the violation of a property by rows in the wrong order; empty if there are none, or no order."""
    if not oracle.comparisons.have_orders:
        return []
    pairs = list(_wrong_pairs(history, _orders(expected, oracle.comparisons)))
    if not pairs:
        return []
    early, late = pairs[0]
    shown = [
        {"row": list(each.row), "expected": 1, "visible": 1, "transactions": [each.by]}
        for pair in pairs[:WITNESS_ROWS]
        for each in reversed(pair)
    ]
    witness = {"step": late.step, "rows": shown, "count": len(pairs), "first": early.by}
    return [Violation(name, OUT_OF_ORDER, f"{late.by}, step {late.step}", witness)]


def _orders(expected: RowCounts, comparisons: Comparisons) -> Mapping[Row, tuple[Any, Row]]:
    """Return the rank and the group of each row that has an order."""
    orders: dict[Row, tuple[Any, Row]] = {}
    for number, (row, count) in enumerate(expected.items()):
        columns, order = comparisons.of(row).columns, comparisons.of(row).ordered_by
        if order is None or (count > 1 and not order.ascending):
            continue
        rank = row[columns.index(order.ascending)] if order.ascending else number
        key = [row[columns.index(name)] for name in order.key]
        orders[row] = rank, (comparisons.output_of(row), *key)
    return orders


def _wrong_pairs(
    history: History, orders: Mapping[Row, tuple[Any, Row]]
) -> Iterator[tuple[_Appearance, _Appearance]]:
    """Yield rows that appear too late, each after the row that it should have preceded."""
    highest: dict[tuple[Row, str], _Appearance] = {}
    """By group and place, the one of the highest rank so far."""
    waiting: defaultdict[Row, list[_Appearance]] = defaultdict(list)
    """By group, those that appeared since a moment which may not be over."""
    over: dict[Row, _Appearance] = {}
    """By group, the one of the highest rank that a reader has seen by now."""
    for each in _appearances(history, orders):
        group = each.group
        still = []
        for earlier in waiting[group]:
            if earlier.until >= each.since:
                still.append(earlier)
            elif group not in over or over[group].rank < earlier.rank:
                over[group] = earlier
        waiting[group] = [*still, each]
        place = (group, each.place or "")
        before = [over.get(group), highest.get(place) if each.place is not None else None]
        wrong = [other for other in before if other is not None and other.rank > each.rank]
        if wrong:
            yield wrong[0], each
        if place not in highest or highest[place].rank < each.rank:
            highest[place] = each


def _appearances(history: History, orders: Mapping[Row, tuple[Any, Row]]) -> Iterator[_Appearance]:
    seen: set[Row] = set()
    for step, kind, subject, payload in history.events:
        if kind == TRANSACTION_VISIBLE:
            stand: list[tuple[str | None, int, int]] = [(subject, step, step)] * len(payload["rows"])
        elif kind == ROWS_FOUND and "stand" in payload:
            stand = payload["stand"]
        else:
            continue
        for row, (place, since, until) in zip(payload["rows"], stand, strict=True):
            if row in orders and row not in seen:
                seen.add(row)
                yield _Appearance(row, *orders[row], step, subject, place, since, until)
