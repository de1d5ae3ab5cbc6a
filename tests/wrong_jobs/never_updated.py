"""The count is computed from the state and never written back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from tests.wrong_jobs.family import ROW, WrongJob, counted

NAMED = "`self.count` is not updated"


class Totals(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.cents = runtime_context.get_state(ValueStateDescriptor("cents", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, customer, amount = value
        count = (self.count.value() or 0) + 1  # wrong
        cents = (self.cents.value() or 0) + amount
        self.cents.update(cents)
        yield customer, count, cents


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[1], Types.STRING()).process(Totals(), ROW)


family = WrongJob("never_updated", build, counted)
