"""Map, filter, flat-map and reduce functions with keyed state, one behind the other, all on keyed streams.

The first programs that people write keep state in a rich function behind ``key_by``. This family has one of
each: a MapFunction numbers the records of a key, a FilterFunction drops a number that repeats the one before,
a FlatMapFunction keeps statistics in all five kinds of state and emits them for every second record, and a
ReduceFunction counts in a state of its own how often the total has risen.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from onceproof.engine.functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    ReduceFunction,
    RuntimeContext,
)
from onceproof.engine.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import (
    LABELLED_KEY,
    Count,
    draw_keyed,
    into_table,
    keyed_records,
    label_and_key,
    named,
    plus,
)

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import DataStream, KeyedStream, StreamExecutionEnvironment

Numbered: TypeAlias = tuple[str, str, int, int]
"""Split, key, place among the key's records, number."""
Statistics: TypeAlias = tuple[str, str, int, int, int, str, int]
"""Split, key, place, total, how many different numbers, the last three, how often the total has risen."""

name = "rich_functions"
generator_version = 1
options = FamilyOptions(any_backend=True)
tasks: dict[str, Role] = {
    "records": "source",
    "numbered": "keyed",
    "changed": "keyed",
    "statistics": "keyed",
    "rises": "keyed",
    "table": "sink",
}
record_schema = "key STRING, number BIGINT"
row_schema = "split STRING, key STRING, place BIGINT, total BIGINT, kinds BIGINT, latest STRING, rises BIGINT"
oracle_sql = """
WITH placed AS (
  SELECT *, row_number() OVER of_key AS place, lag(number) OVER of_key AS before
  FROM records WINDOW of_key AS (PARTITION BY scenario_id, split, key ORDER BY offset)
), kept AS (
  SELECT scenario_id, split, key, place,
         row_number() OVER of_key AS count,
         sum(number) OVER so_far AS total,
         size(collect_set(number) OVER so_far) AS kinds,
         array_join(transform(collect_list(number) OVER (
           PARTITION BY scenario_id, split, key ORDER BY place ROWS BETWEEN 2 PRECEDING AND CURRENT ROW
         ), each -> cast(each AS STRING)), ' ') AS latest
  FROM placed WHERE before IS NULL OR number <> before
  WINDOW of_key AS (PARTITION BY scenario_id, split, key ORDER BY place),
         so_far AS (PARTITION BY scenario_id, split, key ORDER BY place ROWS UNBOUNDED PRECEDING)
), emitted AS (
  SELECT *, lag(total) OVER (PARTITION BY scenario_id, split, key ORDER BY place) AS before
  FROM kept WHERE count % 2 = 0
)
SELECT scenario_id, split, key, place, total, cast(kinds AS BIGINT) AS kinds, latest,
       sum(if(total > before, 1, 0)) OVER (
         PARTITION BY scenario_id, split, key ORDER BY place ROWS UNBOUNDED PRECEDING
       ) AS rises
FROM emitted
"""

KEYS: Final = ("a", "b", "c", "d", "e")
LATEST: Final = 3


def generate(random: Random) -> Workload:
    """Draw small numbers, so that neighbours are often equal and totals rise and fall."""
    return draw_keyed(random, KEYS, _number)


def _number(chance: Chance, key: str, now: int) -> tuple[str, int]:
    return key, chance.integer(-2, 3)


class Number(MapFunction):
    """Numbers the records of each key from 1, in a ValueState."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._place = runtime_context.get_state(ValueStateDescriptor("place", Types.LONG()))

    def map(self, value: tuple[str, str, int]) -> Numbered:
        split, key, number = value
        place = (self._place.value() or 0) + 1
        self._place.update(place)
        return split, key, place, number


class Changed(FilterFunction):
    """Drops a number that is equal to the one before of its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._before = runtime_context.get_state(ValueStateDescriptor("before", Types.LONG()))

    def filter(self, value: Numbered) -> bool:
        before = self._before.value()
        self._before.update(value[3])
        return before is None or before != value[3]


class Statistic(FlatMapFunction):
    """Keeps one statistic in each kind of state, and emits all at every second record of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        number = Types.LONG()
        self._count = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("count", Count(), number)
        )
        self._total = runtime_context.get_reducing_state(ReducingStateDescriptor("total", plus, number))
        self._kinds = runtime_context.get_map_state(MapStateDescriptor("kinds", number, Types.BOOLEAN()))
        self._latest = runtime_context.get_list_state(ListStateDescriptor("latest", number))

    def flat_map(self, value: Numbered) -> Iterator[Statistics]:
        split, key, place, number = value
        self._count.add(number)
        self._total.add(number)
        self._kinds.put(number, True)
        latest = [*self._latest.get(), number][-LATEST:]
        self._latest.update(latest)
        if self._count.get() % 2 == 0:
            text = " ".join(map(str, latest))
            yield split, key, place, self._total.get(), len(list(self._kinds.keys())), text, 0


class CountRises(ReduceFunction):
    """Replaces the statistics by the newer ones; counts in a state of its own how often the total rose."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._rises = runtime_context.get_state(ValueStateDescriptor("rises", Types.LONG()))

    def reduce(self, value1: Statistics, value2: Statistics) -> Statistics:
        rises = (self._rises.value() or 0) + (value2[3] > value1[3])
        self._rises.update(rises)
        return (*value2[:6], rises)


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build records -> numbered -> changed -> statistics -> rises -> table."""
    text, number = Types.STRING(), Types.LONG()
    numbered_row = Types.TUPLE([text, text, number, number])
    row = Types.TUPLE([text, text, number, number, number, text, number])

    def keyed(stream: DataStream) -> KeyedStream:
        return stream.key_by(label_and_key, LABELLED_KEY)

    numbered = named(keyed_records(env, io, "records").map(Number(), numbered_row), "numbered", io)
    changed = named(keyed(numbered).filter(Changed()), "changed", io)
    statistics = named(keyed(changed).flat_map(Statistic(), row), "statistics", io)
    rises = named(keyed(statistics).reduce(CountRises()), "rises", io)
    into_table(rises, io)


def expected(records: Records, declared: Declared) -> Rows:
    """Go through the records of each key once, with plain lists."""
    rows: list[Statistics] = []
    for split, values in records.items():
        all_numbers: dict[object, list[int]] = {}
        for _, value in values:
            assert isinstance(value, tuple)
            all_numbers.setdefault(value[0], []).append(int(value[1] or 0))
        for key, numbers in all_numbers.items():
            kept: list[int] = []
            totals: list[int] = []
            for place, number in enumerate(numbers, start=1):
                if place > 1 and numbers[place - 2] == number:
                    continue
                kept.append(number)
                if len(kept) % 2:
                    continue
                totals.append(sum(kept))
                rises = sum(after > before for before, after in pairwise(totals))
                latest = " ".join(map(str, kept[-LATEST:]))
                rows.append((split, str(key), place, totals[-1], len(set(kept)), latest, rises))
    return list(rows)
