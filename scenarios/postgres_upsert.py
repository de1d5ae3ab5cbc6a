"""A table of PostgreSQL with the latest count of each word: an idempotent sink, which writes by key.

A restored job writes rows again, so a reader may see an older count for a while. What a dead attempt has
asked of the server must not come after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.model.family import POSTGRES, FamilyOptions
from onceproof.scenarios import word_count, word_table

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

name = "postgres_upsert"
generator_version = 1
tasks = word_table.tasks
record_schema = word_table.record_schema
row_schema = word_table.row_schema
oracle_sql = word_table.oracle_sql
generate = word_table.generate
expected = word_table.expected
versions = word_table.versions


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build source -> count -> sink."""
    sink = word_count.counted_words(env, io).add_sink(io.postgres_upsert_sink("counts", word_table.KEYS))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)


options = FamilyOptions(table_keys=word_table.KEYS, versions=versions, servers=(POSTGRES,))
