"""An interval join: each order with the clicks of its user from five seconds before it to two after it.

Records of both sides wait in a map of the user, by timestamp, until the watermark has passed all possible
partners; a timer then removes them. So the second record finds the pair, and a checkpoint must hold the
waiting records of both sides together with the timers that remove them. A result has the later of the two
timestamps, whichever record came last: an operator behind the join looks at it.

A record behind the watermark is late and gives a row of its own. The run declares which ones are; only a
record behind a much newer record of its own split can be. Such a record may also miss partners without being
late: after a restore the watermark begins anew, and the partners may have been removed. All other pairs must
be there.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine.connected_functions import ProcessJoinFunction
from onceproof.engine.durations import Time
from onceproof.engine.functions import ProcessFunction
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios import _lateness as lateness
from onceproof.scenarios._streams import StreamSource, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onceproof.engine.api.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
    from onceproof.harness.model.scenario import InputRecord, Parameter

name = "interval_join"
generator_version = 5
tasks: dict[str, Role] = {
    "orders": "source",
    "clicks": "source",
    "join": "keyed",
    "times": "keyed",
    "late orders": "keyed",
    "late clicks": "keyed",
    "table": "sink",
}
record_schema = "user STRING, number BIGINT"
row_schema = "kind STRING, key STRING, at BIGINT, value BIGINT, click BIGINT"

BEFORE_MS = 5 * lateness.SECOND_MS
AFTER_MS = 2 * lateness.SECOND_MS
"""A click is a partner of an order at ``t`` from ``t - BEFORE_MS`` to ``t + AFTER_MS``."""

oracle_sql = f"""
WITH {lateness.arrivals_sql("user", "number", "(timestamp + 2)")},
  in_time AS (
    SELECT * FROM arrivals WHERE NOT is_late
  ),
  pairs AS (
    SELECT orders.scenario_id, orders.user AS key, greatest(orders.timestamp, clicks.timestamp) AS at,
      orders.number AS value, clicks.number AS click,
      count_if(
        NOT coalesce(clicks.watermark >= orders.timestamp + {AFTER_MS}, false)
        AND NOT coalesce(orders.watermark >= clicks.timestamp + {BEFORE_MS}, false)
      ) AS least,
      count(*) AS most
    FROM in_time AS orders JOIN in_time AS clicks
    ON orders.scenario_id = clicks.scenario_id AND orders.user = clicks.user
      AND clicks.timestamp BETWEEN orders.timestamp - {BEFORE_MS} AND orders.timestamp + {AFTER_MS}
    WHERE startswith(orders.split, 'orders-') AND startswith(clicks.split, 'clicks-')
    GROUP BY ALL
  ),
  said AS (
    SELECT scenario_id, key, at, value, click, count(*) AS copies
    FROM declared WHERE kind = 'pair' GROUP BY ALL
  )
SELECT scenario_id, '{lateness.LATE}' AS kind, key, timestamp AS at, value, 0L AS click
FROM arrivals WHERE is_late
UNION ALL
SELECT scenario_id, 'pair', key, at, value, click
FROM (
  SELECT *, explode(array_repeat(0, cast(
    if(coalesce(copies, 0) BETWEEN least AND most, coalesce(copies, 0), least) AS INT
  )))
  FROM pairs LEFT JOIN said USING (scenario_id, key, at, value, click)
)
"""

PAIR = "pair"
TWO_TIMES = "pair of two times"
"""The kind of a row whose timestamp behind the join is not the one that the join has said: never expected."""
USERS = ("ann", "bob", "cid", "dora")
ORDERS, CLICKS = "orders", "clicks"
EVENT = Types.TUPLE([Types.STRING(), Types.LONG()])
ROW = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])
LATE_SHARE = "late"
AT_WATERMARK = 0.2
"""The share of the records with the time of their split's watermark: they are in time, by nothing."""
JOIN_STATES = ("LEFT_BUFFER", "RIGHT_BUFFER", "_timer_state/event_CLEANUP_TIMER")
LATE = {stream: OutputTag(f"late-{stream}", EVENT) for stream in (ORDERS, CLICKS)}


def arrival_states(parameters: Mapping[str, Parameter]) -> tuple[str, ...]:
    """Return the names of the join's states where records may be late, else nothing.

    The order of arrival decides which records are late; another run may have stored them at the same event
    time.
    """
    return JOIN_STATES if parameters.get(LATE_SHARE, 1) else ()


