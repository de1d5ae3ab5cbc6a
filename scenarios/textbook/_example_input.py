"""The example input of the programs with keyed state, and how they read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.types import Types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onceproof.engine.api.datastream import DataStream

ONE_KEY: Final = ((1, 3.0), (1, 5.0), (1, 7.0), (1, 4.0), (1, 2.0))
TWO_KEYS: Final = ((1, 3.0), (1, 5.0), (1, 7.0), (2, 4.0), (2, 2.0), (2, 6.0))
PAIR: Final = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
"""The type of a pair of key and number."""


def first(pair: tuple[int, float]) -> int:
    """Return the key of a pair."""
    return pair[0]


def run(name: str, build: Callable[[DataStream], DataStream], pairs: Sequence[tuple[Any, Any]]) -> None:
    """Run a program at parallelism 1 on the given pairs, and print what it emits."""
    from onceproof.engine import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    build(env.from_collection(pairs, PAIR)).print()
    env.execute(name)
