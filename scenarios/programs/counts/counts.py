"""Word counts that are kept in an attribute of the function: the bug that README.md shows being caught."""

from onceproof import Chance, Workload
from onceproof.engine import FlatMapFunction, Types

name = "counts"
generator_version = 1
tasks = {"words": "source", "count": "keyed", "rows": "sink"}
record_schema = "word STRING"
row_schema = "word STRING, count BIGINT"
oracle_sql = """
SELECT scenario_id, word, row_number() OVER (PARTITION BY scenario_id, word ORDER BY offset) AS count
FROM records
"""


class Count(FlatMapFunction):
    """Counts each word."""

    def open(self, runtime_context):
        self.counts = {}

    def flat_map(self, word):
        self.counts[word] = self.counts.get(word, 0) + 1
        yield word, self.counts[word]


def generate(random):
    chance = Chance(random)
    words = ("apple", "pear")  # each word is a split of its own
    return Workload({word: [(at, word) for at in range(chance.integer(1, 9))] for word in words})


def job(env, io):
    words = env.from_source(io.source("words"), None, "words").uid("words")
    by_word = words.set_parallelism(io.source_parallelism).key_by(lambda word: word, Types.STRING())
    counts = by_word.flat_map(Count()).name("count").uid("count").set_parallelism(io.parallelism)
    by_word = counts.key_by(lambda row: row[0], Types.STRING())
    rows = by_word.add_sink(io.sink("rows")).name("rows").uid("rows")
    rows.set_parallelism(io.sink_parallelism)


def expected(records, declared):
    return [(word, count) for word, seen in records.items() for count in range(1, len(seen) + 1)]
