"""Broadcast state: rules replace each other, and one is removed, while keyed values come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import (
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from tests.conformance.programs import _paced

PARALLELISMS = (1,)
IN_ORDER = True
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING(), Types.LONG()])
EVENTS = [
    ("value", 1_000, "a", 5),
    ("rule", 1_000, "least", 10),
    ("value", 2_000, "a", 6),
    ("rule", 3_000, "factor", 2),
    ("value", 4_000, "b", 4),
    ("value", 5_000, "a", 7),
    ("rule", 5_000, "least", 8),
    ("value", 6_000, "b", 4),
    ("rule", 7_000, "factor", 0),
    ("value", 8_000, "b", 9),
]
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Apply(KeyedBroadcastProcessFunction):
    """Multiplies a value by the factor in force and emits the sum of its key where it is large enough."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        rules = ctx.get_broadcast_state(RULES)
        factor, least = rules.get("factor"), rules.get("least")
        total = (self._sum.value() or 0) + value[3] * (1 if factor is None else factor)
        self._sum.update(total)
        names = sorted(name for name, _ in rules.items())
        if least is None or total >= least:
            yield f"{ctx.get_current_key()} {total} by {names}, time {ctx.timestamp()}"

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[str]:
        rules = ctx.get_broadcast_state(RULES)
        before = rules.get(value[2])
        if value[3]:
            rules.put(value[2], value[3])
        else:
            rules.remove(value[2])
        yield f"{value[2]} was {before}, is {rules.get(value[2])}, there: {rules.contains(value[2])}"


def build(env: StreamExecutionEnvironment) -> None:
    """Print what the rules let pass."""
    events = _paced.paced(env, EVENTS, EVENT, 1)
    rules = events.filter(lambda event: event[0] == "rule").broadcast(RULES)
    values = events.filter(lambda event: event[0] == "value").key_by(lambda event: event[2], Types.STRING())
    values.connect(rules).process(Apply(), Types.STRING()).print()
