"""The sum of all numbers of every five seconds: tumbling windows without a key, reduced as numbers arrive.

One subtask computes them whatever the parallelism around it: all channels meet there, and its watermark is
the least of theirs. A reduced window is one number in the state, so a number that is lost or added twice
shows in the sum. A window that is emitted too early makes numbers late that cannot be.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from onceproof.engine.durations import Time
from onceproof.engine.functions import ReduceFunction
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import TumblingEventTimeWindows
from onceproof.engine.windows.window_functions import AllWindowFunction
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios import _event_time as event_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.engine.windows.windows import TimeWindow
    from onceproof.harness.model.history import Row

name = "window_sum"
generator_version = 3
tasks: dict[str, Role] = {"numbers -> pair": "source", "sums": "keyed", "late": "keyed", "table": "sink"}
record_schema = "number BIGINT"
row_schema = "kind STRING, key STRING, at BIGINT, value BIGINT"

SIZE_MS = 5 * event_time.SECOND_MS
START = f"timestamp - pmod(timestamp, {SIZE_MS})"

oracle_sql = f"""
WITH {event_time.without_late_sql("'all'", "number")}
SELECT scenario_id, '{event_time.LATE}' AS kind, key, timestamp AS at, value FROM marked WHERE is_late
UNION ALL
SELECT scenario_id, 'sum', key, {START}, sum(value)
FROM marked WHERE NOT is_late GROUP BY scenario_id, key, {START}
"""

ALL = "all"
SUM = "sum"
LATE = OutputTag(event_time.LATE, Types.TUPLE([Types.STRING(), Types.LONG()]))


def generate(random: Random) -> Workload:
    """Draw 1 to 4 splits of powers of two within a minute or so: a sum shows which are in it."""
    chance = Chance(random)
    splits = chance.weighted([(1, 2), (2, 4), (4, 2)])
    longest = chance.weighted([(3, 1), (12, 4), (25, 3)])
    pace_ms = chance.choice([200, 800, 3000])
    late_share = event_time.draw_late_share(chance)
    records = {}
    for split in range(splits):
        timestamps = event_time.draw_timestamps(
            chance, chance.integer(0, longest), pace_ms, late_share, SIZE_MS
        )
        records[f"numbers-{split}"] = tuple(
            [(timestamp, 1 << chance.integer(0, 40)) for timestamp in timestamps]
        )
    return Workload(event_time.moved(chance, records), {"pace_ms": pace_ms, "late": late_share})


class Add(ReduceFunction):
    """Adds numbers."""

    def reduce(self, value1: tuple[str, int], value2: tuple[str, int]) -> tuple[str, int]:
        return value1[0], value1[1] + value2[1]


class SumRow(AllWindowFunction):
    """Adds the window start to a sum."""

    def apply(
        self, window: TimeWindow, inputs: Iterable[tuple[str, int]]
    ) -> Iterator[tuple[str, str, int, int]]:
        for key, number in inputs:
            yield SUM, key, window.start, number


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build numbers -> sums of tumbling windows -> table; late numbers go to the table."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])
    numbers = (
        env.from_source(io.source("numbers"), event_time.WATERMARKS, "numbers")
        .uid("numbers")
        .set_parallelism(io.source_parallelism)
        .map(_pair, Types.TUPLE([Types.STRING(), Types.LONG()]))
        .name("pair")
        .uid("pair")
        .set_parallelism(io.source_parallelism)
    )
    sums = (
        numbers.window_all(TumblingEventTimeWindows.of(Time.milliseconds(SIZE_MS)))
        .side_output_late_data(LATE)
        .reduce(Add(), SumRow(), row)
        .name("sums")
        .uid("sums")
    )
    late = sums.get_side_output(LATE).process(event_time.LateRow(), row).name("late").uid("late")
    late.set_parallelism(io.parallelism)
    table = sums.union(late).rebalance().add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


def _pair(number: int) -> tuple[str, int]:
    return ALL, number


def due(row: Row, records: Records) -> int | None:
    """Return the last millisecond of the window of a sum."""
    return int(row[2]) + SIZE_MS - 1 if row[0] == SUM else None


def expected(records: Records, declared: Declared) -> Rows:
    """Add up the numbers of each window, without those that were late."""
    numbers, rows = event_time.without_late(
        records, declared, lambda timestamp, number: (event_time.LATE, ALL, timestamp, number)
    )
    sums: Counter[int] = Counter()
    for timestamp, number in numbers:
        sums[timestamp - timestamp % SIZE_MS] += number
    rows += [(SUM, ALL, start, number) for start, number in sums.items()]
    return declared.so_far(rows)


options = FamilyOptions(late=event_time.LATE, due=due, answers=event_time.window_of)
