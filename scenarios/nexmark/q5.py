"""Nexmark q5, hot items: the auctions with the most bids in the last ten seconds, every five seconds.

Two windows in a row: bids are counted by auction in sliding windows; the counts of one window, keyed by its
start, meet in a second window, which emits the highest. The second stage may emit a window only after the
watermark has passed it in all subtasks of the first. Auctions with equally many bids are all emitted. Five
seconds is Beam's period; that of ``nexmark-flink`` is two.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows
from onceproof.scenarios._keyed_job import Count
from onceproof.scenarios.nexmark import _events as nexmark
from onceproof.scenarios.nexmark import _windows as windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "nexmark_q5"
generator_version = 2
options = FamilyOptions(declares=True, any_backend=True)
tasks: dict[str, Role] = {"events -> bids": "source", "counts": "keyed", "hottest": "keyed", "table": "sink"}
record_schema = nexmark.RECORD_SCHEMA
row_schema = "start BIGINT, auction BIGINT, bids BIGINT"
oracle_sql = f"""
WITH {nexmark.VIEWS},
  counts AS (
    SELECT scenario_id, start, auction, count(*) AS bids
    FROM (SELECT *, explode({windows.starts_sql("timestamp")}) AS start FROM bid)
    GROUP BY scenario_id, start, auction
  )
SELECT scenario_id, start, auction, bids
FROM (SELECT *, max(bids) OVER (PARTITION BY scenario_id, start) AS most FROM counts)
WHERE bids = most
"""
generate = nexmark.draw

LONG = Types.LONG()
COUNT = Types.TUPLE([LONG, LONG, LONG])


class CountRow(ProcessWindowFunction):
    """Adds auction and window start to a count."""

    def process(
        self, key: int, context: WindowContext, elements: Iterable[int]
    ) -> Iterator[tuple[int, int, int]]:
        for count in elements:
            yield context.window().start, key, count


class Hottest(ProcessWindowFunction):
    """Emits the highest counts."""

    def process(
        self, key: int, context: WindowContext, elements: Iterable[tuple[int, int, int]]
    ) -> Iterator[tuple[int, int, int]]:
        counts = list(elements)
        most = max(count for _, _, count in counts)
        for row in counts:
            if row[2] == most:
                yield row


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> bids -> counts -> hottest -> table."""
    bids = nexmark.bids(nexmark.source(env, io), io)
    counts = (
        bids.key_by(nexmark.first, LONG)
        .window(SlidingEventTimeWindows.of(windows.SIZE, windows.SLIDE))
        .aggregate(Count(), CountRow(), LONG, COUNT)
    )
    # A count has the timestamp of the last millisecond of its window, so the counts of one window share a
    # slide.
    hottest = (
        nexmark.named(counts, "counts", io)
        .key_by(nexmark.first, LONG)
        .window(TumblingEventTimeWindows.of(windows.SLIDE))
        .process(Hottest(), COUNT)
    )
    nexmark.into_table(nexmark.named(hottest, "hottest", io), io, column=1)


def expected(records: Records, declared: Declared) -> Rows:
    """Count the bids of each auction in each window, and return the highest counts."""
    counts: dict[int, Counter[int]] = {}
    for time, bid in nexmark.all_bids(records):
        for start in windows.starts_of(time):
            counts.setdefault(start, Counter())[bid.auction] += 1
    rows = []
    for start, bids in counts.items():
        most = max(bids.values())
        rows += [(start, auction, count) for auction, count in bids.items() if count == most]
    return declared.so_far(rows)
