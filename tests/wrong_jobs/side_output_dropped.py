"""Large orders go to a side output that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import OutputTag, ProcessFunction, Types
from tests.wrong_jobs.family import ROW, Order, Rows, WrongJob

NAMED = "nothing reads the side output LARGE"


LARGE = OutputTag("large", ROW)


class Route(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, customer, cents = value
        if cents > 80:
            yield LARGE, (customer, number, cents)  # wrong
        else:
            yield customer, number, cents


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[0], Types.LONG()).process(Route(), ROW)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    return [(customer, number, cents) for _, (number, customer, cents) in orders]


family = WrongJob("side_output_dropped", build, rows)
