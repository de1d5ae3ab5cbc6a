"""A large order clears the last amount, and nothing writes the new one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from tests.wrong_jobs.family import ROW, WrongJob, differences

NAMED = "`self.last.clear()` should not be there"


class Differences(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, customer, cents = value
        before = self.last.value() or 0
        self.last.update(cents)
        if cents > 50:
            self.last.clear()  # wrong
        yield customer, number, cents - before


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[1], Types.STRING()).process(Differences(), ROW)


family = WrongJob("cleared_without_update", build, differences)
