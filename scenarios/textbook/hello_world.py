"""Hello, world: a checkpoint after the third word, a crash after the fifth; two words are read again.

The checkpoint holds offset 3 and the counts hello 2 and world 1. The restored job reads from there, so the
rows of words four and five are printed twice, with the same counts: printing is at least once, the state is
exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onceproof.engine import (
    Configuration,
    FlatMapFunction,
    RuntimeContext,
    SplitReader,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from onceproof.scenarios.textbook.behaviour_patterns import PacedSource

if TYPE_CHECKING:
    from onceproof.engine import DataStream

WORDS = ("hello", "world", "hello", "world", "hello", "hello")
THIRD, FIFTH = 3, 5
OPTIONS = {
    "execution.checkpointing.interval-records": str(THIRD),
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.delay": "0 s",
}


class Words(PacedSource):
    """The words, with a pause after the third and the fifth; prints from where it reads."""

    def __init__(self, pause_seconds: float) -> None:
        super().__init__(
            *[
                (pause_seconds * ((place >= THIRD) + (place >= FIFTH)), word)
                for place, word in enumerate(WORDS)
            ]
        )

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        print(f"reads from offset {position or 0}")
        return super().open_split(split, position)


class CountAndCrash(FlatMapFunction):
    """Counts each word, and fails once at the sixth word of all.

    Args:
        crashes: the number of words that the crashed attempt had counted goes here; empty at first.
    """

    def __init__(self, crashes: list[int]) -> None:
        self._crashes = crashes
        self._counted = 0

    def __deepcopy__(self, memo: object) -> CountAndCrash:
        """Share the list with the next attempt: it stands for the machine that fails once."""
        return CountAndCrash(self._crashes)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def flat_map(self, value: str) -> Iterator[tuple[str, int]]:
        if self._counted == FIFTH and not self._crashes:
            self._crashes.append(self._counted)
            raise RuntimeError("the machine fails after the fifth word")
        self._counted += 1
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield value, count


def build(words: DataStream, crashes: list[int]) -> DataStream:
    """Count the words."""
    row = Types.TUPLE([Types.STRING(), Types.LONG()])
    return words.key_by(lambda word: word, Types.STRING()).flat_map(CountAndCrash(crashes), row).uid("count")


def main(pause_seconds: float = 0.5) -> None:
    """Count six words and crash in between."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(OPTIONS))
    env.set_parallelism(1)
    build(env.from_source(Words(pause_seconds), None, "words", Types.STRING()).uid("words"), []).print()
    env.execute("hello world")


if __name__ == "__main__":
    main()
