"""An order gets a random id, and retries are looked for by that id."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from tests.wrong_jobs.family import ORDER, ROW, WrongJob, deduplicated

NAMED = "gives another value in every run"


def with_id(order: Any) -> Any:
    return str(uuid.uuid4()), order  # wrong


class Dedup(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, customer, cents = value[1]
        if not self.seen.value():
            self.seen.update(True)
            yield customer, number, cents


def build(orders: Any) -> Any:
    named = orders.map(with_id, Types.TUPLE([Types.STRING(), ORDER]))
    return named.key_by(lambda order: order[0], Types.STRING()).process(Dedup(), ROW)


family = WrongJob("random_id", build, deduplicated, vertices=("Map", "work"))
