"""Words of the last seconds, counted every five: sliding event-time windows, aggregated as words arrive.

Each scenario has one size of windows, 7 to 13 seconds, which is a column of the records. A word is in one to
three windows, so it is counted as often, under as many namespaces of the same key, with as many timers. Where
the slide does not divide the size, the time of a word decides how many they are. A snapshot that loses a
window, a timer that is lost or fires twice after a restore, a word that is added to a window already emitted:
each shows as a wrong count. Words that are late for all of their windows are emitted as rows of their own. A
word that is late only for earlier windows is counted in the later ones and not declared: where that may have
happened, the oracles accept any count that is possible.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, cast

from onceproof.engine.durations import Time
from onceproof.engine.functions import AggregateFunction
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import SlidingEventTimeWindows
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios import _event_time as event_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.model.history import Row

name = "sliding_word_count"
generator_version = 4
tasks: dict[str, Role] = {"words -> once": "source", "counts": "keyed", "late": "keyed", "table": "sink"}
record_schema = "word STRING, size_ms BIGINT"
row_schema = "kind STRING, key STRING, at BIGINT, value BIGINT"

SIZE = "size_ms"
SIZES_MS = tuple(
    [(seconds * event_time.SECOND_MS, weight) for seconds, weight in ((10, 2), (7, 1), (12, 2), (13, 1))]
)
"""Sizes of windows, with weights."""
SLIDE_MS = 5 * event_time.SECOND_MS

LATEST = f"timestamp - pmod(timestamp, {SLIDE_MS})"

oracle_sql = f"""
WITH {event_time.without_late_sql("word", "1")}
SELECT scenario_id, '{event_time.LATE}' AS kind, key, timestamp AS at, value FROM marked WHERE is_late
UNION ALL
SELECT scenario_id, 'count', key, start, sum(value)
FROM (
  SELECT *, explode(transform(
    sequence(0L, (size_ms - 1 - pmod(timestamp, {SLIDE_MS})) DIV {SLIDE_MS}),
    back -> {LATEST} - {SLIDE_MS} * back
  )) AS start
  FROM marked WHERE NOT is_late
)
GROUP BY scenario_id, key, start
"""

COUNT = "count"
WORDS = ("ant", "bee", "cat", "dog", "elk", "fox")
LATE = OutputTag(event_time.LATE, Types.TUPLE([Types.STRING(), Types.LONG()]))
"""The side output of late words, as pairs of word and number."""


def generate(random: Random) -> Workload:
    """Draw 1 to 3 splits of words within a minute or so."""
    chance = Chance(random)
    splits = chance.weighted([(1, 2), (2, 4), (3, 2)])
    words = WORDS[: chance.weighted([(1, 1), (2, 3), (6, 3)])]
    longest = chance.weighted([(3, 1), (12, 4), (25, 3)])
    pace_ms = chance.choice([300, 1000, 4000])
    late_share = event_time.draw_late_share(chance)
    size_ms = chance.weighted(SIZES_MS)
    records = {}
    for split in range(splits):
        timestamps = event_time.draw_timestamps(
            chance, chance.integer(0, longest), pace_ms, late_share, SLIDE_MS
        )
        # Many timestamps are where windows begin; in some splits they are where windows end.
        shift_ms = chance.choice((0, size_ms % SLIDE_MS))
        records[f"words-{split}"] = tuple(
            [(timestamp + shift_ms, (chance.choice(words), size_ms)) for timestamp in timestamps]
        )
    parameters = {"words": len(words), "pace_ms": pace_ms, "late": late_share, SIZE: size_ms}
    return Workload(event_time.moved(chance, records), parameters)


class Count(AggregateFunction):
    """Adds up the numbers of words."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: tuple[str, int], accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class CountRow(ProcessWindowFunction):
    """Adds word and window start to a count."""

    def process(
        self, key: str, context: WindowContext, elements: Iterable[int]
    ) -> Iterator[tuple[str, str, int, int]]:
        for count in elements:
            yield COUNT, key, context.window().start, count


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build words -> counts in sliding windows -> table; late words go to the table."""
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])
    size_ms = int(io.parameters.get(SIZE, SIZES_MS[0][0]))
    once = (
        env.from_source(io.source("words"), event_time.WATERMARKS, "words")
        .uid("words")
        .set_parallelism(io.source_parallelism)
        .map(_once, pair)
        .name("once")
        .uid("once")
        .set_parallelism(io.source_parallelism)
    )
    counts = (
        once.key_by(_first, Types.STRING())
        .window(SlidingEventTimeWindows.of(Time.milliseconds(size_ms), Time.milliseconds(SLIDE_MS)))
        .side_output_late_data(LATE)
        .aggregate(Count(), CountRow(), Types.LONG(), row)
        .name("counts")
        .uid("counts")
        .set_parallelism(io.parallelism)
    )
    late = counts.get_side_output(LATE).process(event_time.LateRow(), row).name("late").uid("late")
    late.set_parallelism(io.parallelism)
    table = counts.union(late).key_by(_word, Types.STRING()).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _once(value: tuple[str, int]) -> tuple[str, int]:
    return value[0], 1


def _first(value: tuple[str, int]) -> str:
    return value[0]


def _word(row: tuple[str, str, int, int]) -> str:
    return row[1]


def expected(records: Records, declared: Declared) -> Rows:
    """Count the words of each window, without those that were late."""
    words, rows = event_time.without_late(
        records, declared, lambda timestamp, value: (event_time.LATE, value[0], timestamp, 1)
    )
    counts: Counter[tuple[str, int]] = Counter()
    for timestamp, (word, size_ms) in words:
        latest = timestamp - timestamp % SLIDE_MS
        for start in range(latest, timestamp - size_ms, -SLIDE_MS):
            counts[word, start] += 1
    rows += [(COUNT, *window, count) for window, count in counts.items()]
    return declared.so_far(rows)


def due(row: Row, records: Records) -> int | None:
    """Return the last millisecond of the window of a count."""
    return int(row[2]) + _size_ms(records) - 1 if row[0] == COUNT else None


def _size_ms(records: Records) -> int:
    """Return the size of windows that all records name."""
    sizes = {int(cast(tuple[str, int], value)[1]) for own in records.values() for _, value in own}
    assert len(sizes) <= 1
    return max(sizes, default=SIZES_MS[0][0])


options = FamilyOptions(late=event_time.LATE, due=due, answers=event_time.window_of)
