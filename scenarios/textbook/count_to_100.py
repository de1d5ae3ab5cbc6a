"""Count to 100: a ValueState counts the records of a key; at 100 the program says so and begins again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine import FlatMapFunction, RuntimeContext, Types, ValueStateDescriptor
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Workload
from onceproof.scenarios.textbook import _on_trial as on_trial
from onceproof.scenarios.textbook._example_input import PAIR, first, run

if TYPE_CHECKING:
    from onceproof.engine import DataStream

HUNDRED = 100


class CountToHundred(FlatMapFunction):
    """Emits ``state: 100`` at every hundredth record of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def flat_map(self, value: tuple[int, float]) -> Iterator[str]:
        count = self._count.value()
        count = 1 if count is None else count + 1
        self._count.update(count)
        if count == HUNDRED:
            yield f"state: {count}"
            self._count.clear()


def build(pairs: DataStream) -> DataStream:
    """Key the pairs by their first field and count them."""
    return pairs.key_by(first, Types.LONG()).flat_map(CountToHundred(), Types.STRING())


def main() -> None:
    """Count 250 records of one key."""
    run("count to 100", build, [(1, float(number)) for number in range(250)])


# On trial.


def _draw(random: Random) -> Workload:
    """Draw one or two splits of one or two keys, some of which come to 100 once or twice."""
    chance = Chance(random)
    records = {}
    for split in range(chance.integer(1, 2)):
        keys = chance.integer(1, 2)
        count = chance.weighted([(chance.integer(0, 99), 1), (chance.integer(100, 260), 4)])
        records[f"part-{split}"] = tuple([(time, (chance.integer(1, keys), 0.0)) for time in range(count)])
    return Workload(records, {"splits": len(records)})


def _rule(owner: int, pairs: Sequence[Any]) -> list[tuple[str]]:
    return [("state: 100",)] * (len(pairs) // HUNDRED)


textbook_count_to_100 = on_trial.KeyedProgram(
    name="textbook_count_to_100",
    build=build,
    record_type=PAIR,
    record_schema=on_trial.PAIR_SCHEMA,
    generate=_draw,
    row_schema="text STRING",
    rule=_rule,
    rows_sql="SELECT scenario_id, 'state: 100' AS text FROM keyed WHERE place % 100 = 0",
)

if __name__ == "__main__":
    main()
