"""An interval join: each order with the clicks of its user from five seconds before it to two after it.

Records of both sides wait in a map of the user, by timestamp, until the watermark has passed all possible
partners; a timer then removes them. So the second record finds the pair, and a checkpoint must hold the
waiting records of both sides together with the timers that remove them. A result has the later of the two
timestamps, whichever record came last: an operator behind the join looks at it.

A record behind the watermark is late and gives a row of its own. A record may also miss partners without
being late: after a restore the watermark begins anew, and the partners may have been removed. All other pairs
must be there.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, cast

from onceproof.engine.connected_functions import ProcessJoinFunction
from onceproof.engine.durations import Time
from onceproof.engine.functions import ProcessFunction
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios import _event_time as event_time
from onceproof.scenarios._streams import StreamSource, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onceproof.engine.api.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
    from onceproof.harness.model.history import Row
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

BEFORE_MS = 5 * event_time.SECOND_MS
AFTER_MS = 2 * event_time.SECOND_MS
"""A click is a partner of an order at ``t`` from ``t - BEFORE_MS`` to ``t + AFTER_MS``."""

oracle_sql = f"""
WITH {event_time.without_late_sql("user", "number")}
SELECT scenario_id, '{event_time.LATE}' AS kind, key, timestamp AS at, value, 0L AS click
FROM marked WHERE is_late
UNION ALL
SELECT scenario_id, 'pair', orders.key, greatest(orders.timestamp, clicks.timestamp), orders.value,
  clicks.value
FROM marked AS orders JOIN marked AS clicks USING (scenario_id)
WHERE startswith(orders.split, 'orders-') AND startswith(clicks.split, 'clicks-') AND orders.key = clicks.key
  AND NOT orders.is_late AND NOT clicks.is_late
  AND clicks.timestamp BETWEEN orders.timestamp - {BEFORE_MS} AND orders.timestamp + {AFTER_MS}
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
    late_share = event_time.draw_late_share(chance)
    number = 0
    records: dict[str, tuple[InputRecord, ...]] = {}
    for stream in (ORDERS, CLICKS):
        longest = chance.weighted([(2, 1), (10, 4), (18, 3)])
        for split in range(chance.integer(1, 2)):
            drawn: list[InputRecord] = []
            newest = 0
            count = chance.integer(0, longest)
            for timestamp in event_time.draw_timestamps(chance, count, pace_ms, late_share):
                number += 1
                # Whole seconds are exactly on the bounds of the interval, where off-by-one mistakes show. A
                # millisecond earlier is the time that a watermark may have, which is as far behind.
                second = timestamp - timestamp % event_time.SECOND_MS
                at = chance.weighted(((second, 5), (max(second - 1, 0), 2), (timestamp, 4)))
                if late_share and newest > event_time.BOUND_MS and chance.chance(AT_WATERMARK):
                    at = newest - event_time.BOUND_MS - 1
                newest = max(newest, at)
                drawn.append((at, (chance.choice(users), number)))
            records[f"{stream}-{split}"] = tuple(drawn)
    parameters = {
        "users": len(users),
        "pace_ms": pace_ms,
        LATE_SHARE: late_share,
    }
    return Workload(event_time.moved(chance, records), parameters)


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
        yield event_time.LATE, value[0], ctx.timestamp(), value[1], 0


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
    events = env.from_source(source, event_time.WATERMARKS, stream, EVENT).uid(stream)
    return events.set_parallelism(io.source_parallelism).key_by(_user, Types.STRING())


def _late(pairs: DataStream, stream: str, io: JobIO) -> DataStream:
    late = pairs.get_side_output(LATE[stream]).process(LateEvent(), ROW)
    return late.name(f"late {stream}").uid(f"late {stream}").set_parallelism(io.parallelism)


def _user(value: tuple[str, int]) -> str:
    return value[0]


def _user_of_row(row: tuple[str, ...]) -> str:
    return row[1]


def expected(records: Records, declared: Declared) -> Rows:
    """Pair the records that were not late."""
    orders, rows = _in_time(records, ORDERS, declared)
    clicks, late_clicks = _in_time(records, CLICKS, declared)
    rows += late_clicks
    for ordered, (user, order) in orders:
        for clicked, (other, click) in clicks:
            if user == other and -BEFORE_MS <= clicked - ordered <= AFTER_MS:
                rows.append((PAIR, user, max(ordered, clicked), order, click))
    return rows


def _in_time(records: Records, stream: str, declared: Declared) -> tuple[list[tuple[int, Any]], list[Row]]:
    """Return the records of a stream that were in time, and the rows of those behind the watermark."""
    return event_time.without_late(
        part_of(records, stream),
        declared,
        lambda timestamp, value: (event_time.LATE, value[0], timestamp, value[1], 0),
    )


def due(row: Row, records: Records) -> int | None:
    """Return the watermark behind the time of a late record, or that removes the first record of a pair."""
    if row[0] == event_time.LATE:
        return int(row[2]) + 1
    times = [
        timestamp + (BEFORE_MS if split.startswith(CLICKS) else AFTER_MS)
        for split, own in records.items()
        for timestamp, value in own
        if cast(tuple[str, int], value)[1] in row[3:]
    ]
    return min(times) if row[0] == PAIR and times else None


options = FamilyOptions(late=event_time.LATE, due=due, arrival_states=arrival_states)
