"""Retries are left out by a set that belongs to the function: a restore begins with an empty one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, Types
from tests.wrong_jobs.family import ROW, WrongJob, deduplicated

NAMED = "`self.seen`"


class Dedup(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen: set[int] = set()

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, customer, cents = value
        if number not in self.seen:
            self.seen.add(number)  # wrong
            yield customer, number, cents


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[0], Types.LONG()).process(Dedup(), ROW)


family = WrongJob("seen_in_a_set", build, deduplicated)
