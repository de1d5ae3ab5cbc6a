"""Word count through a sink of writer and committer, with each reaction of a committer to an error.

A checkpoint lists several committables of a subtask. The workload says what the committer does with a failed
commit: raise, retry it, retry it with the remaining rows, or fail the job. A commit that took place although
it was reported as failed is recognised when it is tried again.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Workload
from onceproof.scenarios import word_count

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.family import JobIO

name = "word_commits"
generator_version = 1
tasks = word_count.tasks
record_schema = word_count.record_schema
row_schema = word_count.row_schema
oracle_sql = word_count.oracle_sql
expected = word_count.expected

REACTIONS = ("raises", "puts off", "updates", "fails")


def generate(random: Random) -> Workload:
    """Draw words, and the committer's reaction to an error."""
    words = word_count.generate(random)
    reaction = Chance(random).choice(REACTIONS)
    return Workload(words.records, {**words.parameters, "reaction": reaction})


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build source -> count -> sink."""
    sink = word_count.counted_words(env, io).sink_to(io.committing_sink("counts"))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)
