"""Page views from a topic of Kafka, counted by url and ten seconds, into another topic, exactly once.

The sink of a window has nothing to write for long, and then several rows at once: many checkpoints have no
transaction, and a window that closes as a process dies is counted again, or committed by the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.harness.model.family import KAFKA, FamilyOptions
from onceproof.scenarios import page_windows

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

name = "kafka_exactly_once_window"
generator_version = 1
options = FamilyOptions(declares=True, any_backend=True, servers=(KAFKA,), answers=page_windows.window_of)
tasks = page_windows.tasks
record_schema = page_windows.record_schema
row_schema = page_windows.row_schema
oracle_sql = page_windows.oracle_sql
generate = page_windows.generate
expected = page_windows.expected


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build views -> windows -> table, with topics at both ends."""
    table = page_windows.counted_views(env, io, io.kafka_source("views")).add_sink(io.kafka_sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)
