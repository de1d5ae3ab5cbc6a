"""Delays per airport, airline and day: event-time windows, late flights beside them, names by broadcast.

Flights come in the order of departure, but their timestamps are those of the timetable. So a flight that
leaves two hours late is behind the watermark, and around midnight its day may be over; then it goes to the
side output. The delays of a day are aggregated as flights come in. When the day is over, its row waits until
the name of the airline is known from a small broadcast table. The waiting rows are keyed state, the table is
broadcast state, and a record of the table is applied to the rows that wait for it.

A day's row lists its flights, so that the rows of a day that is emitted again after a restore differ.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.broadcast_functions import KeyedBroadcastProcessFunction
from onceproof.engine.durations import Duration, Time
from onceproof.engine.functions import AggregateFunction, ProcessFunction, RuntimeContext
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.state.descriptors import ListStateDescriptor, MapStateDescriptor
from onceproof.engine.types import Types
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.engine.windows.assigners import TumblingEventTimeWindows
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios import _event_time as event_time
from onceproof.scenarios._keyed_job import LabelledSource
from onceproof.scenarios._streams import StreamSource, part_of
from onceproof.scenarios.flights import AIRPORTS, FIRST_DEPARTURE_MS, MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
    from onceproof.harness.model.history import Row
    from onceproof.harness.model.scenario import InputRecord

name = "flight_delays"
generator_version = 2
tasks: dict[str, Role] = {
    "flights": "source",
    "airlines": "source",
    "days": "keyed",
    "late": "keyed",
    "names": "keyed",
    "table": "sink",
}
record_schema = "carrier STRING, number BIGINT, delay INT, airline STRING"
row_schema = "kind STRING, key STRING, at BIGINT, value STRING, delay BIGINT, worst BIGINT"

DAY_MS: Final = 24 * 60 * MINUTE_MS
BOUND_MS: Final = 120 * MINUTE_MS
"""How many milliseconds late a flight may leave without being late for its day."""

DAY = "day"
FLIGHTS, AIRLINES = "flights", "airlines"

ORIGIN_SQL = "substring(split, length('flights-') + 1)"
oracle_sql = f"""
WITH {event_time.without_late_sql(f"concat({ORIGIN_SQL}, ' ', carrier)", "string(number)")},
  airlines AS (
    SELECT scenario_id, carrier, airline FROM records WHERE startswith(split, 'airlines-')
  ),
  members AS (
    SELECT scenario_id, concat({ORIGIN_SQL}, ' ', airlines.airline) AS key,
      timestamp - timestamp % {DAY_MS} AS at, number, coalesce(delay, 0) AS delay
    FROM marked JOIN airlines USING (scenario_id, carrier)
    WHERE startswith(split, 'flights-') AND NOT is_late
  )
SELECT scenario_id, '{event_time.LATE}' AS kind, key, timestamp AS at, value, 0L AS delay, 0L AS worst
FROM marked WHERE is_late
UNION ALL
SELECT scenario_id, 'day', key, at,
  concat_ws(',', transform(sort_array(collect_list(number)), each -> string(each))),
  sum(delay), max(greatest(delay, 0))
