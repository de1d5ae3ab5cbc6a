"""Windows that wait for late records, with an evictor and a side output of what comes too late.

A window of event time emits its newest three readings when the watermark passes its end, and again at each
reading that comes within the allowed lateness; the evictor removes older ones. A reading that comes later
still goes to a side output and gives a row of its own.

Which readings are late is declared, and checked by the harness. When windows are emitted depends on the run,
so each row says which readings it holds, by their places among those of the key. The oracles check that these
are the newest of what was in time, that only a reading that may have come behind the end of the window makes
it emit again, and that the last row of a window holds its last reading. As in Flink, watermarks begin anew
after a restore, so a reading that may have come too late may instead open the window again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from onceproof.engine.durations import Time
from onceproof.engine.functions import ProcessFunction
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import TumblingEventTimeWindows
from onceproof.engine.windows.evictors import CountEvictor
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.harness.model.history import Row
from onceproof.scenarios import _event_time as event_time
from onceproof.scenarios._keyed_job import (
    LABELLED_KEY,
    LabelledSource,
    Place,
    into_table,
    label_and_key,
    named,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Reading: TypeAlias = tuple[str, str, int, int]
"""Split, sensor, place, number."""
ReadingsRow: TypeAlias = tuple[str, str, int, int, int, int, str]
"""Split, sensor, start or timestamp, oldest place, newest place, total, and "late" or "window"."""

name = "late_readings"
generator_version = 2
WINDOW: Final = "window"


tasks: dict[str, Role] = {
    "readings": "source",
    "placed": "keyed",
    "windows": "keyed",
    "late": "keyed",
    "table": "sink",
}
record_schema = "sensor STRING, number BIGINT"
row_schema = (
    "split STRING, sensor STRING, start BIGINT, oldest BIGINT, newest BIGINT, total BIGINT, kind STRING"
)
SIZE_MS: Final = 2000
LATENESS_MS: Final = 3000
NEWEST: Final = 3
_LAST: Final = f"start + {SIZE_MS} - 1"
_WATERMARK: Final = f"own - {event_time.BOUND_MS} - 1"
oracle_sql = f"""
WITH placed AS (
  SELECT *, timestamp - pmod(timestamp, {SIZE_MS}) AS start,
    row_number() OVER (PARTITION BY scenario_id, split, sensor ORDER BY offset) AS place,
    max(timestamp) OVER (
      PARTITION BY scenario_id, split ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS own
  FROM records
), timed AS (
  SELECT *, coalesce({_WATERMARK} >= {_LAST}, false) AS may_miss,
    coalesce({_WATERMARK} >= {_LAST} + {LATENESS_MS}, false) AS may_be_late
  FROM placed
), late AS (
  SELECT scenario_id, split, sensor, timestamp, place, number
  FROM timed LEFT SEMI JOIN (
    SELECT *, newest AS place, total AS number, start AS timestamp
    FROM declared WHERE kind = '{event_time.LATE}'
  ) AS said
  USING (scenario_id, split, sensor, place, number, timestamp)
), inside AS (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, sensor, start ORDER BY place) AS index,
    count(*) OVER (PARTITION BY scenario_id, split, sensor, start) AS size
  FROM timed LEFT ANTI JOIN late USING (scenario_id, split, sensor, place)
), said AS (
  SELECT scenario_id, split, sensor, start, oldest, newest, total, count(*) AS copies
  FROM declared WHERE kind = '{WINDOW}' GROUP BY ALL
), checked AS (
  SELECT said.scenario_id, said.split, said.sensor, said.start, newest, max(index) AS last_index, coalesce(
    copies = 1 AND min(place) = oldest AND max(place) = newest AND sum(number) = total
      AND count(place) <= {NEWEST}
      AND (count(place) = {NEWEST} OR min(index) = 1 OR min_by(may_be_late, place)), false
  ) AS is_fit
  FROM said LEFT JOIN inside
  ON said.scenario_id = inside.scenario_id AND said.split = inside.split AND said.sensor = inside.sensor
    AND said.start = inside.start AND place BETWEEN oldest AND newest
  GROUP BY said.scenario_id, said.split, said.sensor, said.start, oldest, newest, total, copies
), emitted AS (
  SELECT scenario_id, split, sensor, start, min(last_index) AS first_emitted, max(last_index) AS last_emitted,
    bool_and(is_fit) AND count(*) = count(DISTINCT newest) AS are_fit
  FROM checked GROUP BY ALL
), windows AS (
  SELECT scenario_id, split, sensor, start, max(size) AS size, max(if(may_miss, 0, index)) AS in_time,
    min(if(index > size - {NEWEST}, place, NULL)) AS oldest, max(place) AS newest,
    sum(if(index > size - {NEWEST}, number, 0)) AS total
  FROM inside GROUP BY ALL
), judged AS (
  SELECT windows.*, coalesce(are_fit AND last_emitted = size AND in_time <= first_emitted, false) AS can_be
  FROM windows LEFT JOIN emitted USING (scenario_id, split, sensor, start)
)
SELECT scenario_id, split, sensor, timestamp AS start, place AS oldest, place AS newest, number AS total,
  '{event_time.LATE}' AS kind
