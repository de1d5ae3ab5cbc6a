"""Running totals by customer stand in two dicts of the function."""

from __future__ import annotations

from typing import Any

from onceproof.engine import MapFunction, Types
from tests.wrong_jobs.family import ROW, WrongJob, counted

NAMED = "`self.counts` and `self.cents`"


class Totals(MapFunction):
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.cents: dict[str, int] = {}

    def map(self, value: Any) -> Any:
        _, customer, cents = value
        self.counts[customer] = self.counts.get(customer, 0) + 1  # wrong
        self.cents[customer] = self.cents.get(customer, 0) + cents
        return customer, self.counts[customer], self.cents[customer]


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[1], Types.STRING()).map(Totals(), ROW)


family = WrongJob("counts_in_a_dict", build, counted)
