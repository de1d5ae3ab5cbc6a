"""State of windows and of their keys, incremental aggregates with a window function, and windows over all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onceproof.engine import (
    AggregateFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
)
from tests.conformance.programs import _paced

PARALLELISMS = (1,)
IN_ORDER = False
READING = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
READINGS = [
    ("a", 1_000, 1),
    ("b", 2_000, 2),
    ("a", 10_500, 3),
    ("a", 3_000, 4),
    ("b", 11_000, 5),
    ("a", 21_000, 6),
    ("a", 12_000, 7),
]
OF_WINDOW = ValueStateDescriptor("firings of window", Types.LONG())
OF_KEY = ValueStateDescriptor("firings of key", Types.LONG())


class Firings(ProcessWindowFunction):
    """Counts the firings of a window, and of all windows of its key."""

    def process(self, key: str, context: Any, elements: Iterable[int]) -> Iterator[str]:
        counts = []
        for state in (context.window_state().get_state(OF_WINDOW), context.global_state().get_state(OF_KEY)):
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield f"{key} {context.window().start} {list(elements)} fired {counts}"

    def clear(self, context: Any) -> None:
        context.window_state().get_state(OF_WINDOW).clear()


class Sum(AggregateFunction):
    """Accumulates the sum of the numbers."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value[2])

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Greatest(ProcessAllWindowFunction):
    """Emits the greatest number of a window."""

    def process(self, context: Any, elements: Iterable[Any]) -> Iterator[str]:
        numbers = [number for *_, number in elements]
        yield f"all {context.window().start} {context.window().end} {len(numbers)} {max(numbers)}"


def build(env: StreamExecutionEnvironment) -> None:
    """Print how often windows fire."""
    readings = _paced.paced(env, READINGS, READING, 1)
    ten_seconds = TumblingEventTimeWindows.of(Time.seconds(10))
    keyed = readings.key_by(lambda reading: reading[0], Types.STRING())
    late = keyed.window(ten_seconds).allowed_lateness(5_000)
    sums = late.aggregate(Sum(), Firings(), accumulator_type=Types.LONG(), output_type=Types.STRING())
    sums.print()
    readings.window_all(ten_seconds).process(Greatest(), Types.STRING()).print()