FROM late
UNION ALL
SELECT declared.scenario_id, declared.split, declared.sensor, declared.start, declared.oldest,
  declared.newest, declared.total, kind
FROM declared LEFT SEMI JOIN (SELECT * FROM judged WHERE can_be) AS possible
ON declared.scenario_id = possible.scenario_id AND declared.split = possible.split
  AND declared.sensor = possible.sensor AND declared.start = possible.start
WHERE kind = '{WINDOW}'
UNION ALL
SELECT scenario_id, split, sensor, start, oldest, newest, total, '{WINDOW}' FROM judged WHERE NOT can_be
"""

SENSORS: Final = ("ash", "elm", "fir")
LATE: Final = OutputTag(
    event_time.LATE, Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])
)


def generate(random: Random) -> Workload:
    """Draw 1 to 3 splits of readings, out of order."""
    chance = Chance(random)
    splits = chance.weighted([(1, 3), (2, 3), (3, 2)])
    sensors = SENSORS[: chance.weighted([(1, 3), (2, 3), (3, 1)])]
    longest = chance.weighted([(3, 1), (15, 4), (30, 3)])
    pace_ms = chance.choice([100, 400, 1500])
    late_share = event_time.draw_late_share(chance)
    records = {}
    for split in range(splits):
        count = chance.integer(0, longest)
        timestamps = event_time.draw_timestamps(chance, count, pace_ms, late_share, SIZE_MS)
        records[f"readings-{split}"] = tuple(
            [(timestamp, (chance.choice(sensors), chance.integer(-9, 99))) for timestamp in timestamps]
        )
    return Workload(
        event_time.moved(chance, records), {"sensors": len(sensors), "pace_ms": pace_ms, "late": late_share}
    )


class NewestReadings(ProcessWindowFunction):
    """Emits which readings a window holds, and their total."""

    def process(
        self, key: tuple[str, str], context: WindowContext, elements: Iterable[Reading]
    ) -> Iterator[ReadingsRow]:
        readings = list(elements)
        total = sum(number for *_, number in readings)
        yield *key, context.window().start, readings[0][2], readings[-1][2], total, WINDOW


class LateReading(ProcessFunction):
    """Emits a row for a reading that came too late."""

    def process_element(self, value: Reading, ctx: ProcessFunction.Context) -> Iterator[Any]:
        split, sensor, place, number = value
        yield split, sensor, ctx.timestamp(), place, place, number, event_time.LATE


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build readings -> placed -> windows -> table; late readings go to the table, too."""
    text, number = Types.STRING(), Types.LONG()
    row = Types.TUPLE([text, text, *([number] * 4), text])
    readings = env.from_source(LabelledSource(io.source("readings")), event_time.WATERMARKS, "readings").uid(
        "readings"
    )
    readings.set_parallelism(io.source_parallelism)
    by_sensor = readings.key_by(label_and_key, LABELLED_KEY)
    placed = named(by_sensor.map(Place(), Types.TUPLE([text, text, number, number])), "placed", io)
    windows = (
        placed.key_by(label_and_key, LABELLED_KEY)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(SIZE_MS)))
        .allowed_lateness(LATENESS_MS)
        .side_output_late_data(LATE)
        .evictor(CountEvictor.of(NEWEST))
        .process(NewestReadings(), row)
    )
    windows = named(windows, "windows", io)
    late = named(windows.get_side_output(LATE).process(LateReading(), row), "late", io)
    into_table(windows.union(late), io)


