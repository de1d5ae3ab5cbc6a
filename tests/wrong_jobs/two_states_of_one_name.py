"""Count and amount have one name, so they are one state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from tests.wrong_jobs.family import ROW, WrongJob, counted

NAMED = "two states share the name 'count'"


class Totals(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.cents = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))  # wrong

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, customer, cents = value
        self.count.update((self.count.value() or 0) + 1)
        self.cents.update((self.cents.value() or 0) + cents)
        yield customer, self.count.value(), self.cents.value()


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[1], Types.STRING()).process(Totals(), ROW)


family = WrongJob("two_states_of_one_name", build, counted)
