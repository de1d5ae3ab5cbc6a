"""Batches of four measurements of a key, without those that differ much from the newest.

A global window with a counting trigger that purges: each fourth measurement fires the window and empties it.
An evictor by difference removes measurements that are ten or more away from the newest one.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import GlobalWindows
from onceproof.engine.windows.evictors import DeltaEvictor
from onceproof.engine.windows.triggers import CountTrigger, PurgingTrigger
from onceproof.engine.windows.window_functions import WindowFunction
from onceproof.engine.windows.windows import GlobalWindow
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, groups_of, into_table, keyed_records, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Measurement: TypeAlias = tuple[str, str, int]
"""Split, key, number."""

name = "steady_batches"
generator_version = 1
tasks: dict[str, Role] = {"measurements": "source", "batches": "keyed", "table": "sink"}
record_schema = "key STRING, number BIGINT"
row_schema = "split STRING, key STRING, newest BIGINT, kept BIGINT, total BIGINT"
BATCH: Final = 4
THRESHOLD: Final = 10
KEYS: Final = ("inlet", "outlet", "pump", "tank")
oracle_sql = f"""
WITH placed AS (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, key ORDER BY offset) AS place FROM records
), batches AS (
  SELECT *, ceil(place / {BATCH}) AS batch,
    last_value(number) OVER (
      PARTITION BY scenario_id, split, key, ceil(place / {BATCH}) ORDER BY place
      ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
    ) AS newest,
    count(*) OVER (PARTITION BY scenario_id, split, key, ceil(place / {BATCH})) AS size
  FROM placed
)
SELECT scenario_id, split, key, max(newest) AS newest, count(*) AS kept, sum(number) AS total
FROM batches WHERE size = {BATCH} AND abs(number - newest) < {THRESHOLD}
GROUP BY scenario_id, split, key, batch
"""


def generate(random: Random) -> Workload:
    """Draw numbers, some of them exactly the threshold away from others."""
    return draw_keyed(random, KEYS, _number)


def _number(chance: Chance, key: str, now: int) -> tuple[str, int]:
    return key, chance.at_boundary(chance.integer(-15, 25), THRESHOLD)


class Batch(WindowFunction):
    """Emits the newest measurement of a batch, and what is near it."""

    def apply(
        self, key: tuple[str, str], window: GlobalWindow, inputs: Iterable[Measurement]
    ) -> Iterator[tuple[str, str, int, int, int]]:
        numbers = [number for *_, number in inputs]
        yield *key, numbers[-1], len(numbers), sum(numbers)


def _difference(one: Measurement, other: Measurement) -> int:
    return abs(one[2] - other[2])


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build measurements -> batches -> table."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), *([Types.LONG()] * 3)])
    batches = (
        keyed_records(env, io, "measurements")
        .window(GlobalWindows.create())
        .trigger(PurgingTrigger.of(CountTrigger.of(BATCH)))
        .evictor(DeltaEvictor.of(THRESHOLD, _difference))
        .apply(Batch(), row)
    )
    into_table(named(batches, "batches", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Take each four measurements in a row, and of these what is near the last one."""
    rows = []
    for split, key, _, numbers in groups_of(BATCH, records):
        kept = [number for number in numbers if abs(number - numbers[-1]) < THRESHOLD]
        rows.append((split, key, numbers[-1], len(kept), sum(kept)))
    return rows
