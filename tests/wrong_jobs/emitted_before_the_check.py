"""An order is passed on before it is looked for among those that were seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from tests.wrong_jobs.family import ROW, WrongJob, deduplicated

NAMED = "comes too early"


class Dedup(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, customer, cents = value
        yield customer, number, cents  # wrong
        if self.seen.value():
            return
        self.seen.update(True)


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[0], Types.LONG()).process(Dedup(), ROW)


family = WrongJob("emitted_before_the_check", build, deduplicated)
