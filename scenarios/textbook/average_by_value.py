"""The running average of a key from the second record on, kept as (count, sum) in a ValueState."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from onceproof.engine import FlatMapFunction, RuntimeContext, Types, ValueStateDescriptor
from onceproof.scenarios.textbook import _on_trial as on_trial
from onceproof.scenarios.textbook._example_input import ONE_KEY, PAIR, first, run

if TYPE_CHECKING:
    from onceproof.engine import DataStream

SECOND = 2


class AverageByValue(FlatMapFunction):
    """Never clears its state, so the average is that of all records so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("count and sum", Types.TUPLE([Types.LONG(), Types.DOUBLE()]))
        self._so_far = runtime_context.get_state(descriptor)

    def flat_map(self, value: tuple[int, float]) -> Iterator[tuple[int, float]]:
        key, number = value
        count, total = self._so_far.value() or (0, 0.0)
        count, total = count + 1, total + number
        self._so_far.update((count, total))
        if count >= SECOND:
            yield key, total / count


def build(pairs: DataStream) -> DataStream:
    """Key the pairs by their first field and average the second."""
    return pairs.key_by(first, Types.LONG()).flat_map(AverageByValue(), PAIR)


def main() -> None:
    """Average five records of one key."""
    run("average by value", build, ONE_KEY)


# On trial.


def _rule(owner: int, pairs: Sequence[Any]) -> Iterator[tuple[int, float]]:
    for count in range(SECOND, len(pairs) + 1):
        yield owner, sum(number for _, number in pairs[:count]) / count


textbook_average_by_value = on_trial.KeyedProgram(
    name="textbook_average_by_value",
    build=build,
    record_type=PAIR,
    record_schema=on_trial.PAIR_SCHEMA,
    generate=on_trial.draw_pairs,
    row_schema="key BIGINT, average DOUBLE",
    rule=_rule,
    rows_sql="""
SELECT scenario_id, owner AS key, average
FROM (
  SELECT *, avg(number) OVER (PARTITION BY scenario_id, owner ORDER BY place) AS average FROM keyed
)
WHERE place >= 2
""",
)

if __name__ == "__main__":
    main()
