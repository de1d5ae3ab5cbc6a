"""Totals stand in an object of the user's that the function holds."""

from __future__ import annotations

from typing import Any

from onceproof.engine import MapFunction, Types
from tests.wrong_jobs.family import ROW, WrongJob, counted

NAMED = "`self.counts` and `self.cents`"


class Book:
    """What each customer has ordered."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.cents: dict[str, int] = {}

    def enter(self, customer: str, cents: int) -> tuple[str, int, int]:
        self.counts[customer] = self.counts.get(customer, 0) + 1  # wrong
        self.cents[customer] = self.cents.get(customer, 0) + cents
        return customer, self.counts[customer], self.cents[customer]


class Totals(MapFunction):
    def __init__(self) -> None:
        self.book = Book()

    def map(self, value: Any) -> Any:
        return self.book.enter(value[1], value[2])


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[1], Types.STRING()).map(Totals(), ROW)


family = WrongJob("cache_of_an_object", build, counted)
