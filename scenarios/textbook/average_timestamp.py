"""The average time of a user's clicks, at every fifth click: an AggregatingState beside a ValueState.

At the fifth click only the count is cleared, as in the textbook. So each average runs over all clicks so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine import (
    AggregateFunction,
    AggregatingStateDescriptor,
    FlatMapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Workload
from onceproof.scenarios._keyed_job import draw_keyed
from onceproof.scenarios.textbook import _on_trial as on_trial
from onceproof.scenarios.textbook.click_source import CLICK, URLS, USERS, ClickSource

if TYPE_CHECKING:
    from onceproof.engine import DataStream

FIFTH = 5


class AverageOfTimes(AggregateFunction):
    """Accumulates (sum, count) of the times."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> int:
        return accumulator[0] // accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class AverageTimestamp(FlatMapFunction):
    """Emits the user's average time at the fifth click, the tenth, and so on."""

    def open(self, runtime_context: RuntimeContext) -> None:
        times = Types.TUPLE([Types.LONG(), Types.LONG()])
        self._average = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("average", AverageOfTimes(), times)
        )
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def flat_map(self, value: tuple[str, str, int]) -> Iterator[str]:
        user, _url, timestamp = value
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        self._average.add(timestamp)
        if count == FIFTH:
            yield f"{user} average timestamp: {self._average.get()}"
            self._count.clear()


def user_of(click: tuple[str, str, int]) -> str:
    """Return the user of a click."""
    return click[0]


def build(clicks: DataStream) -> DataStream:
    """Key the clicks by user and average their times."""
    return clicks.key_by(user_of, Types.STRING()).flat_map(AverageTimestamp(), Types.STRING())


def main(source: ClickSource | None = None) -> None:
    """Average the times of clicks without end."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    build(env.from_source(source or ClickSource(), None, "clicks", CLICK)).print()
    env.execute("average timestamp")


# On trial.


def _draw(random: Random) -> Workload:
    """Draw the clicks of up to four users, many at the same time."""
    return draw_keyed(random, USERS, _click)


def _click(chance: Chance, user: str, now: int) -> tuple[str, str, int]:
    return user, chance.choice(URLS), now


def _rule(owner: str, clicks: Sequence[Any]) -> Iterator[tuple[str]]:
    for count in range(FIFTH, len(clicks) + 1, FIFTH):
        yield (f"{owner} average timestamp: {sum(time for *_, time in clicks[:count]) // count}",)


textbook_average_timestamp = on_trial.KeyedProgram(
    name="textbook_average_timestamp",
    build=build,
    record_type=CLICK,
    record_schema="user STRING, url STRING, clicked BIGINT",
    generate=_draw,
    row_schema="text STRING",
    rule=_rule,
    rows_sql="""
SELECT scenario_id, concat(owner, ' average timestamp: ', total DIV place) AS text
FROM (SELECT *, sum(clicked) OVER (PARTITION BY scenario_id, owner ORDER BY place) AS total FROM keyed)
WHERE place % 5 = 0
""",
)

if __name__ == "__main__":
    main()
