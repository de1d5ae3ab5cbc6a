"""The mean of each three numbers of a socket: a count window and a function that gets the whole window."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine import ProcessWindowFunction, Types
from onceproof.engine.windows.window_functions import WindowContext
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Workload
from onceproof.scenarios._keyed_job import draw_keyed
from onceproof.scenarios.textbook import _on_trial as on_trial
from onceproof.scenarios.textbook import _socket_input as socket_input
from onceproof.scenarios.textbook.five_second_sum import NUMBER, under_one_key

if TYPE_CHECKING:
    from onceproof.engine import DataStream

THREE = 3


class Mean(ProcessWindowFunction):
    """Emits the sum of a window divided by its count, as a whole number."""

    def process(self, key: int, context: WindowContext, elements: Iterable[tuple[int, int]]) -> Iterator[int]:
        numbers = [number for _, number in elements]
        yield sum(numbers) // len(numbers)


def key_of(pair: tuple[int, int]) -> int:
    """Return the key of a pair."""
    return pair[0]


def means(numbers: DataStream) -> DataStream:
    """Average each three numbers of a key."""
    return numbers.key_by(key_of, Types.LONG()).count_window(THREE).process(Mean(), Types.LONG())


def build(lines: DataStream) -> DataStream:
    """Average the numbers of the lines, under one key."""
    return means(lines.map(under_one_key, NUMBER))


def main(arguments: Sequence[str] = ()) -> None:
    """Average the numbers of a socket."""
    socket_input.run("mean of three", build, arguments)


# On trial.


def _draw(random: Random) -> Workload:
    """Draw numbers from 0; where numbers below 0 are rounded to is not a part of the rule."""
    return draw_keyed(random, on_trial.PAIR_KEYS, _number)


def _number(chance: Chance, key: str, now: int) -> tuple[int, int]:
    return int(key), chance.integer(0, 99)


def _rule(owner: int, pairs: Sequence[Any]) -> Iterator[tuple[int]]:
    for end in range(THREE, len(pairs) + 1, THREE):
        yield (sum(number for _, number in pairs[end - THREE : end]) // THREE,)


textbook_mean_of_three = on_trial.KeyedProgram(
    name="textbook_mean_of_three",
    build=means,
    record_type=NUMBER,
    record_schema="key BIGINT, number BIGINT",
    generate=_draw,
    row_schema="mean BIGINT",
    rule=_rule,
    rows_sql="""
SELECT scenario_id, sum(number) DIV 3 AS mean FROM keyed
GROUP BY scenario_id, owner, ceil(place / 3) HAVING count(*) = 3
""",
)

if __name__ == "__main__":
    main(sys.argv[1:])
