"""The 75th and the 99th percentile of each hour: a window whose function needs all its values at once.

A percentile is the least value that at least so many percent of all values do not exceed, so ties and windows
of one value have one answer. The logs are in order and the watermark is that of the slowest, so no record is
late and each window is emitted once. Only when it is emitted depends on the run.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine.durations import Time
from onceproof.engine.types import Types
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.engine.windows.assigners import TumblingEventTimeWindows
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "percentiles"
generator_version = 2
options = FamilyOptions(declares=True)
tasks: dict[str, Role] = {"requests": "source", "hours": "keyed", "table": "sink"}
record_schema = "service STRING, millis BIGINT"
row_schema = "service STRING, hour BIGINT, p75 BIGINT, p99 BIGINT, requests BIGINT"
oracle_sql = """
SELECT scenario_id, service, timestamp - timestamp % 3600000 AS hour,
       element_at(sort_array(collect_list(millis)), cast(ceil(75 * count(*) / 100) AS INT)) AS p75,
       element_at(sort_array(collect_list(millis)), cast(ceil(99 * count(*) / 100) AS INT)) AS p99,
       count(*) AS requests
FROM records GROUP BY scenario_id, service, timestamp - timestamp % 3600000
"""

SERVICES = ("login", "search", "pay")
HOUR_MS = 3_600_000


def generate(random: Random) -> Workload:
    """Draw up to four logs in order; some hours are empty, and many requests take equally long."""
    chance = Chance(random)
    logs = chance.weighted([(1, 2), (2, 3), (4, 2)])
    services = SERVICES[: chance.integer(1, 3)]
    longest = chance.weighted([(5, 1), (20, 3), (40, 3)])
    records = {}
    for log in range(logs):
        now = 0
        requests = []
        for _ in range(chance.integer(0, longest)):
            step = chance.weighted([(0, 4), (1, 1), (chance.integer(0, HOUR_MS // 4), 6), (HOUR_MS, 1)])
            # Requests of equal time follow one at the end of an hour, whose watermark they meet.
            now = chance.at_boundary(now + step, HOUR_MS) if step else now
            requests.append((now, (chance.choice(services), chance.choice((3, 5, 8, 200, 4_000)))))
        records[f"log-{log}"] = tuple(requests)
    return Workload(records, {"logs": logs, "services": len(services)})


class Percentiles(ProcessWindowFunction):
    """Ranks all values of a window."""

    def process(
        self, key: str, context: WindowContext, elements: Iterable[tuple[str, int]]
    ) -> Iterator[tuple[str, int, int, int, int]]:
        ranked = sorted(millis for _, millis in elements)
        hour: int = context.window().start
        yield key, hour, percentile(ranked, 75), percentile(ranked, 99), len(ranked)


def percentile(ranked: list[int], percent: int) -> int:
    """Return the least value that ``percent`` percent of the ranked values do not exceed."""
    return ranked[-(-percent * len(ranked) // 100) - 1]


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build requests -> hours -> table, both edges keyed by the service."""
    number = Types.LONG()
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    requests = env.from_source(io.source("requests"), in_order, "requests").uid("requests")
    hours = (
        requests.set_parallelism(io.source_parallelism)
        .key_by(_service, Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.hours(1)))
        .process(Percentiles(), Types.TUPLE([Types.STRING(), number, number, number, number]))
        .name("hours")
        .uid("hours")
        .set_parallelism(io.parallelism)
    )
    table = hours.key_by(_service, Types.STRING()).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _service(value: tuple[Any, ...]) -> str:
    service: str = value[0]
    return service


def expected(records: Records, declared: Declared) -> Rows:
    """Find each percentile by counting the values of the hour that are not greater."""
    hours: dict[tuple[Any, int], list[int]] = {}
    for log in records.values():
        for timestamp, request in log:
            assert isinstance(request, tuple)
            hours.setdefault((request[0], timestamp // HOUR_MS * HOUR_MS), []).append(int(request[1] or 0))
    rows = [(*hour, _least(values, 75), _least(values, 99), len(values)) for hour, values in hours.items()]
    if declared.is_whole:
        return rows
    given = set(declared.rows)
    return [row for row in rows if row in given]


def _least(values: list[int], percent: int) -> int:
    """Return the least of the values that ``percent`` percent of them do not exceed."""
    enough = percent * len(values)
    return min(value for value in values if sum(each <= value for each in values) * 100 >= enough)
