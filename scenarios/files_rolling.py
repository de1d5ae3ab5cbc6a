"""Word count into part files that roll by size and time, in buckets: in an object store, or in folders.

A transaction has several files. In the simulation each is an upload in parts, and the workload says what goes
wrong between the store and its clients: a request that lands after its writer is dead, a part that is stored
half, a request that is performed twice, a list that is stale. Where there is no trouble, as in six of ten
scenarios, and where a consumer takes visible files away, they are in folders.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import FamilyOptions, Workload
from onceproof.scenarios import word_count

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

name = "files_rolling"
generator_version = 2
options = FamilyOptions(writes_files=True)
tasks = word_count.tasks
record_schema = word_count.record_schema
row_schema = word_count.row_schema
oracle_sql = word_count.oracle_sql
expected = word_count.expected

TROUBLES = ("none", "late", "torn", "repeated", "stale")
LATEST_BEGIN = 40
"""The request from which on some are in trouble."""


def generate(random: Random) -> Workload:
    """Draw words, and either trouble with the object store or folders."""
    workload = draw_trouble(random)
    if not Chance(random).chance(0.5):
        return workload
    return Workload(workload.records, {**workload.parameters, "trouble": "none"})


def draw_trouble(random: Random) -> Workload:
    """Draw words, and the trouble with the object store."""
    words = word_count.generate(random)
    chance = Chance(random)
    trouble, begin = chance.choice(TROUBLES), chance.integer(1, LATEST_BEGIN)
    return Workload(words.records, {**words.parameters, "trouble": trouble, "trouble_from": begin})


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build source -> count -> part files."""
    sink = word_count.counted_words(env, io).add_sink(io.file_sink("counts"))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)
