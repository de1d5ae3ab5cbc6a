"""An order that comes late counts in the minute of the latest order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from tests.wrong_jobs.family import MINUTE, ROW, Order, Rows, WrongJob, draw_late_orders

NAMED = "takes the wrong one"


class Minutes(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, customer, cents = value
        at = max(ctx.timestamp(), self.latest.value() or 0)  # wrong
        self.latest.update(at)
        yield customer, at // MINUTE, cents


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[1], Types.STRING()).process(Minutes(), ROW)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    return [(customer, at // MINUTE, cents) for at, (_, customer, cents) in orders]


family = WrongJob("late_in_the_wrong_window", build, rows, generate=draw_late_orders)