FROM members GROUP BY scenario_id, key, at
"""

CARRIERS = {"AA": "American", "DL": "Delta", "UA": "United", "WN": "Southwest"}
WATERMARKS = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))

TEXT, NUMBER = Types.STRING(), Types.LONG()
ROW = Types.TUPLE([TEXT, TEXT, NUMBER, TEXT, NUMBER, NUMBER])
DELAYS = Types.TUPLE([Types.LIST(NUMBER), NUMBER, NUMBER])
DAY_OF_CARRIER = Types.TUPLE([TEXT, TEXT, NUMBER, TEXT, NUMBER, NUMBER])
NAMES = MapStateDescriptor("names", TEXT, TEXT)
WAITING = ListStateDescriptor("waiting", DAY_OF_CARRIER)
LATE = OutputTag(event_time.LATE)


def generate(random: Random) -> Workload:
    """Draw some days at up to three airports, often near midnight; some carriers have no name there."""
    chance = Chance(random)
    airports = AIRPORTS[: chance.weighted([(1, 3), (2, 3), (3, 2)])]
    carriers = list(CARRIERS)[: chance.weighted([(1, 2), (2, 3), (4, 2)])]
    pace = chance.choice([5, 60, 240])
    longest_delay = chance.weighted([(100, 2), (400, 4), (1500, 2)])
    number = 0
    records: dict[str, tuple[InputRecord, ...]] = {}
    for airport in airports:
        # Some days begin long before midnight, most of them shortly.
        scheduled = chance.weighted([(0, 1), (17 * 60, 3)])
        flights: list[tuple[int, InputRecord]] = []
        for _ in range(chance.weighted([(0, 1), (chance.integer(1, 10), 4), (chance.integer(11, 25), 3)])):
            number += 1
            scheduled += chance.integer(0, 2 * pace)
            share = chance.unit()
            delay = None if chance.chance(0.05) else int(longest_delay * share * share) - 10
            value = (chance.choice(carriers), number, delay, None)
            departure = scheduled + (delay or 0)
            flights.append((departure, (FIRST_DEPARTURE_MS + scheduled * MINUTE_MS, value)))
        flights.sort(key=lambda flight: flight[0])
        records[f"{FLIGHTS}-{airport}"] = tuple([record for _, record in flights])
    known = carriers if chance.chance(0.7) else chance.sample(carriers, len(carriers) - 1)
    records[f"{AIRLINES}-0"] = tuple(
        [(time, (carrier, None, None, CARRIERS[carrier])) for time, carrier in enumerate(known)]
    )
    return Workload(records, {"flights": number, "carriers": len(carriers)})


class Delays(AggregateFunction):
    """Aggregates flights to (their numbers, total delay, greatest delay), in minutes."""

    def create_accumulator(self) -> tuple[list[int], int, int]:
        return [], 0, 0

    def add(self, value: tuple[str, str, int, int | None], accumulator: Any) -> tuple[list[int], int, int]:
        """Add a flight, its number in place; a cancelled one has no delay."""
        numbers, delay, worst = accumulator
        own = value[3] or 0
        numbers.append(value[2])
        return numbers, delay + own, max(worst, own)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> tuple[list[int], int, int]:
        return [*acc_a[0], *acc_b[0]], acc_a[1] + acc_b[1], max(acc_a[2], acc_b[2])


class DayRow(ProcessWindowFunction):
    """Adds airport, carrier and day to the delays of a window."""

    def process(
        self, key: tuple[str, str], context: WindowContext, elements: Iterable[tuple[list[int], int, int]]
    ) -> Iterator[tuple[str, str, int, str, int, int]]:
        """Emit one row for the day; the next operator adds the airline's name."""
        for numbers, delay, worst in elements:
            listed = ",".join(map(str, sorted(numbers)))
            yield *key, context.window().start, listed, delay, worst


