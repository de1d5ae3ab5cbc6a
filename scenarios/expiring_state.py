"""All five kinds of keyed state with a time to live: what is left of a key's earlier records.

Elements of a list and entries of a map expire one by one. A value, a reduced value and an accumulator expire
as a whole when a key was silent for the time to live; the value is only read, and the reads keep it alive.
Each kind of state has its own way to free what has expired, which must not be seen in the rows.

The time is processing time, and each access to a state looks at the clock for itself. In a real engine that
may take a while: the first record behind a restart takes a tenth of a second on Flink. So each row declares
between which times its record was processed, and the oracles compute all other columns from them. Only where
a state may have expired between these times or not, its own column says which. The oracles check that a key's
times never go back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from onceproof.engine.durations import Time
from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import Count, draw_keyed, into_table, keyed_records, named, plus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Left: TypeAlias = tuple[str, str, int, int, int, int, int, int, int, int]
"""Split, key, place, from when until when it was processed, first place, total, count, elements, different
numbers."""

name = "expiring_state"
generator_version = 2
options = FamilyOptions(declares=True, needs_steady_time=True)
tasks: dict[str, Role] = {"events": "source", "left": "keyed", "table": "sink"}
record_schema = "key STRING, number BIGINT"
row_schema = (
    "split STRING, key STRING, place BIGINT, from_ms BIGINT, until_ms BIGINT, first BIGINT, total BIGINT,"
    " count BIGINT, elements BIGINT, kinds BIGINT"
)
TIME_TO_LIVE_MS: Final = 60
NEVER_STATED: Final = -1
GONE: Final = -1
"""A total or a count that has expired between its update and the look at it."""
oracle_sql = f"""
WITH placed AS (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, key ORDER BY offset) AS place FROM records
), stated AS (
  SELECT scenario_id, split, key, place,
    min(struct(from_ms, until_ms, first, total, count, elements, kinds)) AS said
  FROM declared WHERE NOT array_contains(transform(
    array(from_ms, until_ms, first, total, count, elements, kinds), value -> value IS NULL), true)
  GROUP BY ALL
), heard AS (
  SELECT placed.*, said, max(coalesce(greatest(said.from_ms, said.until_ms), {NEVER_STATED})) OVER (
    PARTITION BY scenario_id, split, key ORDER BY place ROWS UNBOUNDED PRECEDING
  ) AS until
  FROM placed LEFT JOIN stated USING (scenario_id, split, key, place)
), timed AS (
  SELECT *, coalesce(until - since < {TIME_TO_LIVE_MS}, false) AS is_alive,
    coalesce(now - until_before >= {TIME_TO_LIVE_MS}, true) AS is_expired
  FROM (
    SELECT *, lag(now) OVER of_key AS since, lag(until) OVER of_key AS until_before
    FROM (
      SELECT *, greatest(
        coalesce(said.from_ms, {NEVER_STATED}), coalesce(lag(until) OVER of_key, {NEVER_STATED})
      ) AS now
      FROM heard WINDOW of_key AS (PARTITION BY scenario_id, split, key ORDER BY place)
    ) WINDOW of_key AS (PARTITION BY scenario_id, split, key ORDER BY place)
  )
), marked AS (
  SELECT *,
    is_expired OR NOT is_alive AND coalesce(said.first = place, false) AS is_first,
    is_expired OR NOT is_alive AND coalesce(said.total IN (number, {GONE}), false) AS begins_total,
    is_expired OR NOT is_alive AND coalesce(said.count IN (1, {GONE}), false) AS begins_count
  FROM timed
), spells AS (
  SELECT *, max(if(is_first, place, NULL)) OVER so_far AS first,
    max(if(begins_total, place, NULL)) OVER so_far AS total_from,
    max(if(begins_count, place, NULL)) OVER so_far AS count_from
  FROM marked WINDOW so_far AS (
    PARTITION BY scenario_id, split, key ORDER BY place ROWS UNBOUNDED PRECEDING
  )
), computed AS (
  SELECT each.scenario_id, each.split, each.key, each.place, each.now, each.until, each.said, each.first,
    each.until - each.now >= {TIME_TO_LIVE_MS} AS takes_long,
    sum(before.number) FILTER (WHERE before.place >= each.total_from) AS total,
    count_if(before.place >= each.count_from) AS count,
    count_if(before.now + {TIME_TO_LIVE_MS} > each.until) AS least,
    count_if(before.until + {TIME_TO_LIVE_MS} > each.now) AS most,
    count(DISTINCT if(before.now + {TIME_TO_LIVE_MS} > each.until, before.number, NULL)) AS least_kinds,
    count(DISTINCT if(before.until + {TIME_TO_LIVE_MS} > each.now, before.number, NULL)) AS most_kinds
  FROM spells AS each JOIN spells AS before
  ON each.scenario_id = before.scenario_id AND each.split = before.split AND each.key = before.key
    AND before.place <= each.place
  GROUP BY ALL
)
SELECT scenario_id, split, key, place, now AS from_ms, until AS until_ms, first,
  if(takes_long AND coalesce(said.total = {GONE}, false), {GONE}, total) AS total,
  if(takes_long AND coalesce(said.count = {GONE}, false), {GONE}, count) AS count,
  least(most, greatest(least, coalesce(said.elements, most))) AS elements,
  least(most_kinds, greatest(least_kinds, coalesce(said.kinds, most_kinds))) AS kinds
