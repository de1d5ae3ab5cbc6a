"""Readings of sensors that pause, so their splits become idle and event time goes on without them.

A reading may announce a pause. The watermark generator of the family then marks its split as idle, and as
active again with the next reading. In some scenarios the generator is a stock one with an idleness time-out
instead, and each reading may come before or behind a pause. A function behind ``key_by`` gives each reading a
row that says whether it was late, that is, not newer than the watermark.

There are two streams, readings and calibrations, which are treated alike and each read by a source of its
own. In some scenarios they are united ahead of the function, so idleness is that of channels of one input. In
others they are connected: the function has two inputs, and while all splits of one are idle, event time is
that of the other.

In some scenarios readings are out of order, within the bound of the watermarks. So a split may end its pause
with a reading that is not late but does not raise its watermark. The split is active from then on all the
same. What a split that was not active in time is overtaken by is in no row, so the engine checks that itself.

Which readings are late depends on how far the other splits are, so the rows declare it. The harness knows
that only a split that has paused can be overtaken: as long as it has not, event time waits for it, and none
of its readings is late.

The column ``pauses`` is 0 without a pause, 1 with one behind the reading, 2 with one that may be anywhere.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onceproof.engine.connected_functions import KeyedCoProcessFunction
from onceproof.engine.durations import Duration
from onceproof.engine.elements import Watermark
from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.engine.watermarks.generators import WatermarkGenerator, WatermarkOutput
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import LABELLED_KEY, LabelledSource, into_table, label_and_key, named
from onceproof.scenarios._streams import StreamSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
    from onceproof.engine.state.interfaces import ValueState

name = "pausing_sensors"
generator_version = 3
options = FamilyOptions(late="late", due=lambda row, records: None)
tasks: dict[str, Role] = {
    "readings": "source",
    "calibrations": "source",
    "judged": "keyed",
    "table": "sink",
}
record_schema = "sensor STRING, number BIGINT, pauses BIGINT"
row_schema = "split STRING, sensor STRING, place BIGINT, number BIGINT, kind STRING"
LATE: Final = "late"
IN_TIME: Final = "in time"
IDLE_MS: Final = 20
BY_CLOCK: Final = "by_clock"
IS_CONNECTED: Final = "is_connected"
BOUND: Final = "bound_ms"
ANYWHERE: Final = 2
SENSORS: Final = ("attic", "cellar", "garden")
STREAMS: Final = ("readings", "calibrations")
oracle_sql = f"""
WITH placed AS (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, split, sensor ORDER BY offset) AS place FROM records
), late AS (
  SELECT DISTINCT scenario_id, split, sensor, place, number, kind FROM declared WHERE kind = '{LATE}'
)
SELECT scenario_id, split, sensor, place, number, coalesce(kind, '{IN_TIME}') AS kind
FROM placed LEFT JOIN late USING (scenario_id, split, sensor, place, number)
"""


def generate(random: Random) -> Workload:
    """Draw 2 to 4 splits, at least one of each stream; some pause never, some often."""
    chance = Chance(random)
    by_clock = chance.chance(0.2)
    is_connected = chance.chance(0.5)
    bound_ms = chance.choice([0, 30])
    longest = chance.weighted([(4, 1), (12, 4), (25, 3)])
    # Where all pause, each of them may be the last one that is not idle.
    all_pause = not by_clock and chance.chance(0.7)
    # A subtask without a split has ended, and with its last watermark event time goes on to its own end as
    # soon as all others are idle. With one subtask for each stream there is none.
    source_parallelism = chance.weighted([(0, 1), (1, 2)])
    records = {}
    for split in range(chance.weighted([(2, 3), (3, 3), (4, 1)])):
        pauses = 0.8 if all_pause else 0.0 if by_clock else chance.weighted([(0.0, 3), (0.1, 3), (0.5, 1)])
        now = 0
        readings = []
        for _ in range(chance.integer(0, longest)):
            now += chance.integer(0, 40)
            timestamp = max(0, now - chance.integer(0, bound_ms))
            value = (
                chance.choice(SENSORS),
                chance.integer(-9, 99),
                ANYWHERE if by_clock else int(chance.chance(pauses)),
            )
            readings.append((timestamp, value))
        records[f"{STREAMS[split % 2]}-{split // 2}"] = tuple(readings)
    parameters = {BY_CLOCK: int(by_clock), IS_CONNECTED: int(is_connected), BOUND: bound_ms}
    return Workload(records, parameters, source_parallelism)


class Announced(WatermarkGenerator):
    """Emits a watermark behind each reading, and believes what the reading says about a pause."""

    def __init__(self, bound_ms: int) -> None:
        self._bound_ms = bound_ms

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        output.mark_active()
        # The output drops one that is lower than the last.
        output.emit_watermark(Watermark(event_timestamp - self._bound_ms - 1))
        if event[-1]:
            output.mark_idle()

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit nothing: all is said behind the readings."""


