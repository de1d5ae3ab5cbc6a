"""Parcels that are weighed anywhere and sorted by zone: a random edge, and one with a custom partitioner.

Scales weigh a parcel whichever gets it. Each zone has one chute, and the chute emits whether the parcel is
one of its own: a parcel that a restore deals out to another subtask shows, and so does one that is lost or
dealt out twice.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, cast

from onceproof.engine.functions import ProcessFunction
from onceproof.engine.partitioner import Partitioner
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.engine.functions import RuntimeContext

name = "parcels"
generator_version = 1
options = FamilyOptions(any_backend=True, at_least_once="rows")
tasks: dict[str, Role] = {"parcels": "source", "scales": "keyed", "chutes": "keyed", "table": "sink"}
record_schema = "zone BIGINT, number BIGINT"
row_schema = "zone BIGINT, number BIGINT, grams BIGINT, in_its_chute BOOLEAN"
oracle_sql = """
SELECT scenario_id, zone, number, 100 * (number % 7) + zone AS grams, true AS in_its_chute
FROM records
"""

WEIGHED = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
SORTED = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.BOOLEAN()])


def generate(random: Random) -> Workload:
    """Draw one to three splits of parcels into up to nine zones."""
    chance = Chance(random)
    zones = chance.weighted([(1, 1), (3, 3), (9, 4)])
    longest = chance.weighted([(4, 1), (12, 3), (30, 3)])
    number = 0
    records = {}
    for split in range(chance.integer(1, 3)):
        drawn = []
        for time in range(chance.integer(0, longest)):
            number += 1
            drawn.append((time, (chance.integer(0, zones - 1), number)))
        records[f"parcels-{split}"] = tuple(drawn)
    return Workload(records, {"zones": zones})


class ByZone(Partitioner):
    """Deals the zones out to the chutes, the last zone to the first chute."""

    def partition(self, key: int, num_partitions: int) -> int:
        return (num_partitions - key) % num_partitions


class Chute(ProcessFunction):
    """Adds to a parcel whether it has come down the chute of its zone."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._own = runtime_context.get_index_of_this_subtask()
        self._chutes = runtime_context.get_number_of_parallel_subtasks()

    def process_element(
        self, value: tuple[int, int, int], ctx: ProcessFunction.Context
    ) -> Iterator[tuple[int, int, int, bool]]:
        yield *value, ByZone().partition(value[0], self._chutes) == self._own


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build parcels -> scales, at random -> chutes, by zone -> table."""
    parcels = env.from_source(io.source("parcels"), None, "parcels").uid("parcels")
    parcels.set_parallelism(io.source_parallelism)
    scales = parcels.shuffle().map(_weigh, WEIGHED).name("scales").uid("scales")
    scales.set_parallelism(io.parallelism)
    chutes = scales.partition_custom(ByZone(), _zone).process(Chute(), SORTED).name("chutes").uid("chutes")
    chutes.set_parallelism(io.parallelism)
    table = chutes.rebalance().add_sink(io.sink("table")).name("table").uid("table")
    table.set_parallelism(io.sink_parallelism)


def _weigh(value: tuple[int, int]) -> tuple[int, int, int]:
    zone, number = value
    return zone, number, 100 * (number % 7) + zone


def _zone(value: tuple[int, int, int]) -> int:
    return value[0]


def expected(records: Records, declared: Declared) -> Rows:
    """Return each parcel with its weight, in the chute of its zone."""
    parcels = [cast(tuple[int, int], value) for split in records.values() for _, value in split]
    return [(*_weigh(parcel), True) for parcel in parcels]
