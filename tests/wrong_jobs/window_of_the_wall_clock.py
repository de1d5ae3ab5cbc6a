"""The minute of an order is that of its processing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import ProcessFunction, Types
from tests.wrong_jobs.family import MINUTE, ROW, Order, Rows, WrongJob

NAMED = "differs from run to run"


class Minutes(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, customer, cents = value
        minute = ctx.timer_service().current_processing_time() // MINUTE  # wrong
        yield customer, minute, cents


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[0], Types.LONG()).process(Minutes(), ROW)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    return [(customer, at // MINUTE, cents) for at, (_, customer, cents) in orders]


family = WrongJob("window_of_the_wall_clock", build, rows)