Reading: TypeAlias = tuple[str, str, int, int]
"""Split, sensor, number, pauses."""


def _judged(
    value: Reading, ctx: KeyedProcessFunction.Context, places: ValueState
) -> tuple[str, str, int, int, str]:
    """Number a reading of a sensor, and say whether it is late."""
    place = (places.value() or 0) + 1
    places.update(place)
    timestamp = ctx.timestamp()
    assert timestamp is not None
    is_late = timestamp <= ctx.timer_service().current_watermark()
    split, sensor, number, _ = value
    return split, sensor, place, number, LATE if is_late else IN_TIME


class Judge(KeyedProcessFunction):
    """Numbers the readings of a sensor in one split, and says which are late."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._place = runtime_context.get_state(ValueStateDescriptor("place", Types.LONG()))

    def process_element(self, value: Reading, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield _judged(value, ctx, self._place)


class JudgeBoth(KeyedCoProcessFunction):
    """Numbers the readings and, apart from them, the calibrations of a sensor, and says which are late."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._places = [
            runtime_context.get_state(ValueStateDescriptor(f"place of {stream}", Types.LONG()))
            for stream in STREAMS
        ]

    def process_element1(self, value: Reading, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield _judged(value, ctx, self._places[0])

    def process_element2(self, value: Reading, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield _judged(value, ctx, self._places[1])


def _site_and_sensor(value: Reading) -> tuple[str, str]:
    """Return the key that readings and calibrations share: splits with the same number are of one site."""
    return value[0].rpartition("-")[2], value[1]


def _strategy(by_clock: bool, bound_ms: int) -> WatermarkStrategy:
    if by_clock:
        stock = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound_ms))
        return stock.with_idleness(Duration.of_millis(IDLE_MS))
    return WatermarkStrategy.for_generator(lambda context: Announced(bound_ms))


def _stream(env: StreamExecutionEnvironment, io: JobIO, stream: str) -> DataStream:
    strategy = _strategy(bool(io.parameters.get(BY_CLOCK, 0)), int(io.parameters.get(BOUND, 0)))
    source = LabelledSource(StreamSource(io.source(stream), stream))
    return env.from_source(source, strategy, stream).uid(stream).set_parallelism(io.source_parallelism)


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build readings and calibrations -> judged -> table."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG(), Types.STRING()])
    readings, calibrations = [_stream(env, io, stream) for stream in STREAMS]
    if io.parameters.get(IS_CONNECTED, 0):
        both = readings.connect(calibrations).key_by(_site_and_sensor, _site_and_sensor, LABELLED_KEY)
        judged = both.process(JudgeBoth(), row)
    else:
        united = readings.union(calibrations)
        judged = united.key_by(label_and_key, LABELLED_KEY).process(Judge(), row)
    into_table(named(judged, "judged", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Return a row for each reading: late where the run says so."""
    said = {row[:4] for row in declared.rows if row[4] == LATE}
    rows = []
    for split, own in records.items():
        places = dict.fromkeys(SENSORS, 0)
        for _, value in own:
            assert isinstance(value, tuple)
            sensor, number = str(value[0]), int(value[1] or 0)
            places[sensor] += 1
            reading = split, sensor, places[sensor], number
            rows.append((*reading, LATE if reading in said else IN_TIME))
    return declared.so_far(rows)
