"""Visits and purchases of every five seconds: grouped together by user, and joined pair by pair.

The sources give no watermarks. Behind them each record gets the time that its value holds as its timestamp,
and watermarks follow from that: the timestamps of the sources, which run the other way, must not be seen.
Each stream is one split in the order of its times, so nothing is late and every window is complete.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine.connected_functions import CoGroupFunction, FlatJoinFunction
from onceproof.engine.durations import Time
from onceproof.engine.types import Types
from onceproof.engine.watermarks.strategy import TimestampAssigner, WatermarkStrategy
from onceproof.engine.windows.assigners import TumblingEventTimeWindows
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios import _event_time as event_time
from onceproof.scenarios._streams import StreamSource, part_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
    from onceproof.harness.model.scenario import InputRecord

name = "visits_and_purchases"
generator_version = 1
options = FamilyOptions(declares=True, any_backend=True)
tasks: dict[str, Role] = {
    "visits -> times of visits": "source",
    "purchases -> times of purchases": "source",
    "Map": "keyed",
    "Map (2)": "keyed",
    "groups": "keyed",
    "Map (3)": "keyed",
    "Map (4)": "keyed",
    "pairs": "keyed",
    "table": "sink",
}
record_schema = "user STRING, number BIGINT, at BIGINT"
row_schema = "kind STRING, user STRING, visit BIGINT, purchase BIGINT"

SIZE_MS = 5 * event_time.SECOND_MS
oracle_sql = f"""
WITH marked AS (
  SELECT *, at - pmod(at, {SIZE_MS}) AS start, startswith(split, 'visits-') AS is_visit FROM records
)
SELECT scenario_id, 'group' AS kind, user,
  coalesce(sum(number) FILTER (WHERE is_visit), 0L) AS visit,
  coalesce(sum(number) FILTER (WHERE NOT is_visit), 0L) AS purchase
FROM marked GROUP BY scenario_id, user, start
UNION ALL
SELECT scenario_id, 'pair', user, visits.number, purchases.number
FROM marked AS visits JOIN marked AS purchases USING (scenario_id, user, start)
WHERE visits.is_visit AND NOT purchases.is_visit AND visits.at <= purchases.at
"""

USERS = ("ann", "bob", "cid", "dora")
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
ROW = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])


def generate(random: Random) -> Workload:
    """Draw one split of each stream; half of the times are whole seconds, many of them ends of windows."""
    chance = Chance(random)
    users = USERS[: chance.weighted([(1, 3), (2, 3), (4, 2)])]
    pace_ms = chance.choice([300, 1000, 3000])
    longest = chance.weighted([(2, 1), (8, 4), (14, 3)])
    records: dict[str, tuple[InputRecord, ...]] = {}
    number = 0
    for stream in ("visits", "purchases"):
        drawn: list[InputRecord] = []
        at = 0
        for place in range(chance.integer(0, longest)):
            number += 1
            at += chance.integer(0, 2 * pace_ms)
            if chance.chance(0.5):
                at += -at % event_time.SECOND_MS
            drawn.append((place, (chance.choice(users), number, at)))
        records[f"{stream}-0"] = tuple(drawn)
    return Workload(records, {"users": len(users), "pace_ms": pace_ms})


class TimeInValue(TimestampAssigner):
    """Takes the time that a record holds."""

    def extract_timestamp(self, value: tuple[str, int, int], record_timestamp: int) -> int:
        return value[2]


class Sums(CoGroupFunction):
    """Adds up the numbers of both sides."""

    def co_group(
        self, first: Iterable[tuple[str, int, int]], second: Iterable[tuple[str, int, int]]
    ) -> Iterator[tuple[str, str, int, int]]:
        visits, purchases = list(first), list(second)
        user = (visits or purchases)[0][0]
        yield "group", user, sum(each[1] for each in visits), sum(each[1] for each in purchases)


class VisitBefore(FlatJoinFunction):
    """Pairs a purchase with each visit that is not after it."""

    def join(
        self, first: tuple[str, int, int], second: tuple[str, int, int]
    ) -> Iterator[tuple[str, str, int, int]]:
        if first[2] <= second[2]:
            yield "pair", first[0], first[1], second[1]


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build visits and purchases -> groups and pairs -> table."""
    visits, purchases = _timed(env, io, "visits"), _timed(env, io, "purchases")
    windows = TumblingEventTimeWindows.of(Time.milliseconds(SIZE_MS))
    grouped = visits.rebalance().co_group(purchases.rebalance())
    groups = grouped.where(_user).equal_to(_user).window(windows).apply(Sums(), ROW)
    joined = visits.rebalance().join(purchases.rebalance())
    pairs = joined.where(_user).equal_to(_user).window(windows).apply(VisitBefore(), ROW)
    groups = groups.name("groups").uid("groups").set_parallelism(io.parallelism)
    pairs = pairs.name("pairs").uid("pairs").set_parallelism(io.parallelism)
    table = groups.union(pairs).rebalance().add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _timed(env: StreamExecutionEnvironment, io: JobIO, stream: str) -> DataStream:
    source = StreamSource(io.source(stream), stream)
    records = env.from_source(source, WatermarkStrategy.no_watermarks(), stream, EVENT).uid(stream)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(TimeInValue())
    timed = records.set_parallelism(io.source_parallelism).assign_timestamps_and_watermarks(strategy)
    timed = timed.name(f"times of {stream}").uid(f"times of {stream}")
    return timed.set_parallelism(io.source_parallelism)


def _user(value: tuple[str, ...]) -> str:
    return value[0]


def expected(records: Records, declared: Declared) -> Rows:
    """Group and pair the records of each user and window."""
    sides: list[dict[tuple[Any, int], list[tuple[int, int]]]] = []
    for stream in ("visits", "purchases"):
        windows: dict[tuple[Any, int], list[tuple[int, int]]] = defaultdict(list)
        for split in part_of(records, stream).values():
            for _, value in split:
                assert isinstance(value, tuple)
                user, number, at = value[0], int(value[1] or 0), int(value[2] or 0)
                windows[user, at // SIZE_MS].append((number, at))
        sides.append(windows)
    visits, purchases = sides
    rows: list[tuple[Any, ...]] = []
    for window in visits.keys() | purchases.keys():
        first, second = visits.get(window, []), purchases.get(window, [])
        rows.append(("group", window[0], sum(each for each, _ in first), sum(each for each, _ in second)))
        rows += [("pair", window[0], one, other) for one, at in first for other, then in second if at <= then]
    return declared.so_far(rows)
