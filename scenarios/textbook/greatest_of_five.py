"""The greatest of each five numbers of a word, from a socket: a count window and an aggregate."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine import AggregateFunction, Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Workload
from onceproof.scenarios._keyed_job import draw_keyed
from onceproof.scenarios.textbook import _on_trial as on_trial
from onceproof.scenarios.textbook import _socket_input as socket_input

if TYPE_CHECKING:
    from onceproof.engine import DataStream

FIVE = 5
LEAST = float("-inf")
NUMBER = Types.TUPLE([Types.STRING(), Types.DOUBLE()])


class Greatest(AggregateFunction):
    """Accumulates the greatest number."""

    def create_accumulator(self) -> float:
        return LEAST

    def add(self, value: tuple[str, float], accumulator: float) -> float:
        return max(accumulator, value[1])

    def get_result(self, accumulator: float) -> float:
        return accumulator

    def merge(self, acc_a: float, acc_b: float) -> float:
        return max(acc_a, acc_b)


def word_and_number(line: str) -> tuple[str, float]:
    """Return the word and the number of a line."""
    word, number = line.split()
    return word, float(number)


def word_of(pair: tuple[str, float]) -> str:
    """Return the word of a pair."""
    return pair[0]


def greatest(numbers: DataStream) -> DataStream:
    """Take the greatest of each five numbers of a word."""
    windows = numbers.key_by(word_of, Types.STRING()).count_window(FIVE)
    return windows.aggregate(Greatest(), accumulator_type=Types.DOUBLE(), output_type=Types.DOUBLE())


def build(lines: DataStream) -> DataStream:
    """Take the greatest of each five numbers in the lines."""
    return greatest(lines.map(word_and_number, NUMBER))


def main(arguments: Sequence[str] = ()) -> None:
    """Take the greatest numbers of a socket."""
    socket_input.run("greatest of five", build, arguments)


# On trial.


def _draw(random: Random) -> Workload:
    """Draw numbers of a few words, quarters among them, that mostly grow."""
    return draw_keyed(random, ("spark", "hello", "flink", "hive"), _number)


def _number(chance: Chance, word: str, now: int) -> tuple[str, float]:
    return word, now + chance.integer(-80, 80) / 4


def _rule(owner: str, pairs: Sequence[Any]) -> Iterator[tuple[float]]:
    for end in range(FIVE, len(pairs) + 1, FIVE):
        yield (max(number for _, number in pairs[end - FIVE : end]),)


textbook_greatest_of_five = on_trial.KeyedProgram(
    name="textbook_greatest_of_five",
    build=greatest,
    record_type=NUMBER,
    record_schema="word STRING, number DOUBLE",
    generate=_draw,
    row_schema="greatest DOUBLE",
    rule=_rule,
    rows_sql="""
SELECT scenario_id, max(number) AS greatest FROM keyed
GROUP BY scenario_id, owner, ceil(place / 5) HAVING count(*) = 5
""",
)

if __name__ == "__main__":
    main(sys.argv[1:])
