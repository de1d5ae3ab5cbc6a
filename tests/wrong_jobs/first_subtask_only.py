"""Rows come from the first subtask only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, Types
from tests.wrong_jobs.family import ROW, Order, Rows, WrongJob

NAMED = "differs between attempts"


class Route(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, customer, cents = value
        if self.get_runtime_context().get_index_of_this_subtask() == 0:  # wrong
            yield customer, number, cents


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[0], Types.LONG()).process(Route(), ROW)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    return [(customer, number, cents) for _, (number, customer, cents) in orders]


family = WrongJob("first_subtask_only", build, rows)
