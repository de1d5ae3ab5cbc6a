"""The average of all records of a key from the third on; a ListState keeps the records and is not cleared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from onceproof.engine import FlatMapFunction, ListStateDescriptor, RuntimeContext, Types
from onceproof.scenarios.textbook import _on_trial as on_trial
from onceproof.scenarios.textbook._example_input import PAIR, TWO_KEYS, first, run

if TYPE_CHECKING:
    from onceproof.engine import DataStream

THIRD = 3


class AverageByList(FlatMapFunction):
    """Keeps whole records, as the textbook does."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._pairs = runtime_context.get_list_state(ListStateDescriptor("pairs", PAIR))

    def flat_map(self, value: tuple[int, float]) -> Iterator[tuple[int, float]]:
        self._pairs.add(value)
        numbers = [number for _, number in self._pairs.get()]
        if len(numbers) >= THIRD:
            yield value[0], sum(numbers) / len(numbers)


def build(pairs: DataStream) -> DataStream:
    """Key the pairs by their first field and average the second."""
    return pairs.key_by(first, Types.LONG()).flat_map(AverageByList(), PAIR)


def main() -> None:
    """Average three records of each of two keys."""
    run("average by list", build, TWO_KEYS)


# On trial.


def from_the_third_on(owner: int, pairs: Sequence[Any]) -> Iterator[tuple[int, float]]:
    """Return the averages of the first three records, the first four, and so on."""
    for count in range(THIRD, len(pairs) + 1):
        yield owner, sum(number for _, number in pairs[:count]) / count


FROM_THE_THIRD_ON_SQL = """
SELECT scenario_id, owner AS key, average
FROM (
  SELECT *, avg(number) OVER (PARTITION BY scenario_id, owner ORDER BY place) AS average FROM keyed
)
WHERE place >= 3
"""

textbook_average_by_list = on_trial.KeyedProgram(
    name="textbook_average_by_list",
    build=build,
    record_type=PAIR,
    record_schema=on_trial.PAIR_SCHEMA,
    generate=on_trial.draw_pairs,
    row_schema="key BIGINT, average DOUBLE",
    rule=from_the_third_on,
    rows_sql=FROM_THE_THIRD_ON_SQL,
)

if __name__ == "__main__":
    main()
