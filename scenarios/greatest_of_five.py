"""The greatest of each five values of a key: a count window and an aggregate.

A count window is a global window with a trigger that counts and purges: its state is the trigger's count and
the aggregate's accumulator, under a namespace. Incomplete windows at the end of the input give no row.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onceproof.engine.functions import AggregateFunction
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, groups_of, into_table, keyed_records, named

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "greatest_of_five"
generator_version = 1
tasks: dict[str, Role] = {"values": "source", "greatest": "keyed", "table": "sink"}
record_schema = "key STRING, number BIGINT"
row_schema = "split STRING, key STRING, greatest BIGINT"
oracle_sql = """
SELECT scenario_id, split, key, max(number) AS greatest
FROM (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, key ORDER BY offset) AS place
  FROM records
)
GROUP BY scenario_id, split, key, ceil(place / 5)
HAVING count(*) = 5
"""

KEYS = ("a", "b", "c", "d")
FIVE = 5


def generate(random: Random) -> Workload:
    """Draw numbers that grow with time, so that each window has a maximum of its own."""
    return draw_keyed(random, KEYS, _number)


def _number(chance: Chance, key: str, now: int) -> tuple[str, int]:
    return key, now - 50 + chance.integer(-30, 30)


class Greatest(AggregateFunction):
    """Accumulates the value with the greatest number, in a list that is empty at first."""

    def create_accumulator(self) -> list[tuple[str, str, int]]:
        return []

    def add(
        self, value: tuple[str, str, int], accumulator: list[tuple[str, str, int]]
    ) -> list[tuple[str, str, int]]:
        return [max([*accumulator, value], key=_number_of)]

    def get_result(self, accumulator: list[tuple[str, str, int]]) -> tuple[str, str, int]:
        return accumulator[0]

    def merge(
        self, acc_a: list[tuple[str, str, int]], acc_b: list[tuple[str, str, int]]
    ) -> list[tuple[str, str, int]]:
        return [max(acc_a + acc_b, key=_number_of)]


def _number_of(value: tuple[str, str, int]) -> int:
    return value[2]


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> greatest -> table."""
    values = keyed_records(env, io, "values").count_window(FIVE)
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
    greatest = values.aggregate(Greatest(), accumulator_type=Types.LIST(row), output_type=row)
    into_table(named(greatest, "greatest", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Take the greatest of each five values in a row."""
    return [(split, key, max(numbers)) for split, key, _, numbers in groups_of(FIVE, records)]
