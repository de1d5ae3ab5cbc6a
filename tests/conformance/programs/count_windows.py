"""Count windows by key, tumbling and sliding; rows that fill no window are never seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onceproof.engine import ProcessWindowFunction, StreamExecutionEnvironment, Types

PARALLELISMS = (1, 2)
IN_ORDER = False
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [("a", number) for number in range(1, 9)] + [("b", number) for number in (10, 20, 30)] + [("c", 7)]


class Contents(ProcessWindowFunction):
    """Emits name, key and numbers of a window."""

    def __init__(self, name: str) -> None:
        self._name = name

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[str]:
        yield f"{self._name} {key} {[number for _, number in elements]}"


def add(one: Any, other: Any) -> Any:
    """Add the numbers of two pairs."""
    return one[0], one[1] + other[1]


def build(env: StreamExecutionEnvironment) -> None:
    """Print the windows."""
    pairs = env.from_collection(PAIRS, PAIR).key_by(lambda pair: pair[0], Types.STRING())
    pairs.count_window(3).process(Contents("three"), Types.STRING()).print()
    pairs.count_window(4, 2).process(Contents("four by two"), Types.STRING()).print()
    pairs.count_window(2).reduce(add).print()