class WithName(KeyedBroadcastProcessFunction):
    """Emits a carrier's rows under the airline's name, as soon as it is known."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind the rows that wait."""
        self._waiting = runtime_context.get_list_state(WAITING)

    def process_element(
        self, value: tuple[Any, ...], ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[tuple[Any, ...]]:
        """Emit a day's row, or keep it until the airline's name arrives."""
        airline = ctx.get_broadcast_state(NAMES).get(value[1])
        if airline is None:
            self._waiting.add(value)
        else:
            yield _named(value, airline)

    def process_broadcast_element(
        self, value: tuple[Any, ...], ctx: KeyedBroadcastProcessFunction.Context
    ) -> list[tuple[Any, ...]]:
        """Store a name and emit the rows of this subtask that waited for it."""
        carrier, *_, airline = value
        ctx.get_broadcast_state(NAMES).put(carrier, airline)
        released: list[tuple[Any, ...]] = []

        def release(key: str, waiting: Any) -> None:
            if key == carrier:
                released.extend([_named(row, airline) for row in waiting.get()])
                waiting.clear()

        ctx.apply_to_keyed_state(WAITING, release)
        return released


def _named(row: tuple[Any, ...], airline: str) -> tuple[Any, ...]:
    origin, _, *rest = row
    return DAY, f"{origin} {airline}", *rest


class LateFlight(ProcessFunction):
    """Emits a late flight as a row."""

    def process_element(
        self, value: tuple[str, str, int, int | None], ctx: ProcessFunction.Context
    ) -> Iterator[tuple[Any, ...]]:
        origin, *flight = value
        timestamp = ctx.timestamp()
        assert timestamp is not None
        yield late_row(origin, timestamp, flight)


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build flights -> days -> names -> table; late flights go to the table, too."""
    log = LabelledSource(StreamSource(io.source(FLIGHTS), FLIGHTS), _from_origin)
    flights = env.from_source(log, WATERMARKS, FLIGHTS).uid(FLIGHTS).set_parallelism(io.source_parallelism)
    table = StreamSource(io.source(AIRLINES), AIRLINES)
    airlines = env.from_source(table, None, AIRLINES).uid(AIRLINES).set_parallelism(io.source_parallelism)
    days = (
        flights.key_by(_origin_and_carrier, Types.TUPLE([TEXT, TEXT]))
        .window(TumblingEventTimeWindows.of(Time.milliseconds(DAY_MS)))
        .side_output_late_data(LATE)
        .aggregate(Delays(), DayRow(), DELAYS, DAY_OF_CARRIER)
    )
    days = _keyed("days", days, io)
    late = _keyed("late", days.get_side_output(LATE).process(LateFlight(), ROW), io)
    names = days.key_by(_carrier, TEXT).connect(airlines.broadcast(NAMES)).process(WithName(), ROW)
    rows = _keyed("names", names, io).union(late).key_by(_key_of_row, TEXT)
    sink = rows.add_sink(io.sink("table")).name("table").uid("table")
    sink.set_parallelism(io.sink_parallelism)


def _keyed(name: str, stream: DataStream, io: JobIO) -> DataStream:
    return stream.name(name).uid(name).set_parallelism(io.parallelism)


def _from_origin(split: str, value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return (origin, carrier, number, delay); the split names the origin."""
    return split.removeprefix(f"{FLIGHTS}-"), *value[:3]


def _origin_and_carrier(value: tuple[Any, ...]) -> tuple[str, str]:
    return value[0], value[1]


def _carrier(value: tuple[Any, ...]) -> str:
    carrier: str = value[1]
    return carrier


def _key_of_row(row: tuple[Any, ...]) -> str:
    key: str = row[1]
    return key


def late_row(origin: str, timestamp: int, flight: Any) -> Row:
    carrier, number, *_ = flight
    return event_time.LATE, f"{origin} {carrier}", timestamp, str(number), 0, 0


def due(row: Row, records: Records) -> int:
    """Return the last millisecond of a row's day; of a late flight, too: its airline may be unknown."""
    return int(row[2]) // DAY_MS * DAY_MS + DAY_MS - 1


def expected(records: Records, declared: Declared) -> Rows:
    """Add up the delays of each airport, airline and day, without the flights that were late."""
    airlines: Any = [value for own in part_of(records, AIRLINES).values() for _, value in own]
    names = {carrier: airline for carrier, _, _, airline in airlines}
    rows: list[Row] = []
    for split, own in part_of(records, FLIGHTS).items():
        origin = split.removeprefix(f"{FLIGHTS}-")
        kept, late = event_time.without_late({split: own}, declared, partial(late_row, origin))
        rows += late
        days: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for timestamp, (carrier, number, delay, _) in kept:
            if carrier in names:
                key = f"{origin} {names[carrier]}", timestamp - timestamp % DAY_MS
                days[key].append((number, delay or 0))
        for key, flights in days.items():
            listed = ",".join([str(number) for number, _ in sorted(flights)])
            delays = [delay for _, delay in flights]
            rows.append((DAY, *key, listed, sum(delays), max(0, *delays)))
    return declared.so_far(rows)


options = FamilyOptions(
    late=event_time.LATE,
    due=due,
    # A day that is over waits for its airline's name; the watermarks of earlier tasks decide when it is over.
    arrival_states=("waiting",),
)
