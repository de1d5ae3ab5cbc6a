"""Retries are left out by a set of the module: it outlives a restart, though the input goes back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, Types
from tests.wrong_jobs.family import ROW, WrongJob, deduplicated

NAMED = "`SEEN`"


SEEN: set[int] = set()


class Dedup(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, customer, cents = value
        if number not in SEEN:
            SEEN.add(number)  # wrong
            yield customer, number, cents


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[0], Types.LONG()).process(Dedup(), ROW)


family = WrongJob("seen_in_the_module", build, deduplicated)
