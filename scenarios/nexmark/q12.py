"""Nexmark q12, windows of processing time: how many bids a person makes in each ten seconds on the clock.

When a bid is processed decides in which window it is, so each row gives its window, and the oracles take that
as declared: a window begins and ends at multiples of its length, has at least one bid, and all windows of a
bidder together have each bid once. When the clock stays in the last millisecond of a window, the window may
open again.

Flink SQL drops the open windows when the input ends. Here a trigger emits them with the last watermark, as
Beam does, so that no bid may be missing. In scenarios windows are much shorter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine.durations import Time
from onceproof.engine.elements import MAX_WATERMARK
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import TumblingProcessingTimeWindows
from onceproof.engine.windows.triggers import ProcessingTimeTrigger, TriggerResult, TriggerScope
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import Count
from onceproof.scenarios.nexmark import _events as nexmark
from onceproof.scenarios.nexmark import _windows as windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.engine.windows.windows import Window

name = "nexmark_q12"
generator_version = 2
options = FamilyOptions(declares=True)
tasks: dict[str, Role] = {"events -> bids": "source", "windows": "keyed", "table": "sink"}
record_schema = nexmark.RECORD_SCHEMA
row_schema = "bidder BIGINT, start BIGINT, end BIGINT, bids BIGINT"

SIZES_MS = (20, 100, 500, windows.SIZE_MS)
oracle_sql = f"""
WITH {nexmark.VIEWS},
  due AS (SELECT scenario_id, bidder, count(*) AS due FROM bid GROUP BY scenario_id, bidder),
  said AS (
    SELECT scenario_id, bidder, sum(bids) AS given,
      bool_and(
        coalesce(bids > 0 AND end - start IN {SIZES_MS} AND pmod(start, end - start) = 0, false)
      ) AS is_fit
    FROM declared GROUP BY scenario_id, bidder
  ),
  judged AS (
    SELECT due.*, coalesce(is_fit AND given = due, false) AS can_be
    FROM due LEFT JOIN said USING (scenario_id, bidder)
  )
SELECT scenario_id, bidder, start, end, bids
FROM declared JOIN judged USING (scenario_id, bidder) WHERE can_be
UNION ALL
SELECT scenario_id, bidder, 0, {windows.SIZE_MS}, due FROM judged WHERE NOT can_be
"""

LONG = Types.LONG()
SIZE = "window_ms"


def generate(random: Random) -> Workload:
    """Draw events, and the length of windows."""
    workload = nexmark.draw(random)
    size_ms = Chance(random).choice(SIZES_MS)
    return replace(workload, parameters={**workload.parameters, SIZE: size_ms})


class ByTheClock(ProcessingTimeTrigger):
    """Fires when the clock passes the end of a window, and at the end of the input."""

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Register a timer for each of the two ends."""
        ctx.register_event_time_timer(MAX_WATERMARK)
        return super().on_element(element, timestamp, window, ctx)

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Fire and purge the window: no more elements will come."""
        return TriggerResult.FIRE_AND_PURGE

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        """Delete both timers."""
        ctx.delete_event_time_timer(MAX_WATERMARK)
        super().clear(window, ctx)


class WindowRow(ProcessWindowFunction):
    """Adds bidder, start and end to the count of a window."""

    def process(
        self, key: int, context: WindowContext, elements: Iterable[int]
    ) -> Iterator[tuple[int, int, int, int]]:
        for bids in elements:
            yield key, context.window().start, context.window().end, bids


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build events -> bids -> windows -> table."""
    bids = nexmark.bids(nexmark.source(env, io), io)
    size = Time.milliseconds(int(io.parameters.get(SIZE, windows.SIZE_MS)))
    counts = (
        bids.key_by(nexmark.second, LONG)
        .window(TumblingProcessingTimeWindows.of(size))
        .trigger(ByTheClock())
        .aggregate(Count(), WindowRow(), LONG, Types.TUPLE([LONG, LONG, LONG, LONG]))
    )
    nexmark.into_table(nexmark.named(counts, "windows", io), io, column=0)


def expected(records: Records, declared: Declared) -> Rows:
    """Return the windows that the run declares for a bidder, if they are possible."""
    due = Counter(bid.bidder for _, bid in nexmark.all_bids(records))
    stated = defaultdict(list)
    for row in declared.rows:
        stated[row[0]].append(row)
    rows: list[Any] = []
    for bidder, number in due.items():
        said = stated[bidder]
        given = sum(bids for *_, bids in said) if all(map(_is_fit, said)) else -1
        if given == number or (not declared.is_whole and 0 <= given < number):
            rows += said
        else:
            rows.append((bidder, 0, windows.SIZE_MS, number))
    return rows


def _is_fit(row: tuple[Any, ...]) -> bool:
    """Return whether a window begins and ends at multiples of its length, and is not empty."""
    _, start, end, bids = row
    if None in (start, end, bids):
        return False
    return bool(bids > 0 and end - start in SIZES_MS and start % (end - start) == 0)
