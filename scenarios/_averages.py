"""The average of every three values of a key: what the three variants of the example have in common.

One page of the textbook keeps the values in a ValueState, one in a ListState and one in a MapState; input,
output and oracles are the same, so a difference between the variants is one between the kinds of state.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, into_table, keyed_records, named

if TYPE_CHECKING:
    from onceproof.engine.api.environment import StreamExecutionEnvironment
    from onceproof.engine.functions import KeyedProcessFunction

tasks: dict[str, Role] = {"values": "source", "averages": "keyed", "table": "sink"}
record_schema = "key STRING, number BIGINT"
row_schema = "split STRING, key STRING, last BIGINT, average DOUBLE"
oracle_sql = """
SELECT scenario_id, split, key, max(place) AS last, avg(number) AS average
FROM (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, key ORDER BY offset) AS place
  FROM records
)
GROUP BY scenario_id, split, key, ceil(place / 3)
HAVING count(*) = 3
"""

KEYS = ("a", "b", "c", "d", "e")
THREE = 3


def generate(random: Random) -> Workload:
    """Draw numbers, negative ones among them, so that sums do not only grow."""
    return draw_keyed(random, KEYS, _number)


def _number(chance: Chance, key: str, now: int) -> tuple[str, int]:
    return key, chance.integer(-9, 30)


def build(env: StreamExecutionEnvironment, io: JobIO, function: KeyedProcessFunction) -> None:
    """Build values -> averages -> table around the variant's function."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.DOUBLE()])
    into_table(named(keyed_records(env, io, "values").process(function, row), "averages", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Average each three in a row; ``last`` is the place of the third among the values of the key."""
    rows = []
    for split, values in records.items():
        numbers: dict[object, list[int]] = {}
        for _, value in values:
            assert isinstance(value, tuple)
            so_far = numbers.setdefault(value[0], [])
            so_far.append(int(value[1] or 0))
            if len(so_far) % THREE == 0:
                rows.append((split, value[0], len(so_far), sum(so_far[-THREE:]) / THREE))
    return rows
