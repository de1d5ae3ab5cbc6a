"""The sum of a key in a ReducingState, divided by a counter; the counter is a plain field, and that is wrong.

``CounterInAField`` is the program of the textbook. Its counter is shared by all keys of a subtask, so at
parallelism 1 the second key continues where the first one ended. And it is in no checkpoint: after a failure
it begins at 0 while the sum goes on. ``CounterInState`` is the corrected twin.

The lesson is a family that is expected to fail::

    onceproof run scenarios/textbook/average_by_reducing_state.py:lesson --scenarios 50

Its input has one key, so the program is right as long as nothing fails, and wrong after a kill.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from onceproof.engine import (
    FlatMapFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from onceproof.scenarios.textbook import _on_trial as on_trial
from onceproof.scenarios.textbook._example_input import PAIR, TWO_KEYS, first, run

if TYPE_CHECKING:
    from onceproof.engine import DataStream


def add(total: float, number: float) -> float:
    """Reduce two numbers to their sum."""
    return total + number


class CounterInAField(FlatMapFunction):
    """Emits the sum divided by the counter at every record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ReducingStateDescriptor("sum", add, Types.DOUBLE())
        self._sum = runtime_context.get_reducing_state(descriptor)
        self._counter = 0

    def flat_map(self, value: tuple[int, float]) -> Iterator[tuple[int, float]]:
        key, number = value
        self._counter += 1
        self._sum.add(number)
        yield key, self._sum.get() / self._counter


class CounterInState(FlatMapFunction):
    """Counts each key in a ValueState."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ReducingStateDescriptor("sum", add, Types.DOUBLE())
        self._sum = runtime_context.get_reducing_state(descriptor)
        self._counter = runtime_context.get_state(ValueStateDescriptor("counter", Types.LONG()))

    def flat_map(self, value: tuple[int, float]) -> Iterator[tuple[int, float]]:
        key, number = value
        counter = (self._counter.value() or 0) + 1
        self._counter.update(counter)
        self._sum.add(number)
        yield key, self._sum.get() / counter


def build(pairs: DataStream) -> DataStream:
    """Key the pairs by their first field and average the second: corrected."""
    return pairs.key_by(first, Types.LONG()).flat_map(CounterInState(), PAIR)


def build_lesson(pairs: DataStream) -> DataStream:
    """Key the pairs by their first field and average the second: with the counter outside the state."""
    return pairs.key_by(first, Types.LONG()).flat_map(CounterInAField(), PAIR)


def main(arguments: Sequence[str] = ()) -> None:
    """Average three records of each of two keys; with the argument ``lesson`` as the textbook does."""
    run("average by reducing state", build_lesson if "lesson" in arguments else build, TWO_KEYS)


# On trial.


def _rule(owner: int, pairs: Sequence[Any]) -> Iterator[tuple[int, float]]:
    for count in range(1, len(pairs) + 1):
        yield owner, sum(number for _, number in pairs[:count]) / count


_SQL = """
SELECT scenario_id, owner AS key,
       avg(number) OVER (PARTITION BY scenario_id, owner ORDER BY place) AS average
FROM keyed
"""

textbook_average_by_reducing_state = on_trial.KeyedProgram(
    name="textbook_average_by_reducing_state",
    build=build,
    record_type=PAIR,
    record_schema=on_trial.PAIR_SCHEMA,
    generate=on_trial.draw_pairs,
    row_schema="key BIGINT, average DOUBLE",
    rule=_rule,
    rows_sql=_SQL,
)
lesson = on_trial.KeyedProgram(
    name="lesson_counter_in_a_field",
    build=build_lesson,
    record_type=PAIR,
    record_schema=on_trial.PAIR_SCHEMA,
    generate=on_trial.draw_pairs_of_one_key,
    row_schema="key BIGINT, average DOUBLE",
    rule=_rule,
    rows_sql=_SQL,
)

if __name__ == "__main__":
    main(sys.argv[1:])
