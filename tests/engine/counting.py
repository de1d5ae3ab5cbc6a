"""The smallest aggregations, for tests of operators that aggregate."""

from __future__ import annotations

from onceproof.engine import AggregateFunction


class Count(AggregateFunction):
    """Counts."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Sum(AggregateFunction):
    """Adds up the second fields."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b
