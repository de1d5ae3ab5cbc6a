"""Readings of sensors that pause, so their splits become idle and event time goes on without them.

A reading may announce a pause. The watermark generator of the family then marks its split as idle, and as
active again with the next reading. In some scenarios the generator is a stock one with an idleness time-out
instead, and each reading may come before or behind a pause. A function behind ``key_by`` gives each reading a
row that says whether it was late, that is, not newer than the watermark.

Which readings are late depends on how far the other splits are, so the oracles take that as declared, with
one limit: only a split that has paused can be overtaken. As long as it has not, event time waits for it, and
none of its readings is late.

The column ``pauses`` is 0 without a pause, 1 with one behind the reading, 2 with one that may be anywhere.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.durations import Duration
from onceproof.engine.elements import Watermark
from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.engine.watermarks.generators import WatermarkGenerator, WatermarkOutput
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios import _lateness as lateness
from onceproof.scenarios._keyed_job import LABELLED_KEY, into_table, label_and_key, named
from onceproof.scenarios._labelled import LabelledSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "pausing_sensors"
generator_version = 2
options = FamilyOptions(declares=True, turns=3)
tasks: dict[str, Role] = {"readings": "source", "judged": "keyed", "table": "sink"}
record_schema = "sensor STRING, number BIGINT, pauses BIGINT"
row_schema = "split STRING, sensor STRING, place BIGINT, number BIGINT, kind STRING"
LATE: Final = "late"
IN_TIME: Final = "in time"
IDLE_MS: Final = 20
BY_CLOCK: Final = "by_clock"
ANYWHERE: Final = 2
SENSORS: Final = ("attic", "cellar", "garden")
oracle_sql = f"""
WITH placed AS (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, sensor ORDER BY offset) AS place,
    greatest(pauses - 1, coalesce(max(pauses) OVER (
      PARTITION BY scenario_id, split ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), 0)) AS paused
  FROM records
), late AS (
  SELECT DISTINCT scenario_id, split, sensor, place, '{LATE}' AS said FROM declared WHERE kind = '{LATE}'
)
SELECT scenario_id, split, sensor, place, number,
  if(said IS NOT NULL AND paused > 0, '{LATE}', '{IN_TIME}') AS kind
FROM placed LEFT JOIN late USING (scenario_id, split, sensor, place)
"""


def generate(random: Random) -> Workload:
    """Draw 2 to 4 splits; some pause never, some often."""
    chance = Chance(random)
    by_clock = chance.chance(0.2)
    longest = chance.weighted([(4, 1), (12, 4), (25, 3)])
    # Where all pause, each of them may be the last one that is not idle.
    all_pause = not by_clock and chance.chance(0.5)
    records = {}
    for split in range(chance.weighted([(2, 3), (3, 3), (4, 1)])):
        pauses = 0.8 if all_pause else 0.0 if by_clock else chance.weighted([(0.0, 3), (0.1, 3), (0.5, 1)])
        now = 0
        readings = []
        for _ in range(chance.integer(0, longest)):
            now += chance.integer(0, 40)
            value = (
                chance.choice(SENSORS),
                chance.integer(-9, 99),
                ANYWHERE if by_clock else int(chance.chance(pauses)),
            )
            readings.append((now, value))
        records[f"readings-{split}"] = tuple(readings)
    return Workload(records, {BY_CLOCK: int(by_clock)})


class Announced(WatermarkGenerator):
    """Emits a watermark behind each reading, and believes what the reading says about a pause."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        output.mark_active()
        output.emit_watermark(Watermark(event_timestamp - 1))
        if event[3]:
            output.mark_idle()

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit nothing: all is said behind the readings."""


class Judge(KeyedProcessFunction):
    """Numbers the readings of a sensor, and says which are late."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._place = runtime_context.get_state(ValueStateDescriptor("place", Types.LONG()))

    def process_element(
        self, value: tuple[str, str, int, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, int, str]]:
        place = (self._place.value() or 0) + 1
        self._place.update(place)
        timestamp = ctx.timestamp()
        assert timestamp is not None
        is_late = timestamp <= ctx.timer_service().current_watermark()
        split, sensor, number, _ = value
        yield split, sensor, place, number, LATE if is_late else IN_TIME


def _strategy(by_clock: bool) -> WatermarkStrategy:
    if by_clock:
        stock = WatermarkStrategy.for_monotonous_timestamps()
        return stock.with_idleness(Duration.of_millis(IDLE_MS))
    return WatermarkStrategy.for_generator(lambda context: Announced())


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build readings -> judged -> table."""
    strategy = _strategy(bool(io.parameters.get(BY_CLOCK, 0)))
    readings = env.from_source(LabelledSource(io.source("readings")), strategy, "readings").uid("readings")
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG(), Types.STRING()])
    judged = (
        readings.set_parallelism(io.source_parallelism)
        .key_by(label_and_key, LABELLED_KEY)
        .process(Judge(), row)
    )
    into_table(named(judged, "judged", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Return a row for each reading: late where the run says so and its split has paused before."""
    said = {row[:3] for row in declared.rows if row[4] == LATE}
    rows = []
    for split, own in records.items():
        places = dict.fromkeys(SENSORS, 0)
        has_paused = False
        for _, value in own:
            assert isinstance(value, tuple)
            sensor, number, pauses = str(value[0]), int(value[1] or 0), int(value[2] or 0)
            has_paused = has_paused or pauses == ANYWHERE
            places[sensor] += 1
            reading = split, sensor, places[sensor]
            kind = LATE if has_paused and reading in said else IN_TIME
            rows.append((*reading, number, kind))
            has_paused = has_paused or pauses > 0
    return lateness.given_out(rows, declared)