FROM computed
"""

KEYS: Final = ("fan", "heater", "kiln", "oven")


def generate(random: Random) -> Workload:
    """Draw small numbers of a few keys; the schedule decides how far apart they are processed."""
    return draw_keyed(random, KEYS, _number)


def _number(chance: Chance, key: str, now: int) -> tuple[str, int]:
    return key, chance.integer(0, 4)


def _builder() -> StateTtlConfig.Builder:
    return StateTtlConfig.new_builder(Time.milliseconds(TIME_TO_LIVE_MS)).never_return_expired()


class Leave(KeyedProcessFunction):
    """Adds each record to all states, and emits what they hold."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind the states that expire, and one that numbers the records."""
        number = Types.LONG()
        self._place = runtime_context.get_state(ValueStateDescriptor("place", number))
        first = ValueStateDescriptor("first", number)
        # So slow that it comes to what had expired at a restore when that is written again.
        slowly = _builder().update_ttl_on_read_and_write().cleanup_incrementally(1, False)
        first.enable_time_to_live(slowly.build())
        total = ReducingStateDescriptor("total", plus, number)
        total.enable_time_to_live(_builder().cleanup_full_snapshot().build())
        count = AggregatingStateDescriptor("count", Count(), number)
        count.enable_time_to_live(_builder().cleanup_incrementally(2, True).build())
        elements = ListStateDescriptor("elements", number)
        elements.enable_time_to_live(_builder().cleanup_in_rocksdb_compact_filter(3).build())
        kinds = MapStateDescriptor("kinds", number, number)
        kinds.enable_time_to_live(_builder().disable_cleanup_in_background().build())
        self._first = runtime_context.get_state(first)
        self._total = runtime_context.get_reducing_state(total)
        self._count = runtime_context.get_aggregating_state(count)
        self._elements = runtime_context.get_list_state(elements)
        self._kinds = runtime_context.get_map_state(kinds)

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[Left]:
        """Add the record, and read all states."""
        split, key, number = value
        from_ms = ctx.timer_service().current_processing_time()
        place = (self._place.value() or 0) + 1
        self._place.update(place)
        first = self._first.value()
        if first is None:
            first = place
            self._first.update(place)
        self._total.add(number)
        self._count.add(number)
        self._elements.add(number)
        self._kinds.put(number, place)
        total, count = self._total.get(), self._count.get()
        elements, kinds = len(list(self._elements.get())), len(list(self._kinds.keys()))
        until_ms = ctx.timer_service().current_processing_time()
        total, count = (GONE if each is None else each for each in (total, count))
        yield split, key, place, from_ms, until_ms, first, total, count, elements, kinds


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> left -> table."""
    text, number = Types.STRING(), Types.LONG()
    row = Types.TUPLE([text, text, *([number] * 8)])
    into_table(named(keyed_records(env, io, "events").process(Leave(), row), "left", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Follow each key through the times between which the run declares it processed the records."""
    stated: dict[tuple[object, ...], _Said] = {}
    for split, key, place, *columns in declared.rows:
        if None not in columns:
            said = _Said(*columns)
            stated[split, key, place] = min(said, stated.get((split, key, place), said))
    rows: list[Left] = []
    for split, values in records.items():
        keys: dict[str, _Key] = {}
        for _, value in values:
            assert isinstance(value, tuple)
            key = str(value[0])
            seen = keys.setdefault(key, _Key())
            said = stated.get((split, key, len(seen.past) + 1), _Said())
            found = seen.add(int(value[1] or 0), said)
            rows.append((split, key, len(seen.past), *found))
    return rows


class _Said(NamedTuple):
    """What a row declares behind its place; None: there is no such row."""

    from_ms: int = NEVER_STATED
    until_ms: int = NEVER_STATED
    first: int | None = None
    total: int | None = None
    counted: int | None = None
    elements: int | None = None
    kinds: int | None = None


@dataclass(slots=True)
class _Key:
    """The records of one key so far, and since which place its states have not expired."""

    past: list[tuple[int, int, int]] = field(default_factory=list)
    """From when, until when and with which number each was processed."""
    first: int = 1
    total_from: int = 1
    count_from: int = 1

    def add(self, number: int, said: _Said) -> tuple[int, int, int, int, int, int, int]:
        """Add a record; ``said`` is what its row declares. Return the columns behind the place."""
        place = len(self.past) + 1
        since, until = self.past[-1][:2] if self.past else (NEVER_STATED, NEVER_STATED)
        now, end = max(said.from_ms, until), max(said.from_ms, said.until_ms, until)
        is_expired = not self.past or now - until >= TIME_TO_LIVE_MS
        is_alive = bool(self.past) and end - since < TIME_TO_LIVE_MS
        if is_expired or (not is_alive and said.first == place):
            self.first = place
        if is_expired or (not is_alive and said.total in (number, GONE)):
            self.total_from = place
        if is_expired or (not is_alive and said.counted in (1, GONE)):
            self.count_from = place
        self.past.append((now, end, number))
        takes_long = end - now >= TIME_TO_LIVE_MS
        alive = [each for begun, _, each in self.past if begun + TIME_TO_LIVE_MS > end]
        possible = [each for _, ended, each in self.past if ended + TIME_TO_LIVE_MS > now]
        total = sum(number for *_, number in self.past[self.total_from - 1 :])
        return (
            now,
            end,
            self.first,
            GONE if takes_long and said.total == GONE else total,
            GONE if takes_long and said.counted == GONE else place - self.count_from + 1,
            _within(len(alive), len(possible), said.elements),
            _within(len(set(alive)), len(set(possible)), said.kinds),
        )


def _within(least: int, most: int, stated: int | None) -> int:
    """Return what is stated, or the nearest number that can be."""
    return most if stated is None else min(most, max(least, stated))
