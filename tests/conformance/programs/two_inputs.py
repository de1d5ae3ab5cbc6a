"""A function with two inputs and timers: a payment ends the wait of its order, or a timer does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import (
    KeyedCoProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from tests.conformance.programs import _paced

PARALLELISMS = (1,)
IN_ORDER = False
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()])
EVENTS = [
    ("a", 1_000, "order"),
    ("b", 2_000, "order"),
    ("a", 3_000, "payment"),
    ("c", 4_000, "payment"),
    ("b", 7_500, "payment"),
    ("a", 8_000, "order"),
    ("a", 12_999, "payment"),
    ("d", 13_000, "order"),
    ("e", 18_001, "payment"),
    ("e", 18_001, "order"),
]
PATIENCE_MS = 5_000


class Match(KeyedCoProcessFunction):
    """Waits for the payment of an order."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[str]:
        due = ctx.timestamp() + PATIENCE_MS
        ctx.timer_service().register_event_time_timer(due)
        self._due.update(due)
        yield f"{ctx.get_current_key()} ordered at {ctx.timestamp()}"

    def process_element2(self, value: Any, ctx: Any) -> Iterator[str]:
        due = self._due.value()
        if due is None:
            yield f"{value[0]} paid at {ctx.timestamp()} without an order"
            return
        ctx.timer_service().delete_event_time_timer(due)
        self._due.clear()
        yield f"{value[0]} paid at {ctx.timestamp()}, before {due}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        self._due.clear()
        yield f"{ctx.get_current_key()} is not paid at {timestamp}"


def build(env: StreamExecutionEnvironment) -> None:
    """Print how orders end."""
    events = _paced.paced(env, EVENTS, EVENT, 1)
    orders = events.filter(lambda event: event[2] == "order").set_parallelism(1)
    payments = events.filter(lambda event: event[2] == "payment").set_parallelism(1)
    both = orders.key_by(lambda event: event[0], Types.STRING()).connect(
        payments.key_by(lambda event: event[0], Types.STRING())
    )
    both.process(Match(), Types.STRING()).print()
