"""Word count from a topic of Kafka into another one, exactly once: consume, transform, produce.

The offsets of the input stand in the same checkpoint as the counts and the transactions of the output, so a
restore takes up all three at one place. The group's offsets are for those who watch the lag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.model.family import KAFKA, FamilyOptions
from onceproof.scenarios import word_count

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

name = "kafka_to_kafka"
generator_version = 1
options = FamilyOptions(any_backend=True, servers=(KAFKA,))
tasks = word_count.tasks
record_schema = word_count.record_schema
row_schema = word_count.row_schema
oracle_sql = word_count.oracle_sql
generate = word_count.generate
expected = word_count.expected


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build source -> count -> sink, with topics at both ends."""
    counts = word_count.counted_words(env, io, io.kafka_source("words"))
    sink = counts.add_sink(io.kafka_sink("counts"))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)
