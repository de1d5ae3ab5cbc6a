"""A table of the sum of each key, in the runtime mode BATCH: it is written at the end of the input only.

The values are collected until then. What an operator emits too early is in no checkpoint, and a sink with
transactions aborts it. This sink has none: it writes by key, and a reader sees what it writes. So each value
that a reader sees must be a whole sum, whichever attempt wrote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onceproof.engine.api.batch_execution import RuntimeExecutionMode
from onceproof.harness.model.family import (
    NOTHING_DECLARED,
    Declared,
    FamilyOptions,
    JobIO,
    Records,
    Role,
    Rows,
)
from onceproof.scenarios import running_sum
from onceproof.scenarios._keyed_job import keyed_records

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "final_table"
generator_version = 1
tasks: dict[str, Role] = {"values": "source", "sums -> table": "sink"}
record_schema = running_sum.record_schema
row_schema = "split STRING, key STRING, total BIGINT"
oracle_sql = """
SELECT scenario_id, split, key, sum(number) AS total FROM records GROUP BY scenario_id, split, key
"""
generate = running_sum.generate
KEYS: Final = 2
"""A row's key is its split and its key."""


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build values -> sums -> table, the last two in one chain."""
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    sums = keyed_records(env, io, "values").sum(2).name("sums").uid("sums")
    table = sums.set_parallelism(io.sink_parallelism).add_sink(io.upsert_sink("table", KEYS))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def expected(records: Records, declared: Declared) -> Rows:
    """Add the values of each key of each split."""
    totals: dict[tuple[str, str], int] = {}
    for split, values in records.items():
        for _, value in values:
            assert isinstance(value, tuple)
            key = split, str(value[0])
            totals[key] = totals.get(key, 0) + int(value[1] or 0)
    return [(*key, total) for key, total in totals.items()]


def versions(records: Records) -> Rows:
    """Return the sums: a reader sees no other."""
    return expected(records, NOTHING_DECLARED)


options = FamilyOptions(any_backend=True, table_keys=KEYS, versions=versions, written_at_end=True, batch=True)
