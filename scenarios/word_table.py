"""A table with the latest count of each word: an idempotent sink, which writes by key.

A restored job writes rows again, so a reader may see an older count for a while. In the end each word has the
count of the whole input, and once a checkpoint is complete, never less than that of its cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from onceproof.harness.model.family import NOTHING_DECLARED, FamilyOptions
from onceproof.scenarios import word_count

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import Declared, JobIO, Records, Rows

name = "word_table"
generator_version = 1
tasks = word_count.tasks
record_schema = word_count.record_schema
row_schema = word_count.row_schema
oracle_sql = "SELECT scenario_id, word, count(*) AS count FROM records GROUP BY scenario_id, word"
generate = word_count.generate

KEYS: Final = 1
"""A row's key is its first column, the word."""


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build source -> count -> sink."""
    sink = word_count.counted_words(env, io).add_sink(io.upsert_sink("counts", KEYS))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)


def streaming_query(records: Any, io: Any) -> Any:
    """Count with Spark's own aggregation; the last count of each word is written by key."""
    return io.table(records.groupBy("word").count(), KEYS)


def versions(records: Records) -> Rows:
    """Number the occurrences of each word: a reader sees these numbers one after the other."""
    return word_count.expected(records, NOTHING_DECLARED)


def expected(records: Records, declared: Declared) -> Rows:
    """Count each word."""
    counts: dict[object, int] = {}
    for split in records.values():
        for _, word in split:
            counts[word] = counts.get(word, 0) + 1
    return list(counts.items())


options = FamilyOptions(table_keys=KEYS, jobs={"structured_streaming": streaming_query}, versions=versions)
