"""Visits to a site that end after a silence whose length depends on the visitor's device.

Session windows with a dynamic gap: each click keeps the visit open for the gap of its own device, so a click
with a short gap may lie inside of the gap of an earlier one. The clicks of a visitor are in order and never
late, and no click comes exactly at the end of a visit, so the visits follow from the input.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onceproof.engine.types import Types
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.engine.windows.assigners import DynamicEventTimeSessionWindows, SessionWindowTimeGapExtractor
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import (
    LABELLED_KEY,
    LabelledSource,
    draw_keyed,
    into_table,
    label_and_key,
    named,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Click: TypeAlias = tuple[str, str, int, int]
"""Split, visitor, gap in milliseconds, page."""

name = "visits"
generator_version = 1
options = FamilyOptions(
    declares=True,
    any_backend=True,
    # All clicks of a visit are kept under the window of the click that arrived first.
    arrival_states=("merging-window-set", "window-contents"),
)
tasks: dict[str, Role] = {"clicks": "source", "visits": "keyed", "table": "sink"}
record_schema = "visitor STRING, gap BIGINT, page BIGINT"
row_schema = "split STRING, visitor STRING, start BIGINT, end BIGINT, clicks BIGINT, pages BIGINT"
GAPS_MS: Final = (5, 21, 61)
"""Odd, where all timestamps are even: no click is exactly at the end of a visit."""
VISITORS: Final = ("ada", "ben", "cleo", "dan")
oracle_sql = """
WITH reached AS (
  SELECT *, max(timestamp + gap) OVER (
    PARTITION BY scenario_id, split, visitor ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS end_before
  FROM records
), numbered AS (
  SELECT *, count_if(end_before IS NULL OR timestamp > end_before) OVER (
    PARTITION BY scenario_id, split, visitor ORDER BY offset
  ) AS visit
  FROM reached
)
SELECT scenario_id, split, visitor, min(timestamp) AS start, max(timestamp + gap) AS end, count(*) AS clicks,
  sum(page) AS pages
FROM numbered GROUP BY scenario_id, split, visitor, visit
"""


def generate(random: Random) -> Workload:
    """Draw clicks at even times; the gaps are odd."""
    drawn = draw_keyed(random, VISITORS, _click, 25)
    records = {
        split: tuple([(2 * timestamp, value) for timestamp, value in own])
        for split, own in drawn.records.items()
    }
    return Workload(records, drawn.parameters)


def _click(chance: Chance, visitor: str, now: int) -> tuple[str, int, int]:
    return visitor, chance.choice(GAPS_MS), chance.integer(1, 99)


class GapOfDevice(SessionWindowTimeGapExtractor):
    """Returns the gap that the click brings."""

    def extract(self, element: Click) -> int:
        return element[2]


class Visit(ProcessWindowFunction):
    """Emits a visit, as far as its window has it; the page is the last column of a click."""

    def process(
        self, key: tuple[str, str], context: WindowContext, elements: Iterable[Click]
    ) -> Iterator[tuple[str, str, int, int, int, int]]:
        pages = [page for *_, page in elements]
        window = context.window()
        yield *key, window.start, window.end, len(pages), sum(pages)


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build clicks -> visits -> table."""
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    clicks = env.from_source(LabelledSource(io.source("clicks")), in_order, "clicks").uid("clicks")
    row = Types.TUPLE([Types.STRING(), Types.STRING(), *([Types.LONG()] * 4)])
    visits = (
        clicks.set_parallelism(io.source_parallelism)
        .key_by(label_and_key, LABELLED_KEY)
        .window(DynamicEventTimeSessionWindows.with_dynamic_gap(GapOfDevice()))
        .process(Visit(), row)
    )
    into_table(named(visits, "visits", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Return the visits that follow from the clicks."""
    rows: list[Any] = []
    for split, own in records.items():
        visits: dict[str, list[Any]] = {}
        for timestamp, value in own:
            assert isinstance(value, tuple)
            visitor, gap, page = str(value[0]), int(value[1] or 0), int(value[2] or 0)
            visit = visits.get(visitor)
            if visit is not None and timestamp <= visit[3]:
                visit[3] = max(visit[3], timestamp + gap)
                visit[4] += 1
                visit[5] += page
                continue
            if visit is not None:
                rows.append(tuple(visit))
            visits[visitor] = [split, visitor, timestamp, timestamp + gap, 1, page]
        rows += [tuple(visit) for visit in visits.values()]
    return declared.so_far(rows)
