"""The entry of a map that comes first is taken for the oldest one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, MapStateDescriptor, RuntimeContext, Types
from tests.wrong_jobs.family import ROW, Order, Rows, WrongJob

NAMED = "has no order"


class Cheapest(KeyedProcessFunction):
    """Keeps two orders of a customer, and gives away the cheapest of three."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("waiting", Types.LONG(), Types.LONG())
        self.waiting = runtime_context.get_map_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, customer, cents = value
        self.waiting.put(cents, number)
        prices = list(self.waiting.keys())  # wrong
        if len(prices) > 2:
            yield customer, self.waiting.get(prices[0]), prices[0]
            self.waiting.remove(prices[0])


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[1], Types.STRING()).process(Cheapest(), ROW)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    waiting: dict[str, dict[int, int]] = {}
    found: Rows = []
    for _, (number, customer, cents) in orders:
        prices = waiting.setdefault(customer, {})
        prices[cents] = number
        if len(prices) > 2:
            cheapest = min(prices)
            found.append((customer, prices.pop(cheapest), cheapest))
    return found


family = WrongJob("order_of_a_map", build, rows)
