"""An order is confirmed by a second one, and the timer that would call it open is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from tests.wrong_jobs.family import ROW, Order, Rows, WrongJob

NAMED = "a timer is left"
DAY = 86_400_000


class Open(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        if self.due.value() is not None:
            self.due.clear()  # wrong
            return
        due = ctx.timestamp() + DAY
        self.due.update(due)
        ctx.timer_service().register_event_time_timer(due)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "open", ctx.get_current_key(), 0


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[0], Types.LONG()).process(Open(), ROW)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    times = Counter(number for _, (number, _, _) in orders)
    return [("open", number, 0) for number, count in times.items() if count % 2]


family = WrongJob("timer_not_deleted", build, rows, held_back=True)
