"""Word count into a table of PostgreSQL, exactly once: prepared transactions, and a ledger of the committed.

A second commit of a transaction is answered like that of one which never existed; the ledger tells them
apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.model.family import POSTGRES, FamilyOptions
from onceproof.scenarios import word_count

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

name = "postgres_rows"
generator_version = 1
tasks = word_count.tasks
record_schema = word_count.record_schema
row_schema = word_count.row_schema
oracle_sql = word_count.oracle_sql
generate = word_count.generate
expected = word_count.expected


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build source -> count -> sink."""
    sink = word_count.counted_words(env, io).add_sink(io.postgres_sink("counts"))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)


options = FamilyOptions(servers=(POSTGRES,))
