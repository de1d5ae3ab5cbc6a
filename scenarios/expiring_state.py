"""All five kinds of keyed state with a time to live: what is left of a key's earlier records.

Elements of a list and entries of a map expire one by one. A value, a reduced value and an accumulator expire
as a whole when a key was silent for the time to live; the value is only read, and the reads keep it alive.
Each kind of state has its own way to free what has expired, which must not be seen in the rows.

The time is processing time. Each row declares when its record was processed, as in ``deduplication``. The
oracles check that a key's times never go back, and compute all other columns from them.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

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
from onceproof.scenarios._aggregations import Count, plus
from onceproof.scenarios._keyed_job import draw_keyed, into_table, keyed_records, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Left: TypeAlias = tuple[str, str, int, int, int, int, int, int, int]
"""Split, key, place, when it was processed, first place, total, count, elements, different numbers."""

name = "expiring_state"
generator_version = 1
options = FamilyOptions(declares=True, needs_steady_time=True)
tasks: dict[str, Role] = {"events": "source", "left": "keyed", "table": "sink"}
record_schema = "key STRING, number BIGINT"
row_schema = (
    "split STRING, key STRING, place BIGINT, seen_ms BIGINT, first BIGINT, total BIGINT, count BIGINT,"
    " elements BIGINT, kinds BIGINT"
)
TIME_TO_LIVE_MS: Final = 120
NEVER_STATED: Final = -1
oracle_sql = f"""
WITH placed AS (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, key ORDER BY offset) AS place FROM records
), stated AS (
  SELECT scenario_id, split, key, place, min(seen_ms) AS seen_ms FROM declared GROUP BY ALL
), timed AS (
  SELECT placed.*, max(coalesce(seen_ms, {NEVER_STATED})) OVER (
    PARTITION BY scenario_id, split, key ORDER BY place ROWS UNBOUNDED PRECEDING
  ) AS now
  FROM placed LEFT JOIN stated USING (scenario_id, split, key, place)
), marked AS (
  SELECT *, coalesce(now - lag(now) OVER of_key >= {TIME_TO_LIVE_MS}, true) AS is_first
  FROM timed WINDOW of_key AS (PARTITION BY scenario_id, split, key ORDER BY place)
), spells AS (
  SELECT *, max(if(is_first, place, NULL)) OVER so_far AS first
  FROM marked WINDOW so_far AS (
    PARTITION BY scenario_id, split, key ORDER BY place ROWS UNBOUNDED PRECEDING
  )
)
SELECT each.scenario_id, each.split, each.key, each.place, each.now AS seen_ms, each.first,
  sum(before.number) FILTER (WHERE before.place >= each.first) AS total,
  count_if(before.place >= each.first) AS count,
  count_if(before.now + {TIME_TO_LIVE_MS} > each.now) AS elements,
  count(DISTINCT if(before.now + {TIME_TO_LIVE_MS} > each.now, before.number, NULL)) AS kinds
FROM spells AS each JOIN spells AS before
ON each.scenario_id = before.scenario_id AND each.split = before.split AND each.key = before.key
  AND before.place <= each.place
GROUP BY ALL
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
        first.enable_time_to_live(_builder().update_ttl_on_read_and_write().build())
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
        now = ctx.timer_service().current_processing_time()
        elements, kinds = list(self._elements.get()), list(self._kinds.keys())
        yield split, key, place, now, first, self._total.get(), self._count.get(), len(elements), len(kinds)


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> left -> table."""
    text, number = Types.STRING(), Types.LONG()
    row = Types.TUPLE([text, text, *([number] * 7)])
    into_table(named(keyed_records(env, io, "events").process(Leave(), row), "left", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Follow each key through the times at which the run declares it processed the records."""
    stated: dict[tuple[object, ...], int] = {}
    for split, key, place, seen_ms, *_ in declared.rows:
        if seen_ms is not None:
            stated[split, key, place] = min(seen_ms, stated.get((split, key, place), seen_ms))
    rows: list[Left] = []
    for split, values in records.items():
        past: dict[str, list[tuple[int, int]]] = {}
        firsts: dict[str, int] = {}
        for _, value in values:
            assert isinstance(value, tuple)
            key = str(value[0])
            seen = past.setdefault(key, [])
            place, before = len(seen) + 1, seen[-1][0] if seen else NEVER_STATED
            now = max(before, stated.get((split, key, place), NEVER_STATED))
            if not seen or now >= before + TIME_TO_LIVE_MS:
                firsts[key] = place
            seen.append((now, int(value[1] or 0)))
            spell = [number for _, number in seen[firsts[key] - 1 :]]
            alive = [number for at, number in seen if at + TIME_TO_LIVE_MS > now]
            rows.append(
                (split, key, place, now, firsts[key], sum(spell), len(spell), len(alive), len(set(alive)))
            )
    return rows
