"""Word count from a topic of Kafka into a table of PostgreSQL, exactly once.

Two systems that know nothing of each other agree through the checkpoint: it holds the offsets of the one and
the names of the prepared transactions of the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.model.family import KAFKA, POSTGRES, FamilyOptions
from onceproof.scenarios import word_count

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

name = "kafka_to_postgres"
generator_version = 1
options = FamilyOptions(servers=(KAFKA, POSTGRES))
tasks = word_count.tasks
record_schema = word_count.record_schema
row_schema = word_count.row_schema
oracle_sql = word_count.oracle_sql
generate = word_count.generate
expected = word_count.expected


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build source -> count -> sink, from a topic into a table."""
    counts = word_count.counted_words(env, io, io.kafka_source("words"))
    sink = counts.add_sink(io.postgres_sink("counts"))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)
