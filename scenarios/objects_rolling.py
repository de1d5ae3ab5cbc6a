"""Word count into part files at s3:// that roll by size, time and count; checkpoints are there as well.

A file is an upload in parts, which the commit completes. Any process can do that, by the id that a checkpoint
lists; uploads that dead attempts have left are dropped. In real processes the store is a real server, which
is killed, paused and cut off. In the simulation its requests are in trouble as in `files_rolling.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.model.family import S3, FamilyOptions
from onceproof.scenarios import files_rolling, word_count

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

name = "objects_rolling"
generator_version = 1
options = FamilyOptions(servers=(S3,), writes_files=True)
tasks = files_rolling.tasks
record_schema = files_rolling.record_schema
row_schema = files_rolling.row_schema
oracle_sql = files_rolling.oracle_sql
generate = files_rolling.draw_trouble
expected = files_rolling.expected


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build source -> count -> part files."""
    sink = word_count.counted_words(env, io).add_sink(io.object_sink("counts"))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)
