"""Function objects with keyed state of each kind of operator, for tests of operators and of whole jobs."""

from __future__ import annotations

from onceproof.engine import (
    FilterFunction,
    MapFunction,
    ReduceFunction,
    SinkFunction,
    Types,
    ValueStateDescriptor,
)

WORDS = ["a", "b", "a", "a", "b", "c"]


class Numbered(MapFunction):
    """Numbers the records of each key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return value, self.count.value()


class New(FilterFunction):
    """Keeps the first record of each key."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value):
        if self.seen.value():
            return False
        self.seen.update(True)
        return True


class SumAndCount(ReduceFunction):
    """Sums, and counts its own calls for each key in a state beside the sum."""

    def open(self, runtime_context):
        self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.LONG()))

    def reduce(self, value1, value2):
        self.calls.update((self.calls.value() or 0) + 1)
        return value1[0], value1[1] + value2[1], self.calls.value()


class EveryOther(SinkFunction):
    """Writes every second value of each key into the list ``rows``."""

    def __init__(self, rows):
        self.rows = rows

    def __deepcopy__(self, memo):
        return self

    def open(self, runtime_context):
        self.held = runtime_context.get_state(ValueStateDescriptor("held", Types.BOOLEAN()))

    def invoke(self, value, context):
        if self.held.value():
            self.rows.append(value)
        self.held.update(not self.held.value())
