"""The count of a customer is split over random keys and never put together."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from tests.wrong_jobs.family import ROW, WrongJob, counted

NAMED = "gives another value in every run"


class Totals(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.cents = runtime_context.get_state(ValueStateDescriptor("cents", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, customer, cents = value[1]
        self.count.update((self.count.value() or 0) + 1)
        self.cents.update((self.cents.value() or 0) + cents)
        yield customer, self.count.value(), self.cents.value()


def build(orders: Any) -> Any:
    by_customer = orders.key_by(lambda order: order[1], Types.STRING())
    salted = by_customer.map(lambda order: (f"{order[1]}-{random.randrange(4)}", order))  # wrong
    return salted.key_by(lambda order: order[0], Types.STRING()).process(Totals(), ROW)


family = WrongJob("salted_key", build, counted, vertices=("Map", "work"))
