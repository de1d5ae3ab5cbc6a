"""The totals of a minute of event time wait for a timer in processing time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, MapStateDescriptor, RuntimeContext, Types
from tests.wrong_jobs.family import MINUTE, ROW, WrongJob, by_minute

NAMED = "register_processing_time_timer should be register_event_time_timer"


class Minutes(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("cents", Types.LONG(), Types.LONG())
        self.cents = runtime_context.get_map_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> None:
        minute = ctx.timestamp() // MINUTE
        self.cents.put(minute, (self.cents.get(minute) or 0) + value[2])
        due = (minute + 1) * MINUTE - 1
        ctx.timer_service().register_processing_time_timer(due)  # wrong

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        minute = timestamp // MINUTE
        cents = self.cents.get(minute)
        if cents is not None:
            self.cents.remove(minute)
            yield ctx.get_current_key(), minute, cents


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[1], Types.STRING()).process(Minutes(), ROW)


family = WrongJob("timer_on_the_wrong_clock", build, by_minute, held_back=True)
