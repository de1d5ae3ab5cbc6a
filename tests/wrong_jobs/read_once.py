"""The count is read from the state for the first key only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from tests.wrong_jobs.family import ROW, WrongJob, counted

NAMED = "the condition `self.last is None` is wrong"


class Totals(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.cents = runtime_context.get_state(ValueStateDescriptor("cents", Types.LONG()))
        self.last: tuple[int, int] | None = None

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, customer, amount = value
        if self.last is None:  # wrong
            self.last = self.count.value() or 0, self.cents.value() or 0
        count, cents = self.last
        self.last = count + 1, cents + amount
        self.count.update(count + 1)
        self.cents.update(cents + amount)
        yield customer, count + 1, cents + amount


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[1], Types.STRING()).process(Totals(), ROW)


family = WrongJob("read_once", build, counted)
