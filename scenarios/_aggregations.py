"""The smallest aggregations, which several families and benchmarks use."""

from __future__ import annotations

from onceproof.engine.functions import AggregateFunction


class Count(AggregateFunction):
    """Counts elements."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: object, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def plus(first: int, second: int) -> int:
    return first + second
