"""A buffer is written when it has exactly three rows: a restore may give it more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, ListStateDescriptor, RuntimeContext, Types
from tests.wrong_jobs.family import ROW, Order, Rows, WrongJob

NAMED = "wrong comparison"


class Threes(KeyedProcessFunction):
    """Gives the sum of three orders or more of a customer; large orders count for two."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.cents = runtime_context.get_list_state(ListStateDescriptor("cents", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.cents.add(value[2])
        if value[2] > 50:
            self.cents.add(0)
        waiting = list(self.cents.get())
        if len(waiting) == 3:  # wrong
            self.cents.clear()
            yield value[1], value[0], sum(waiting)


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[1], Types.STRING()).process(Threes(), ROW)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    waiting: dict[str, list[int]] = {}
    found: Rows = []
    for _, (number, customer, cents) in orders:
        amounts = waiting.setdefault(customer, [])
        amounts += [cents, 0] if cents > 50 else [cents]
        if len(amounts) >= 3:
            found.append((customer, number, sum(amounts)))
            amounts.clear()
    return found


family = WrongJob("full_only_when_equal", build, rows)
