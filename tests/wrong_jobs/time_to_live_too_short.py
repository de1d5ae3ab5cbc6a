"""Retries are left out for 20 ms, and come later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import (
    KeyedProcessFunction,
    RuntimeContext,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from tests.wrong_jobs.family import ROW, WrongJob, deduplicated

NAMED = "is too short"


class Dedup(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("seen", Types.BOOLEAN())
        lifetime = StateTtlConfig.new_builder(Time.milliseconds(20)).build()  # wrong
        descriptor.enable_time_to_live(lifetime)
        self.seen = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, customer, cents = value
        if not self.seen.value():
            self.seen.update(True)
            yield customer, number, cents


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[0], Types.LONG()).process(Dedup(), ROW)


family = WrongJob("time_to_live_too_short", build, deduplicated)
