"""The running count of a customer is keyed by the number of the order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, Types, ValueStateDescriptor
from tests.wrong_jobs.family import ROW, WrongJob, counted

NAMED = "`order[0]` is the wrong field"


class Totals(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.cents = runtime_context.get_state(ValueStateDescriptor("cents", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, customer, cents = value
        self.count.update((self.count.value() or 0) + 1)
        self.cents.update((self.cents.value() or 0) + cents)
        yield customer, self.count.value(), self.cents.value()


def key(order: Any) -> Any:
    return order[0]  # wrong


def build(orders: Any) -> Any:
    return orders.key_by(key).process(Totals(), ROW)


family = WrongJob("wrong_key", build, counted)
