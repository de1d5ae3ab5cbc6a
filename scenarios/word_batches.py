"""Word count through a write-ahead sink: rows wait in the checkpoint until it completes, and are sent then.

The target has no transactions. It recognises a batch that it already has by checkpoint and subtask. So a
crash after a batch was sent, and before that was recorded, makes nothing visible twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.model.family import FamilyOptions
from onceproof.scenarios import word_count

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

name = "word_batches"
generator_version = 1
tasks = word_count.tasks
record_schema = word_count.record_schema
row_schema = word_count.row_schema
oracle_sql = word_count.oracle_sql
generate = word_count.generate
expected = word_count.expected
options = FamilyOptions(sends_batches=True)


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build source -> count -> sink."""
    sink = word_count.counted_words(env, io).add_sink(io.write_ahead_sink("counts"))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)
