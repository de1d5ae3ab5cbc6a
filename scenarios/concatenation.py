"""All values of a key joined into one text, kept in an AggregatingState.

The accumulator is a list that is changed in place: a snapshot that shares it with the running job shows here.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onceproof.engine.functions import AggregateFunction, KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import AggregatingStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, into_table, keyed_records, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "concatenation"
generator_version = 1
tasks: dict[str, Role] = {"values": "source", "texts": "keyed", "table": "sink"}
record_schema = "key STRING, word STRING"
row_schema = "split STRING, key STRING, text STRING"
oracle_sql = """
SELECT scenario_id, split, key,
       array_join(collect_list(word) OVER (PARTITION BY scenario_id, split, key ORDER BY offset), ' and ')
         AS text
FROM records
"""

KEYS = ("a", "b", "c", "d", "e")
WORDS = ("", "one", "two", "three", "four", "fünf", "and")
SEPARATOR = " and "


def generate(random: Random) -> Workload:
    """Draw words, among them the empty word and the separator."""
    return draw_keyed(random, KEYS, _word)


def _word(chance: Chance, key: str, now: int) -> tuple[str, str]:
    return key, chance.choice(WORDS)


class Concatenation(AggregateFunction):
    """Accumulates the words in a list."""

    def create_accumulator(self) -> list[str]:
        return []

    def add(self, value: str, accumulator: list[str]) -> list[str]:
        """Append a word, in place."""
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[str]) -> str:
        return SEPARATOR.join(accumulator)

    def merge(self, acc_a: list[str], acc_b: list[str]) -> list[str]:
        return acc_a + acc_b


class Concatenate(KeyedProcessFunction):
    """Emits the text after each word."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = AggregatingStateDescriptor("words", Concatenation(), Types.LIST(Types.STRING()))
        self._words = runtime_context.get_aggregating_state(descriptor)

    def process_element(
        self, value: tuple[str, str, str], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, str]]:
        split, key, word = value
        self._words.add(word)
        yield split, key, self._words.get()


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> texts -> table."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING()])
    into_table(named(keyed_records(env, io, "values").process(Concatenate(), row), "texts", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Join the words of each key up to each of them."""
    rows: list[tuple[str, str, str]] = []
    for split, values in records.items():
        texts: dict[str, str] = {}
        for _, value in values:
            assert isinstance(value, tuple)
            key, word = str(value[0]), str(value[1])
            texts[key] = texts[key] + SEPARATOR + word if key in texts else word
            rows.append((split, key, texts[key]))
    return rows
