"""A row says how often the job was restarted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, Types
from tests.wrong_jobs.family import ROW, Order, Rows, WrongJob

NAMED = "differs between attempts"


class Route(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, customer, cents = value
        yield customer, number + self.get_runtime_context().get_attempt_number(), cents  # wrong


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[0], Types.LONG()).process(Route(), ROW)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    return [(customer, number, cents) for _, (number, customer, cents) in orders]


family = WrongJob("first_attempt_only", build, rows)
