"""Amounts are added as floats, and the row holds whatever comes out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from tests.wrong_jobs.family import AMOUNT, Order, Rows, WrongJob, counted

NAMED = "depends on the order of addition"


class Totals(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.euros = runtime_context.get_state(ValueStateDescriptor("euros", Types.DOUBLE()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, customer, cents = value
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        euros = (self.euros.value() or 0.0) + cents / 100  # wrong
        self.euros.update(euros)
        yield customer, count, euros


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[1], Types.STRING()).process(Totals(), AMOUNT)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    return [(customer, count, cents / 100) for customer, count, cents in counted(orders)]


family = WrongJob("float_sums", build, rows, row_schema="customer STRING, what BIGINT, value DOUBLE")
