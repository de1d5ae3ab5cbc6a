"""Grades are given in turn, from a dict that a local name stands for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, RuntimeContext, Types
from tests.wrong_jobs.family import ROW, Order, Rows, WrongJob, counted

NAMED = "`self.next`"


class Sample(KeyedProcessFunction):
    """Gives all orders of a customer in turn one of three grades."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.next: dict[str, int] = {}

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, customer, cents = value
        grades = self.next
        grade = grades.get(customer, 0)
        grades[customer] = (grade + 1) % 3  # wrong
        yield customer, grade, cents


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[1], Types.STRING()).process(Sample(), ROW)


def rows(orders: list[tuple[int, Order]]) -> Rows:
    counts = counted(orders)
    return [(row[0], (row[1] - 1) % 3, order[2]) for (_, order), row in zip(orders, counts, strict=True)]


family = WrongJob("grades_in_turn", build, rows)
