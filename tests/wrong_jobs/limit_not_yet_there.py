"""An order that comes before the limit of its customer is let through: the two inputs have no order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedCoProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from tests.wrong_jobs.family import ROW, Order, Rows, WrongJob

NAMED = ""


class Limit(KeyedCoProcessFunction):
    """Passes the orders of a customer whose amount is below that of the customer's order of number 0."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.limit = runtime_context.get_state(ValueStateDescriptor("limit", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, customer, cents = value
        limit = self.limit.value()
        if limit is None:  # wrong
            limit = 0
        yield customer, number, cents - limit

    def process_element2(self, value: Any, ctx: Any) -> None:
        self.limit.update(7)


def build(orders: Any) -> Any:
    limits = orders.key_by(lambda order: order[1], Types.STRING())
    return orders.key_by(lambda order: order[1], Types.STRING()).connect(limits).process(Limit(), ROW)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    return [(customer, number, cents - 7) for _, (number, customer, cents) in orders]


family = WrongJob("limit_not_yet_there", build, rows)
