"""Rows that wait are one list that is changed in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import ProcessFunction, Types
from tests.wrong_jobs.family import ROW, Order, Rows, WrongJob

NAMED = "is handed over and changed later"


class Pairs(ProcessFunction):
    """Gives each order two rows: what it is, and what it would cost with tax."""

    def __init__(self) -> None:
        self.row: list[Any] = [None, None, None]

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, customer, cents = value
        rows: list[list[Any]] = []
        for amount in (cents, cents * 2):
            self.row[:] = customer, number, amount
            rows.append(self.row)  # wrong
        for row in rows:
            yield tuple(row)


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[0], Types.LONG()).process(Pairs(), ROW)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    return [
        (customer, number, amount) for _, (number, customer, cents) in orders for amount in (cents, cents * 2)
    ]


family = WrongJob("same_row_emitted_again", build, rows)
