"""What the families share that count words as word_count does, and use another kind of sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.types import Types
from scenarios.word_count import Count

if TYPE_CHECKING:
    from engine.datastream import DataStream
    from engine.environment import StreamExecutionEnvironment
    from harness.family import JobIO, Role

TASKS: dict[str, Role] = {"source": "source", "count": "keyed", "sink": "sink"}


def counted_words(env: StreamExecutionEnvironment, io: JobIO) -> DataStream:
    """Build source -> count, and have rows of a word come to one sink subtask, in their order."""
    words = env.from_source(io.source("words"), None, "source").uid("source")
    counts = (
        words.set_parallelism(io.source_parallelism)
        .key_by(lambda word: word, key_type=Types.STRING())
        .process(Count(), output_type=Types.TUPLE([Types.STRING(), Types.LONG()]))
        .name("count")
        .uid("count")
        .set_parallelism(io.parallelism)
    )
    return counts.key_by(lambda row: row[0], key_type=Types.STRING())