def generate(random: Random) -> Workload:
    """Draw up to two splits of each stream, in and out of order, many on the bounds of the interval."""
    chance = Chance(random)
    users = USERS[: chance.weighted([(1, 3), (2, 3), (4, 2)])]
    pace_ms = chance.choice([300, 1000, 3000])
    late_share = lateness.draw_late_share(chance)
    number = 0
    records: dict[str, tuple[InputRecord, ...]] = {}
    for stream in (ORDERS, CLICKS):
        longest = chance.weighted([(2, 1), (10, 4), (18, 3)])
        for split in range(chance.integer(1, 2)):
            drawn: list[InputRecord] = []
            newest = 0
            count = chance.integer(0, longest)
            for timestamp in lateness.draw_timestamps(chance, count, pace_ms, late_share):
                number += 1
                # Whole seconds are exactly on the bounds of the interval, where off-by-one mistakes show. A
                # millisecond earlier is the time that a watermark may have, which is as far behind.
                second = timestamp - timestamp % lateness.SECOND_MS
                at = chance.weighted(((second, 5), (max(second - 1, 0), 2), (timestamp, 4)))
                if late_share and newest > lateness.BOUND_MS and chance.chance(AT_WATERMARK):
                    at = newest - lateness.BOUND_MS - 1
                newest = max(newest, at)
                drawn.append((at, (chance.choice(users), number)))
            records[f"{stream}-{split}"] = tuple(drawn)
    parameters = {
        "users": len(users),
        "pace_ms": pace_ms,
        LATE_SHARE: late_share,
    }
    return Workload(lateness.moved(chance, records), parameters)


class Pair(ProcessJoinFunction):
    """Emits each pair, with the timestamp of the result."""

    def process_element(
        self, left: tuple[str, int], right: tuple[str, int], ctx: ProcessJoinFunction.Context
    ) -> Iterator[tuple[str, str, int, int, int]]:
        yield PAIR, left[0], ctx.get_timestamp(), left[1], right[1]


class Times(ProcessFunction):
    """Takes the timestamp of each pair, which must be the one that the join function has read."""

    def process_element(
        self, value: tuple[str, str, int, int, int], ctx: ProcessFunction.Context
    ) -> Iterator[tuple[str, str, int | None, int, int]]:
        kind, user, at, order, click = value
        yield kind if ctx.timestamp() == at else TWO_TIMES, user, ctx.timestamp(), order, click


class LateEvent(ProcessFunction):
    """Emits a late order or click as a row."""

    def process_element(
        self, value: tuple[str, int], ctx: ProcessFunction.Context
    ) -> Iterator[tuple[str, str, int | None, int, int]]:
        yield lateness.LATE, value[0], ctx.timestamp(), value[1], 0


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build orders and clicks -> join -> times -> table; late records of both go to the table."""
    pairs = (
        _by_user(env, io, ORDERS)
        .interval_join(_by_user(env, io, CLICKS))
        .between(Time.milliseconds(-BEFORE_MS), Time.milliseconds(AFTER_MS))
        .side_output_left_late_data(LATE[ORDERS])
        .side_output_right_late_data(LATE[CLICKS])
        .process(Pair(), ROW)
        .name("join")
        .uid("join")
        .set_parallelism(io.parallelism)
    )
    times = pairs.process(Times(), ROW).name("times").uid("times").set_parallelism(io.parallelism)
    rows = times.union(*[_late(pairs, stream, io) for stream in LATE])
    table = rows.key_by(_user_of_row, Types.STRING()).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _by_user(env: StreamExecutionEnvironment, io: JobIO, stream: str) -> KeyedStream:
    source = StreamSource(io.source(stream), stream)
    events = env.from_source(source, lateness.WATERMARKS, stream, EVENT).uid(stream)
    return events.set_parallelism(io.source_parallelism).key_by(_user, Types.STRING())


def _late(pairs: DataStream, stream: str, io: JobIO) -> DataStream:
    late = pairs.get_side_output(LATE[stream]).process(LateEvent(), ROW)
    return late.name(f"late {stream}").uid(f"late {stream}").set_parallelism(io.parallelism)


def _user(value: tuple[str, int]) -> str:
    return value[0]


def _user_of_row(row: tuple[str, ...]) -> str:
    return row[1]


def expected(records: Records, declared: Declared) -> Rows:
    """Pair the records that were in time; pairs that may be missing are taken as the run declares them."""
    orders, late_orders = _in_time(records, ORDERS, declared)
    clicks, late_clicks = _in_time(records, CLICKS, declared)
    least: Counter[tuple[Any, ...]] = Counter()
    most: Counter[tuple[Any, ...]] = Counter()
    for order in orders:
        for click in clicks:
            apart = click.timestamp - order.timestamp
            if order.value[0] == click.value[0] and -BEFORE_MS <= apart <= AFTER_MS:
                row = (PAIR, *order.value[:1], max(order[0], click[0]), order.value[1], click.value[1])
                most[row] += 1
                # The first record may have been removed when the second one came.
                least[row] += not (
                    click.watermark >= order.timestamp + AFTER_MS
                    or order.watermark >= click.timestamp + BEFORE_MS
                )
    said = Counter(declared.rows)
    rows = [*late_orders, *late_clicks]
    for row, number in most.items():
        rows += [row] * (said[row] if least[row] <= said[row] <= number else least[row])
    return rows


def _in_time(
    records: Records, stream: str, declared: Declared
) -> tuple[list[lateness.Arrival], list[tuple[Any, ...]]]:
    """Return the records of a stream that were in time, and the rows of those behind the watermark."""
    return lateness.in_time(part_of(records, stream), declared, _end_of, _late_row)


def _end_of(timestamp: int) -> int:
    return timestamp + 2


def _late_row(timestamp: int, value: tuple[str, int]) -> tuple[str, str, int, int, int]:
    return lateness.LATE, value[0], timestamp, value[1], 0


options = FamilyOptions(declares=True, arrival_states=arrival_states, turns=6)
