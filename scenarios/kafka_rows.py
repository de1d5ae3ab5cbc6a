"""Word count into a topic of Kafka, exactly once: a transaction for each subtask and checkpoint.

Any process commits what a checkpoint lists, by the id, producer and epoch of the transaction. What no
checkpoint lists is aborted at the next start, also after a change of parallelism.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.model.family import KAFKA, FamilyOptions
from onceproof.scenarios import word_count

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

name = "kafka_rows"
generator_version = 1
options = FamilyOptions(servers=(KAFKA,))
tasks = word_count.tasks
record_schema = word_count.record_schema
row_schema = word_count.row_schema
oracle_sql = word_count.oracle_sql
generate = word_count.generate
expected = word_count.expected


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build source -> count -> sink."""
    sink = word_count.counted_words(env, io).add_sink(io.kafka_sink("counts"))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)
