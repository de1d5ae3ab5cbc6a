"""A family whose job is one chain: each subtask reads its splits, doubles the numbers and writes them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onceproof import Chance, Workload
from onceproof.engine import Types

if TYPE_CHECKING:
    from onceproof.engine import StreamExecutionEnvironment
    from onceproof.harness.model.family import Declared, JobIO, Records, Role, Rows

name = "one_chain"
generator_version = 1
tasks: dict[str, Role] = {"numbers -> double -> table": "sink"}
record_schema = "split STRING, number BIGINT"
row_schema = "split STRING, number BIGINT"
oracle_sql = "SELECT scenario_id, split, 2 * number AS number FROM records"


def generate(random: Random) -> Workload:
    """Draw up to four splits with some numbers."""
    chance = Chance(random)
    splits = [f"split-{index}" for index in range(chance.integer(1, 4))]
    return Workload(
        {
            split: [(at, (split, chance.integer(1, 99))) for at in range(chance.integer(0, 20))]
            for split in splits
        }
    )


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build numbers -> double -> table, all with one parallelism and no key."""
    kind = Types.TUPLE([Types.STRING(), Types.LONG()])
    numbers = env.from_source(io.source("numbers"), None, "numbers").uid("numbers")
    doubled = numbers.set_parallelism(io.parallelism).map(lambda value: (value[0], 2 * value[1]), kind)
    table = doubled.name("double").uid("double").set_parallelism(io.parallelism).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.parallelism)


def expected(records: Records, declared: Declared) -> Rows:
    """Double each number."""
    return [(split, 2 * value[1]) for split, rows in records.items() for _, value in rows]
