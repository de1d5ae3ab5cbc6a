"""All numbers of a key joined into one text by an AggregatingState: ``Contains-3.0-5.0-7.0``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from onceproof.engine import (
    AggregateFunction,
    AggregatingStateDescriptor,
    FlatMapFunction,
    RuntimeContext,
    Types,
)
from onceproof.scenarios.textbook import _on_trial as on_trial
from onceproof.scenarios.textbook._example_input import PAIR, TWO_KEYS, first, run

if TYPE_CHECKING:
    from onceproof.engine import DataStream


class Contains(AggregateFunction):
    """Accumulates a text that begins with ``Contains``."""

    def create_accumulator(self) -> str:
        return "Contains"

    def add(self, value: float, accumulator: str) -> str:
        return f"{accumulator}-{value}"

    def get_result(self, accumulator: str) -> str:
        return accumulator

    def merge(self, acc_a: str, acc_b: str) -> str:
        return acc_a + acc_b.removeprefix("Contains")


class Concatenate(FlatMapFunction):
    """Emits the text at every record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = AggregatingStateDescriptor("numbers", Contains(), Types.STRING())
        self._numbers = runtime_context.get_aggregating_state(descriptor)

    def flat_map(self, value: tuple[int, float]) -> Iterator[tuple[int, str]]:
        key, number = value
        self._numbers.add(number)
        yield key, self._numbers.get()


def build(pairs: DataStream) -> DataStream:
    """Key the pairs by their first field and join the second."""
    row = Types.TUPLE([Types.LONG(), Types.STRING()])
    return pairs.key_by(first, Types.LONG()).flat_map(Concatenate(), row)


def main() -> None:
    """Join three records of each of two keys."""
    run("concatenation", build, TWO_KEYS)


# On trial.


def _rule(owner: int, pairs: Sequence[Any]) -> Iterator[tuple[int, str]]:
    for count in range(1, len(pairs) + 1):
        yield owner, "-".join(["Contains", *(str(number) for _, number in pairs[:count])])


textbook_concatenation = on_trial.KeyedProgram(
    name="textbook_concatenation",
    build=build,
    record_type=PAIR,
    record_schema=on_trial.PAIR_SCHEMA,
    generate=on_trial.draw_pairs,
    row_schema="key BIGINT, text STRING",
    rule=_rule,
    rows_sql="""
SELECT scenario_id, owner AS key, concat('Contains-', array_join(
  collect_list(cast(number AS STRING)) OVER (PARTITION BY scenario_id, owner ORDER BY place), '-'
)) AS text
FROM keyed
""",
)

if __name__ == "__main__":
    main()
