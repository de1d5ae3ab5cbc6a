"""Word count into files of Parquet at s3://, in buckets, of a few rows each; checkpoints are there, too.

Such a file is whole only at its end, so all of it is stored as it is complete. Otherwise as
`objects_rolling.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.model.family import S3, FamilyOptions
from onceproof.scenarios import objects_rolling, word_count

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

name = "objects_parquet"
generator_version = 1
options = FamilyOptions(servers=(S3,), writes_files=True)
tasks = objects_rolling.tasks
record_schema = objects_rolling.record_schema
row_schema = objects_rolling.row_schema
oracle_sql = objects_rolling.oracle_sql
generate = objects_rolling.generate
expected = objects_rolling.expected


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build source -> count -> files of Parquet."""
    sink = word_count.counted_words(env, io).add_sink(io.parquet_sink("counts"))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)
