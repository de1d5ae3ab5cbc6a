"""A row has the time of the wall clock in place of the time of the order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from onceproof.engine import ProcessFunction, Types
from tests.wrong_jobs.family import ROW, Order, Rows, WrongJob

NAMED = "gives another value in every run"


class Stamp(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, customer, cents = value
        yield customer, int(time.time()), cents  # wrong


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[0], Types.LONG()).process(Stamp(), ROW)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    return [(customer, at // 1000, cents) for at, (_, customer, cents) in orders]


family = WrongJob("wall_clock_in_a_row", build, rows)
