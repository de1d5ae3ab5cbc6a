"""Deduplication by state that expires: a record is new unless its key was seen a short while ago.

A ValueState with a time to live holds that a key was seen; a read after that time finds nothing. The time is
processing time, so when a record is processed decides whether it is new. An access to the state looks at the
clock for itself, and the clock does not stand still in a real engine: each row declares between which times
its record was processed. The oracles check that a key's times never go back, and compute from them which
records are new. Only where the state may have expired between these times or not, the row says it. Rows that
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
row_schema = "split STRING, device STRING, place BIGINT, is_new BOOLEAN, from_ms BIGINT, until_ms BIGINT"
TIME_TO_LIVE_MS = 120
NEVER_STATED = -1
_EXPIRED = f"""(
  so_far.since IS NULL
  OR greatest(each.said.from_ms, so_far.now) >= so_far.since_until + {TIME_TO_LIVE_MS}
  OR greatest(each.said.from_ms, each.said.until_ms, so_far.now) >= so_far.since + {TIME_TO_LIVE_MS}
    AND coalesce(each.said.is_new, false)
)"""
oracle_sql = f"""
WITH placed AS (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, device ORDER BY offset) AS place
  FROM records
), whole AS (
  SELECT * FROM declared WHERE from_ms IS NOT NULL AND until_ms IS NOT NULL AND is_new IS NOT NULL
), stated AS (
  SELECT placed.scenario_id, placed.split, placed.device, placed.place,
         min(struct(whole.from_ms, whole.until_ms, whole.is_new)) AS said
  FROM placed LEFT JOIN whole USING (scenario_id, split, device, place)
  GROUP BY ALL
), of_device AS (
  SELECT scenario_id, split, device, sort_array(collect_list(struct(place, named_struct(
           'from_ms', coalesce(said.from_ms, {NEVER_STATED}L),
           'until_ms', coalesce(said.until_ms, {NEVER_STATED}L),
           'is_new', said.is_new
         ) AS said))) AS all_of_it
  FROM stated GROUP BY ALL
)
SELECT scenario_id, split, device, row.place, row.is_new, row.from_ms, row.until_ms
FROM (
  SELECT scenario_id, split, device, explode(aggregate(
    all_of_it,
    named_struct(
      'rows',
      cast(array() AS ARRAY<STRUCT<place: BIGINT, is_new: BOOLEAN, from_ms: BIGINT, until_ms: BIGINT>>),
      'since', cast(NULL AS BIGINT), 'since_until', cast(NULL AS BIGINT),
      'now', cast({NEVER_STATED} AS BIGINT)
    ),
    (so_far, each) -> named_struct(
      'rows', concat(so_far.rows, array(named_struct(
        'place', cast(each.place AS BIGINT),
        'is_new', {_EXPIRED},
        'from_ms', greatest(each.said.from_ms, so_far.now),
        'until_ms', greatest(each.said.from_ms, each.said.until_ms, so_far.now)
      ))),
      'since', if({_EXPIRED}, greatest(each.said.from_ms, so_far.now), so_far.since),
      'since_until', if(
        {_EXPIRED}, greatest(each.said.from_ms, each.said.until_ms, so_far.now), so_far.since_until
      ),
      'now', greatest(each.said.from_ms, each.said.until_ms, so_far.now)
    ),
    so_far -> so_far.rows
  )) AS row
  FROM of_device
)
"""

DEVICES = ("bell", "door", "lamp", "lock", "pump")


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
    ) -> Iterator[tuple[str, str, int, bool, int, int]]:
        """Look the device up, and remember it if it was not seen."""
        split, device, _reading = value
        from_ms = ctx.timer_service().current_processing_time()
        place = (self._place.value() or 0) + 1
        self._place.update(place)
        is_new = self._seen.value() is None
        if is_new:
            self._seen.update(True)
        yield split, device, place, is_new, from_ms, ctx.timer_service().current_processing_time()


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> first -> table."""
    text, number = Types.STRING(), Types.LONG()
    row = Types.TUPLE([text, text, number, Types.BOOLEAN(), number, number])
    into_table(named(keyed_records(env, io, "events").process(First(), row), "first", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Follow each device through the times between which the run declares it processed the records."""
    stated: dict[tuple[object, ...], tuple[int, int, bool]] = {}
    for split, device, place, is_new, from_ms, until_ms in declared.rows:
        if None not in (is_new, from_ms, until_ms):
            said = (from_ms, until_ms, is_new)
            stated[split, device, place] = min(said, stated.get((split, device, place), said))
    rows = []
    for split, events in records.items():
        devices: dict[object, tuple[int, tuple[int, int] | None, int]] = {}
        for _, event in events:
            assert isinstance(event, tuple)
            device = event[0]
            place, since, now = devices.get(device, (0, None, NEVER_STATED))
            place += 1
            stated_from, stated_until, says_new = stated.get(
                (split, device, place), (NEVER_STATED, NEVER_STATED, False)
            )
            begun, ended = max(now, stated_from), max(now, stated_from, stated_until)
            is_new = (
                since is None
                or begun >= since[1] + TIME_TO_LIVE_MS
                or (ended >= since[0] + TIME_TO_LIVE_MS and says_new)
            )
            devices[device] = (place, (begun, ended) if is_new else since, ended)
            rows.append((split, device, place, is_new, begun, ended))
    return rows
