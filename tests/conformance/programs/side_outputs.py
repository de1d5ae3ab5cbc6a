"""Side outputs of a process function: several tags, a row for two outputs, and a union with itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import OutputTag, ProcessFunction, StreamExecutionEnvironment, Types

PARALLELISMS = (1, 2)
IN_ORDER = False
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
EVEN = OutputTag("even", Types.LONG())
LARGE = OutputTag("large", PAIR)
UNUSED = OutputTag("unused", Types.STRING())


class Sort(ProcessFunction):
    """Sends numbers where they belong."""

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        if value % 2 == 0:
            yield EVEN, value
        if value > 5:
            yield LARGE, (f"number {value}", value)
        if value % 3 == 0:
            yield value


def build(env: StreamExecutionEnvironment) -> None:
    """Print the outputs."""
    threes = env.from_collection(list(range(1, 11)), Types.LONG()).process(Sort(), Types.LONG())
    even = threes.get_side_output(EVEN)
    threes.union(even, even).map(lambda number: f"threes and evens: {number}", Types.STRING()).print()
    threes.get_side_output(LARGE).map(lambda pair: f"large: {pair}", Types.STRING()).print()
    threes.get_side_output(UNUSED).print()
