"""Word count in bundles: words are aggregated before the shuffle, and a bundle gives one row for each word.

The row is the running count when the bundle ends. Where bundles end depends on when records, barriers and
timers come, so the oracles take a row's count as declared and check this: no count is given twice or exceeds
the occurrences of the word, and the last one counts all of them, at the end and at each checkpoint, since no
bundle is open across a barrier.

The accumulator is a list that is changed in place: if bundle, state and snapshot share one, it shows here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from onceproof.engine.durations import Duration
from onceproof.engine.functions import AggregateFunction
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios import word_count

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "word_bundles"
generator_version = 2
options = FamilyOptions(declares=True)
tasks: dict[str, Role] = {"source -> Local Aggregate": "source", "count": "keyed", "sink": "sink"}
record_schema = word_count.record_schema
row_schema = word_count.row_schema
oracle_sql = """
WITH due AS (SELECT scenario_id, word, count(*) AS due FROM records GROUP BY scenario_id, word)
SELECT scenario_id, word, due AS count FROM due
UNION
SELECT scenario_id, word, count FROM declared JOIN due USING (scenario_id, word) WHERE count BETWEEN 1 AND due
"""

SIZE = "bundle_records"
SIZES = (1, 2, 3, 5, 10, 1000)
LATENCY = "bundle_latency_ms"
LATENCIES = (0, 2, 10, 60)
"""Milliseconds after which a bundle ends; 0: there is no limit."""


def generate(random: Random) -> Workload:
    """Draw words, the size of a bundle, and its latency."""
    workload = word_count.generate(random)
    chance = Chance(random)
    drawn = {SIZE: chance.choice(SIZES), LATENCY: chance.choice(LATENCIES)}
    return replace(workload, parameters={**workload.parameters, **drawn})


class Count(AggregateFunction):
    """Counts in a list of one number, which it changes in place."""

    def create_accumulator(self) -> list[int]:
        return [0]

    def add(self, value: str, accumulator: list[int]) -> list[int]:
        accumulator[0] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        return accumulator[0]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        """Add the second to the first, in place."""
        acc_a[0] += acc_b[0]
        return acc_a


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build source -> counts of bundles -> count -> sink, both exchanges keyed by the word."""
    latency_ms = int(io.parameters[LATENCY])
    words = env.from_source(io.source("words"), None, "source").uid("source")
    counts = (
        words.set_parallelism(io.source_parallelism)
        .key_by(lambda word: word, key_type=Types.STRING())
        .bundle(int(io.parameters[SIZE]), Duration.of_millis(latency_ms) if latency_ms else None)
        .aggregate(Count(), Types.LIST(Types.LONG()), Types.TUPLE([Types.STRING(), Types.LONG()]))
        .name("count")
        .uid("count")
        .set_parallelism(io.parallelism)
    )
    sink = counts.key_by(lambda row: row[0], key_type=Types.STRING()).add_sink(io.sink("counts"))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)


def expected(records: Records, declared: Declared) -> Rows:
    """Return each possible declared count once, and the whole count of each word."""
    due = Counter(word for split in records.values() for _, word in split)
    rows = {(word, count) for word, count in due.items()}
    rows.update((word, count) for word, count in declared.rows if count and 1 <= count <= due[word])
    return list(rows)
