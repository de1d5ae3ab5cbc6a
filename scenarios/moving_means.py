"""The mean of five values of a key, beginning with every second one: sliding windows of a number of records.

A record is in up to three windows at once, each with a list of its own. A window is evaluated when it is full
and leaves nothing behind; how many records the key has had stays in state and numbers the windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onceproof.engine.types import Types
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows
from onceproof.scenarios import running_sum
from onceproof.scenarios._keyed_job import into_table, keyed_records, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "moving_means"
generator_version = 1
tasks: dict[str, Role] = {"values": "source", "means": "keyed", "table": "sink"}
record_schema = running_sum.record_schema
row_schema = "split STRING, key STRING, number BIGINT, mean DOUBLE"
oracle_sql = """
WITH numbered AS (
  SELECT scenario_id, split, key, number,
         row_number() OVER (PARTITION BY scenario_id, split, key ORDER BY offset) - 1 AS place
  FROM records
), windows AS (
  SELECT scenario_id, split, key, place,
         count(number) OVER following AS held, avg(number) OVER following AS mean
  FROM numbered
  WINDOW following AS (
    PARTITION BY scenario_id, split, key ORDER BY place ROWS BETWEEN CURRENT ROW AND 4 FOLLOWING
  )
)
SELECT scenario_id, split, key, CAST(place / 2 AS BIGINT) AS number, mean
FROM windows WHERE held = 5 AND place % 2 = 0
"""
generate = running_sum.generate

SIZE: Final = 5
SLIDE: Final = 2


class Mean(ProcessWindowFunction):
    """Emits number and mean of a window."""

    def process(
        self,
        key: tuple[str, str],
        context: WindowContext,
        elements: Iterable[tuple[str, str, int]],
    ) -> Iterator[tuple[str, str, int, float]]:
        yield *key, context.window().id, sum(number for _, _, number in elements) / SIZE


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> means -> table."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.DOUBLE()])
    windows = keyed_records(env, io, "values").count_window(SIZE, SLIDE)
    into_table(named(windows.process(Mean(), row), "means", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Average the values from each second one on, where there are five."""
    rows = []
    for split, values in records.items():
        numbers: dict[str, list[int]] = {}
        for _, value in values:
            assert isinstance(value, tuple)
            numbers.setdefault(str(value[0]), []).append(int(value[1] or 0))
        for key, of_key in numbers.items():
            for begin in range(0, len(of_key) - SIZE + 1, SLIDE):
                rows.append((split, key, begin // SLIDE, sum(of_key[begin : begin + SIZE]) / SIZE))
    return rows


options = FamilyOptions(any_backend=True)
