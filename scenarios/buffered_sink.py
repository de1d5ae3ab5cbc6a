"""The buffering sink of Flink's documentation: it keeps elements in operator state and writes ten at a time.

At the end every element is written exactly once. Until then each subtask may hold back fewer than ten. Which
ones depends on the order of arrival: the rows declare it, and the oracle checks the number.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._buffering import MOST_SUBTASKS, BufferingSink, build

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "buffered_sink"
generator_version = 1
options = FamilyOptions(declares=True, at_least_once="rows")
tasks: dict[str, Role] = {"numbers": "source", "table": "sink"}
record_schema = "number BIGINT"
row_schema = "number BIGINT"
oracle_sql = "SELECT scenario_id, number FROM records"

THRESHOLD = 10


def generate(random: Random) -> Workload:
    """Draw enough numbers to fill some buffers; some numbers repeat."""
    chance = Chance(random)
    splits = chance.weighted([(1, 2), (2, 3), (3, 2)])
    longest = chance.weighted([(8, 1), (30, 3), (60, 3)])
    records = {
        f"numbers-{split}": tuple(
            (place, chance.integer(0, 99)) for place in range(chance.integer(0, longest))
        )
        for split in range(splits)
    }
    return Workload(records, {"splits": splits})


class TableSink(BufferingSink):
    """Writes each number as a row of its own."""

    def rows(self, values: Sequence[int]) -> Sequence[tuple[int]]:
        return [(value,) for value in values]


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build numbers -> table."""
    build(env, io, TableSink(THRESHOLD, io.sink("table")))


def expected(records: Records, declared: Declared) -> Rows:
    """Return every number once; before the end, the numbers written so far if the rest may be held back."""
    numbers = Counter((number,) for split in records.values() for _, number in split)
    if declared.is_whole:
        return list(numbers.elements())
    written = numbers & Counter(declared.rows)
    held_back = numbers.total() - written.total()
    return list((written if held_back <= MOST_SUBTASKS * (THRESHOLD - 1) else numbers).elements())