class Arrival(NamedTuple):
    """A reading in its window, by its place, and what may have passed before it came."""

    place: int
    number: int
    may_miss: bool
    may_be_late: bool


def expected(records: Records, declared: Declared) -> Rows:
    """Return the windows and the late readings that the run declares, if they are possible."""
    late = {row for row in declared.rows if row[6] == event_time.LATE}
    said: dict[tuple[str, str, int], list[Any]] = defaultdict(list)
    for row in declared.rows:
        if row[6] == WINDOW:
            said[row[:3]].append(row)
    rows: list[Any] = []
    windows: dict[tuple[str, str, int], list[Arrival]] = defaultdict(list)
    for split, own in records.items():
        newest = -(2**63)
        places: dict[str, int] = defaultdict(int)
        for timestamp, value in own:
            assert isinstance(value, tuple)
            sensor, number = str(value[0]), int(value[1] or 0)
            places[sensor] += 1
            start = timestamp - timestamp % SIZE_MS
            passed = newest - event_time.BOUND_MS - 1 - (start + SIZE_MS - 1)
            newest = max(newest, timestamp)
            place = places[sensor]
            late_row = split, sensor, timestamp, place, place, number, event_time.LATE
            if late_row in late:
                rows.append(late_row)
            else:
                windows[split, sensor, start].append(
                    Arrival(place, number, passed >= 0, passed >= LATENESS_MS)
                )
    for window, inside in windows.items():
        if _are_possible(said[window], inside, declared.is_whole):
            rows += said[window]
        else:
            last = inside[-NEWEST:]
            total = sum(each.number for each in last)
            rows.append((*window, last[0].place, last[-1].place, total, WINDOW))
    return declared.so_far(rows)


def _are_possible(said: list[Any], inside: list[Arrival], is_whole: bool) -> bool:
    """Return whether a window with these readings in time may have emitted these rows."""
    index_of = {arrival.place: index for index, arrival in enumerate(inside)}
    ends = []
    for _, _, _, oldest, newest, total, _ in said:
        if oldest not in index_of or newest not in index_of:
            return False
        first, last = index_of[oldest], index_of[newest]
        held = inside[first : last + 1]
        if not 1 <= len(held) <= NEWEST or total != sum(each.number for each in held):
            return False
        if len(held) < NEWEST and first and not held[0].may_be_late:
            return False
        ends.append(last)
    if len(set(ends)) < len(ends) or (is_whole and len(inside) - 1 not in ends):
        return False
    return not ends or all(arrival.may_miss for arrival in inside[min(ends) + 1 :])


def answers(row: Row) -> Row | None:
    """Return the row of a window: each firing of it within the lateness has a reading more."""
    return row if row[-1] == WINDOW else None


def due(row: Row, records: Records) -> int | None:
    """Return the last millisecond of a window, or that of its lateness for a reading that came too late."""
    if row[2] is None:
        return None
    last = row[2] - row[2] % SIZE_MS + SIZE_MS - 1
    return int(last if row[6] == WINDOW else last + LATENESS_MS)


options = FamilyOptions(late=event_time.LATE, due=due, answers=answers)
