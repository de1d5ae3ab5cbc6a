"""Each two numbers of a key, emitted in a list that the function keeps, clears and fills again.

Many programs are written so, the textbook's operator state among them. What is emitted must be what the list
held then.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, groups_of, into_table, keyed_records, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "reused_lists"
generator_version = 1
options = FamilyOptions(any_backend=True)
tasks: dict[str, Role] = {"numbers": "source", "pairs -> rows": "keyed", "table": "sink"}
record_schema = "key STRING, number BIGINT"
row_schema = "split STRING, key STRING, place BIGINT, first BIGINT, second BIGINT"
oracle_sql = """
SELECT scenario_id, split, key, place, first, second FROM (
  SELECT scenario_id, split, key, number AS second,
         lag(number) OVER (PARTITION BY scenario_id, split, key ORDER BY offset) AS first,
         row_number() OVER (PARTITION BY scenario_id, split, key ORDER BY offset) AS place
  FROM records
) WHERE place % 2 = 0
"""

KEYS = ("a", "b", "c", "d", "e", "f", "g")
PAIR = 2


def generate(random: Random) -> Workload:
    """Draw numbers that are mostly different, so that a pair shows which numbers are in it."""
    return draw_keyed(random, KEYS, _number)


def _number(chance: Chance, key: str, now: int) -> tuple[str, int]:
    return key, chance.integer(-20, 1000)


class Pairs(KeyedProcessFunction):
    """Emits split, key, place and two numbers: always in the same list, which it clears afterwards."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self._pair: list[Any] = []

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[list[Any]]:
        split, key, number = value
        self._numbers.add(number)
        numbers = self._numbers.get()
        if len(numbers) % PAIR == 0:
            self._pair += [split, key, len(numbers), *numbers[-PAIR:]]
            yield self._pair
            self._pair.clear()


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build numbers -> pairs, with the map that makes rows of lists in the same task -> table."""
    pairs = named(keyed_records(env, io, "numbers").process(Pairs()), "pairs", io)
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])
    into_table(named(pairs.map(tuple, row), "rows", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Return each two numbers in a row of a key."""
    return [(split, key, place, *numbers) for split, key, place, numbers in groups_of(PAIR, records)]
