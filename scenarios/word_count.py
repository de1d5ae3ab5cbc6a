"""Word count: how often each word has been seen so far; the smallest job with keyed state.

Every record changes the state of its word and gives a row (word, running count), so the output shows each
protocol error: a record applied twice skips a number or repeats one, a lost record ends the count too early.
The two hash edges let barriers and records of different channels race each other.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.harness.model.scenario import RecordValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import KeyedStream, StreamExecutionEnvironment

name = "word_count"
generator_version = 1
tasks: dict[str, Role] = {"source": "source", "count": "keyed", "sink": "sink"}
record_schema = "word STRING"
row_schema = "word STRING, count BIGINT"
oracle_sql = """
SELECT scenario_id, word, explode(sequence(1, count(*))) AS count FROM records GROUP BY scenario_id, word
"""

# fmt: off
WORDS = (
    "ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay",
    "koi", "lynx", "mole", "newt", "owl", "pig", "quail", "rat", "seal", "toad",
)
# fmt: on


def generate(random: Random) -> Workload:
    """Draw 1 to 4 splits of words; workloads of one word and empty splits are drawn on purpose."""
    chance = Chance(random)
    splits = chance.weighted([(1, 2), (2, 4), (3, 2), (4, 2)])
    words = WORDS[: chance.weighted([(1, 1), (2, 2), (4, 3), (8, 3), (20, 1)])]
    total = chance.weighted(
        [(chance.integer(0, 9), 1), (chance.integer(10, 40), 5), (chance.integer(41, 80), 3)]
    )
    unit, word_count = random.random, len(words)
    drawn: list[list[tuple[int, str]]] = [[] for _ in range(splits)]
    # Some splits hold much more than others, and some hold nothing.
    weights = [chance.weighted([(0, 1), (1, 3), (4, 2)]) for _ in range(splits)]
    wheel = [split for split, weight in zip(drawn, weights, strict=True) for _ in range(weight)] or drawn[:1]
    wheel_size = len(wheel)
    for timestamp in range(total):
        wheel[int(unit() * wheel_size)].append((timestamp, words[int(unit() * word_count)]))
    records = {f"words-{index}": tuple(split) for index, split in enumerate(drawn)}
    return Workload(records, {"records": total, "words": word_count, "splits": splits})


def with_key(value: RecordValue, number: int) -> RecordValue:
    """Return word number ``number``; there is one for every number."""
    return WORDS[number] if number < len(WORDS) else f"word-{number}"


class Count(KeyedProcessFunction):
    """Counts the records of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[str, int]]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield value, count


def counted_words(env: StreamExecutionEnvironment, io: JobIO, source: Any = None) -> KeyedStream:
    """Build source -> count, keyed so that all rows of a word reach one sink subtask, in order.

    ``source`` is read instead of ``io.source``.
    """
    words = env.from_source(source or io.source("words"), None, "source").uid("source")
    counts = (
        words.set_parallelism(io.source_parallelism)
        .key_by(lambda word: word, key_type=Types.STRING())
        .process(Count(), output_type=Types.TUPLE([Types.STRING(), Types.LONG()]))
        .name("count")
        .uid("count")
        .set_parallelism(io.parallelism)
    )
    return counts.key_by(lambda row: row[0], key_type=Types.STRING())


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build source -> count -> sink, both edges keyed by the word."""
    sink = counted_words(env, io).add_sink(io.sink("counts"))
    sink.name("sink").uid("sink").set_parallelism(io.sink_parallelism)


def streaming_query(records: Any, io: Any) -> Any:
    """Count with transformWithState; the rows go to a sink of the harness."""
    return io.transform_with_state(records, ("word",), count_once, "count BIGINT", row_schema)


def count_once(state: tuple[int] | None, record: Any) -> tuple[tuple[int], tuple[str, int]]:
    """Add one to the word's count."""
    count = (state[0] if state else 0) + 1
    return (count,), (record.word, count)


def bytewax_flow(records: Any, io: Any) -> Any:
    """Count with stateful_map; the rows go to Bytewax's own sink of files."""
    words = io.operators.key_on("word", records, lambda record: record.value)
    return io.files(io.operators.stateful_map("count", words, number_word))


def number_word(count: int | None, record: Any) -> tuple[int, tuple[str, int]]:
    """Add one to the word's count."""
    count = (count or 0) + 1
    return count, (record.value, count)


def quix_app(records: Any, io: Any) -> Any:
    """Count in a state, behind a topic in which the word is the key."""
    words = records.group_by(
        lambda record: record["value"], name="word", key_serializer="str", key_deserializer="str"
    )
    return words.apply(number_record, stateful=True)


def number_record(record: Any, state: Any) -> tuple[str, int]:
    """Add one to the word's count."""
    count = state.get("count", 0) + 1
    state.set("count", count)
    return record["value"], count


def expected(records: Records, declared: Declared) -> Rows:
    """Number the occurrences of each word."""
    counts: dict[object, int] = {}
    rows = []
    for split in records.values():
        for _, word in split:
            counts[word] = count = counts.get(word, 0) + 1
            rows.append((word, count))
    return rows


options = FamilyOptions(
    any_backend=True,
    at_least_once="effects",
    jobs={"structured_streaming": streaming_query, "bytewax": bytewax_flow, "quix": quix_app},
    with_key=with_key,
)
