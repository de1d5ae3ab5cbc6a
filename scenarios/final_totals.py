"""The sum of each key, and of these the sum of each split, in the runtime mode BATCH.

There is one result for each key, at the end of its records. The totals are a second blocking stage: it begins
when the sums have ended. A job that dies before its only checkpoint begins again; one that is restored from
it is behind the end of its input, and emits nothing again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.engine.api.batch_execution import RuntimeExecutionMode
from onceproof.engine.functions import ReduceFunction
from onceproof.engine.types import Types
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows
from onceproof.scenarios import running_sum
from onceproof.scenarios._keyed_job import into_table, keyed_records, named

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "final_totals"
generator_version = 1
tasks: dict[str, Role] = {"values": "source", "sums": "keyed", "totals": "keyed", "table": "sink"}
record_schema = running_sum.record_schema
row_schema = "split STRING, key STRING, total BIGINT"
oracle_sql = """
SELECT scenario_id, split, min(key) AS key, sum(number) AS total FROM records GROUP BY scenario_id, split
"""
generate = running_sum.generate


class Add(ReduceFunction):
    """Adds two totals of a split, under the lesser key."""

    def reduce(self, value1: tuple[str, str, int], value2: tuple[str, str, int]) -> tuple[str, str, int]:
        return value1[0], min(value1[1], value2[1]), value1[2] + value2[2]


def _split(value: tuple[str, str, int]) -> str:
    return value[0]


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> sums (by key) -> totals (by split) -> table."""
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    sums = named(keyed_records(env, io, "values").sum(2), "sums", io)
    into_table(named(sums.key_by(_split, Types.STRING()).reduce(Add()), "totals", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Add the values of each split; before the end none of the totals need be there."""
    rows = []
    for split, values in records.items():
        numbers = [value for _, value in values if isinstance(value, tuple)]
        if numbers:
            rows.append(
                (split, min(str(key) for key, _ in numbers), sum(int(number or 0) for _, number in numbers))
            )
    return declared.so_far(rows)


options = FamilyOptions(any_backend=True, declares=True, batch=True)
