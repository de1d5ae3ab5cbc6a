"""A timer uses the customer of the last order, not the one that it was set for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, MapStateDescriptor, RuntimeContext, Types
from tests.wrong_jobs.family import MINUTE, ROW, WrongJob, by_minute

NAMED = "belongs to another key"


class Minutes(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("cents", Types.LONG(), Types.LONG())
        self.cents = runtime_context.get_map_state(descriptor)
        self.customer = ""

    def process_element(self, value: Any, ctx: Any) -> None:
        minute = ctx.timestamp() // MINUTE
        self.customer = value[1]
        self.cents.put(minute, (self.cents.get(minute) or 0) + value[2])
        ctx.timer_service().register_event_time_timer((minute + 1) * MINUTE - 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        minute = timestamp // MINUTE
        yield self.customer, minute, self.cents.get(minute)  # wrong
        self.cents.remove(minute)


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[1], Types.STRING()).process(Minutes(), ROW)


family = WrongJob("key_of_the_last_order", build, by_minute, held_back=True)
