"""Deduplication by state that expires: a record is new unless its key was seen a short while ago.

A ValueState with a time to live holds that a key was seen; a read after that time finds nothing. The time is
processing time, so when a record is processed decides whether it is new. Each row declares that time. The
oracles check that a key's times never go back, and compute from them alone which records are new. Rows that
come from an older state than the rows before them do not fit these times.

Records that are left out give a row, too: the oracles can judge only what is declared.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onceproof.engine.durations import Time
from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, into_table, keyed_records, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "deduplication"
generator_version = 1
options = FamilyOptions(declares=True, needs_steady_time=True)
tasks: dict[str, Role] = {"events": "source", "first": "keyed", "table": "sink"}
record_schema = "device STRING, reading BIGINT"
row_schema = "split STRING, device STRING, place BIGINT, is_new BOOLEAN, seen_ms BIGINT"
oracle_sql = """
WITH placed AS (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, device ORDER BY offset) AS place
  FROM records
), stated AS (
  SELECT placed.scenario_id, placed.split, placed.device, placed.place, min(seen_ms) AS seen_ms
  FROM placed LEFT JOIN declared USING (scenario_id, split, device, place)
  GROUP BY ALL
), of_device AS (
  SELECT scenario_id, split, device,
         sort_array(collect_list(struct(place, coalesce(seen_ms, -1L) AS seen_ms))) AS all_of_it
  FROM stated GROUP BY ALL
)
SELECT scenario_id, split, device, row.place, row.is_new, row.seen_ms
FROM (
  SELECT scenario_id, split, device, explode(aggregate(
    all_of_it,
    named_struct(
      'rows', cast(array() AS ARRAY<STRUCT<place: BIGINT, is_new: BOOLEAN, seen_ms: BIGINT>>),
      'since', cast(NULL AS BIGINT), 'now', cast(-1 AS BIGINT)
    ),
    (so_far, each) -> named_struct(
      'rows', concat(so_far.rows, array(named_struct(
        'place', cast(each.place AS BIGINT),
        'is_new', so_far.since IS NULL OR greatest(each.seen_ms, so_far.now) >= so_far.since + 120,
        'seen_ms', greatest(each.seen_ms, so_far.now)
      ))),
      'since', if(
        so_far.since IS NULL OR greatest(each.seen_ms, so_far.now) >= so_far.since + 120,
        greatest(each.seen_ms, so_far.now), so_far.since
      ),
      'now', greatest(each.seen_ms, so_far.now)
    ),
    so_far -> so_far.rows
  )) AS row
  FROM of_device
)
"""

DEVICES = ("bell", "door", "lamp", "lock", "pump")
TIME_TO_LIVE_MS = 120
NEVER_STATED = -1


def generate(random: Random) -> Workload:
    """Draw readings of a few devices; the schedule decides how far apart they are processed."""
    return draw_keyed(random, DEVICES, _reading)


def _reading(chance: Chance, device: str, now: int) -> tuple[str, int]:
    return device, chance.integer(0, 3)


class First(KeyedProcessFunction):
    """Emits for each record whether it is the first of its device for a while."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind the state that expires, and one that numbers the records."""
        config = (
            StateTtlConfig.new_builder(Time.milliseconds(TIME_TO_LIVE_MS))
            .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .build()
        )
        seen = ValueStateDescriptor("seen", Types.BOOLEAN())
        seen.enable_time_to_live(config)
        self._seen = runtime_context.get_state(seen)
        self._place = runtime_context.get_state(ValueStateDescriptor("place", Types.LONG()))

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, bool, int]]:
        """Look the device up, and remember it if it was not seen."""
        split, device, _reading = value
        place = (self._place.value() or 0) + 1
        self._place.update(place)
        is_new = self._seen.value() is None
        if is_new:
            self._seen.update(True)
        yield split, device, place, is_new, ctx.timer_service().current_processing_time()


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> first -> table."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.BOOLEAN(), Types.LONG()])
    into_table(named(keyed_records(env, io, "events").process(First(), row), "first", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Follow each device through the times at which the run declares it processed the records."""
    stated: dict[tuple[object, ...], int] = {}
    for split, device, place, _is_new, seen_ms in declared.rows:
        if seen_ms is not None:
            stated[split, device, place] = min(seen_ms, stated.get((split, device, place), seen_ms))
    rows = []
    for split, events in records.items():
        devices: dict[object, tuple[int, int | None, int]] = {}
        for _, event in events:
            assert isinstance(event, tuple)
            device = event[0]
            place, since, now = devices.get(device, (0, None, NEVER_STATED))
            place += 1
            now = max(now, stated.get((split, device, place), NEVER_STATED))
            is_new = since is None or now >= since + TIME_TO_LIVE_MS
            devices[device] = (place, now if is_new else since, now)
            rows.append((split, device, place, is_new, now))
    return rows
