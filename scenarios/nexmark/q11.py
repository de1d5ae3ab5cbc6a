"""Nexmark q11, user sessions: how many bids a person makes before ten seconds without a bid.

Bids are counted as they arrive, and two sessions merge with their counts when a bid falls between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import EventTimeSessionWindows
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows
from onceproof.scenarios._keyed_job import Count
from onceproof.scenarios.nexmark import _events as nexmark
from onceproof.scenarios.nexmark import _windows as windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "nexmark_q11"
generator_version = 2
options = FamilyOptions(
    declares=True,
    any_backend=True,
    # The count of a session is kept under the window of the bid that arrived first.
    arrival_states=("merging-window-set", "window-contents"),
)
tasks: dict[str, Role] = {"events -> bids": "source", "sessions": "keyed", "table": "sink"}
record_schema = nexmark.RECORD_SCHEMA
row_schema = "bidder BIGINT, bids BIGINT, start BIGINT, end BIGINT"
oracle_sql = f"""
WITH {nexmark.VIEWS},
  stated AS (
    SELECT *, lag(timestamp) OVER (PARTITION BY scenario_id, bidder ORDER BY timestamp) AS before FROM bid
  ),
  numbered AS (
    SELECT *, count_if(before IS NULL OR timestamp - before > {windows.SIZE_MS}) OVER (
      PARTITION BY scenario_id, bidder ORDER BY timestamp
    ) AS session
    FROM stated
  )
SELECT scenario_id, bidder, count(*) AS bids, min(timestamp) AS start,
  max(timestamp) + {windows.SIZE_MS} AS end
FROM numbered GROUP BY scenario_id, bidder, session
"""
generate = nexmark.draw

LONG = Types.LONG()


class SessionRow(ProcessWindowFunction):
    """Adds bidder, start and end to the count of a session."""

    def process(
        self, key: int, context: WindowContext, elements: Iterable[int]
    ) -> Iterator[tuple[int, int, int, int]]:
        for bids in elements:
            yield key, bids, context.window().start, context.window().end


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> bids -> sessions -> table."""
    bids = nexmark.bids(nexmark.source(env, io), io)
    sessions = (
        bids.key_by(nexmark.second, LONG)
        .window(EventTimeSessionWindows.with_gap(windows.SIZE))
        .aggregate(Count(), SessionRow(), LONG, Types.TUPLE([LONG, LONG, LONG, LONG]))
    )
    nexmark.into_table(nexmark.named(sessions, "sessions", io), io, column=0)


def expected(records: Records, declared: Declared) -> Rows:
    """Go through the bids of each bidder in the order of their times."""
    rows: list[tuple[int, int, int, int]] = []
    times: dict[int, list[int]] = {}
    for time, bid in nexmark.all_bids(records):
        times.setdefault(bid.bidder, []).append(time)
    for bidder, own in times.items():
        own.sort()
        start = before = own[0]
        bids = 0
        for time in own:
            if time - before > windows.SIZE_MS:
                rows.append((bidder, bids, start, before + windows.SIZE_MS))
                start, bids = time, 0
            before, bids = time, bids + 1
        rows.append((bidder, bids, start, before + windows.SIZE_MS))
    return declared.so_far(rows)
