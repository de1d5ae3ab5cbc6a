"""The five kinds of keyed state: what is there before the first write, after writes, removals and clear."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

PARALLELISMS = (1, 2)
IN_ORDER = False
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [("a", 1), ("a", 2), ("b", 5), ("a", 0), ("a", 4), ("b", 6), ("b", 7), ("a", 0), ("b", 0), ("a", 3)]


class Mean(AggregateFunction):
    """Accumulates (sum, count)."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1] if accumulator[1] else -1.0

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class AllStates(KeyedProcessFunction):
    """Writes a number to each state and tells what they hold; 0 clears them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self._list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self._map = runtime_context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.STRING()))
        reducing = ReducingStateDescriptor("reducing", lambda one, other: one * 10 + other, Types.LONG())
        self._reducing = runtime_context.get_reducing_state(reducing)
        sums = Types.TUPLE([Types.LONG(), Types.LONG()])
        aggregating = AggregatingStateDescriptor("aggregating", Mean(), sums)
        self._aggregating = runtime_context.get_aggregating_state(aggregating)

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        key, number = value
        yield f"{key} before {number}: {self._held()}"
        if number == 0:
            for state in (self._value, self._list, self._map, self._reducing, self._aggregating):
                state.clear()
        else:
            self._value.update(number)
            self._list.add(number)
            if number % 3 == 0:
                self._list.update([number, number])
            self._list.add_all([-number])
            self._map.put(number, str(number))
            self._map.put_all([(number + 1, "next")])
            self._map.remove(number - 2)
            self._reducing.add(number)
            self._aggregating.add(number)
        yield f"{key} after {number}: {self._held()}"

    def _held(self) -> list[Any]:
        entries = sorted(self._map.items())
        keys, values = sorted(self._map.keys()), sorted(self._map.values())
        return [
            self._value.value(),
            list(self._list.get() or []),
            (entries, keys, values, self._map.is_empty(), self._map.contains(2), self._map.get(99)),
            self._reducing.get(),
            self._aggregating.get(),
        ]


def build(env: StreamExecutionEnvironment) -> None:
    """Print what the states hold."""
    pairs = env.from_collection(PAIRS, PAIR).key_by(lambda pair: pair[0], Types.STRING())
    pairs.process(AllStates(), Types.STRING()).print()
