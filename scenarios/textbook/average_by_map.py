"""The average of all records of a key from the third on; a MapState keeps each number under a random UUID.

A replay draws other UUIDs. The rows are the same all the same, because they follow from the values alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

from onceproof.engine import FlatMapFunction, MapStateDescriptor, RuntimeContext, Types
from onceproof.harness.model.family import FamilyOptions
from onceproof.scenarios.textbook import _on_trial as on_trial
from onceproof.scenarios.textbook._example_input import PAIR, TWO_KEYS, first, run
from onceproof.scenarios.textbook.average_by_list import FROM_THE_THIRD_ON_SQL, THIRD, from_the_third_on

if TYPE_CHECKING:
    from onceproof.engine import DataStream


class AverageByMap(FlatMapFunction):
    """Keeps one entry for each record, and never removes one."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("numbers", Types.STRING(), Types.DOUBLE())
        self._numbers = runtime_context.get_map_state(descriptor)

    def flat_map(self, value: tuple[int, float]) -> Iterator[tuple[int, float]]:
        key, number = value
        self._numbers.put(str(uuid4()), number)
        numbers = list(self._numbers.values())
        if len(numbers) >= THIRD:
            yield key, sum(numbers) / len(numbers)


def build(pairs: DataStream) -> DataStream:
    """Key the pairs by their first field and average the second."""
    return pairs.key_by(first, Types.LONG()).flat_map(AverageByMap(), PAIR)


def main() -> None:
    """Average three records of each of two keys."""
    run("average by map", build, TWO_KEYS)


# On trial.

textbook_average_by_map = on_trial.KeyedProgram(
    name="textbook_average_by_map",
    build=build,
    record_type=PAIR,
    record_schema=on_trial.PAIR_SCHEMA,
    generate=on_trial.draw_pairs,
    row_schema="key BIGINT, average DOUBLE",
    rule=from_the_third_on,
    rows_sql=FROM_THE_THIRD_ON_SQL,
    # No two runs hold the same keys, so checkpoints are not compared by them.
    options=FamilyOptions(any_backend=True, arrival_states=("numbers",)),
)

if __name__ == "__main__":
    main()
