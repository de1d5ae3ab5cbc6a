"""Connected streams with a map and a flat map of both, and state that both sides of a key share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import (
    CoFlatMapFunction,
    CoMapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

PARALLELISMS = (1, 2)
IN_ORDER = False
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Sides(CoMapFunction):
    """Tells from which side a value came."""

    def map1(self, value: Any) -> str:
        return f"left {value}"

    def map2(self, value: Any) -> str:
        return f"right {value}"


class Longest(CoFlatMapFunction):
    """Repeats a left value; of the right ones only those above 1 pass."""

    def flat_map1(self, value: Any) -> Iterator[str]:
        for repeat in range(value[1]):
            yield f"left {value[0]} {repeat}"

    def flat_map2(self, value: Any) -> Iterator[str]:
        if value[1] > 1:
            yield f"right {value[0]}"


class Total(CoMapFunction):
    """Adds the numbers of both sides of a key; the last sum of a key has both."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def map1(self, value: Any) -> Any:
        return self._added(value)

    def map2(self, value: Any) -> Any:
        return self._added(value)

    def _added(self, value: Any) -> Any:
        total = (self._sum.value() or 0) + value[1]
        self._sum.update(total)
        return value[0], total


def build(env: StreamExecutionEnvironment) -> None:
    """Print what passes."""
    left = env.from_collection([("a", 2), ("b", 1)], PAIR)
    right = env.from_collection([("a", 2), ("c", 1)], PAIR)
    left.connect(right).map(Sides(), Types.STRING()).print()
    left.connect(right).flat_map(Longest(), Types.STRING()).print()
    keyed = left.connect(right).key_by(lambda pair: pair[0], lambda pair: pair[0], Types.STRING())
    keyed.map(Total(), PAIR).print()
