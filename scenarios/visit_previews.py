"""Visits to a site, given every 15 milliseconds of event time while they last, and whole at their end.

Session windows with a continuous trigger: the next firing is state of a window, and windows merge. How many
clicks a firing holds depends on when watermarks come. Given that, the time of the next firing follows: 15 ms
later, or at the end that the visit has so far. So the oracles go along the firings of a visit: each holds the
clicks up to its time at least, none is left out, and the last one holds them all.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.durations import Time
from onceproof.engine.types import Types
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.engine.windows.assigners import EventTimeSessionWindows
from onceproof.engine.windows.triggers import ContinuousEventTimeTrigger
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
from onceproof.scenarios.visits import Visit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "visit_previews"
generator_version = 1
options = FamilyOptions(
    declares=True,
    any_backend=True,
    # All clicks of a visit are kept under the window of the click that arrived first.
    arrival_states=(
        "merging-window-set",
        "window-contents",
        "fire-time",
        "_timer_state/event_window-timers",
    ),
)
tasks: dict[str, Role] = {"clicks": "source", "previews": "keyed", "table": "sink"}
record_schema = "visitor STRING, page BIGINT"
row_schema = "split STRING, visitor STRING, start BIGINT, end BIGINT, clicks BIGINT, pages BIGINT"
GAP_MS: Final = 41
"""Odd, where all timestamps are even: no click is exactly at the end of a visit."""
EVERY_MS: Final = 15
VISITORS: Final = ("ada", "ben", "cleo")
oracle_sql = f"""
WITH reached AS (
  SELECT *, lag(timestamp) OVER (PARTITION BY scenario_id, split, visitor ORDER BY offset) AS before
  FROM records
), numbered AS (
  SELECT *, count_if(before IS NULL OR timestamp > before + {GAP_MS}) OVER (
    PARTITION BY scenario_id, split, visitor ORDER BY offset
  ) AS visit
  FROM reached
), visits AS (
  SELECT scenario_id, split, visitor, min(timestamp) AS start, max(timestamp) AS last,
    transform(array_sort(collect_list(struct(offset, timestamp, page))), each -> each.timestamp) AS times,
    transform(array_sort(collect_list(struct(offset, timestamp, page))), each -> each.page) AS read
  FROM numbered GROUP BY scenario_id, split, visitor, visit
), said AS (
  SELECT scenario_id, split, visitor, start,
    array_sort(collect_list(struct(clicks, end, pages))) AS firings
  FROM declared GROUP BY scenario_id, split, visitor, start
), followed AS (
  SELECT visits.*, aggregate(
    coalesce(firings, array()),
    named_struct(
      'due', least(start - start % {EVERY_MS} + {EVERY_MS}, start + {GAP_MS - 1}),
      'clicks', 1L, 'can_be', true, 'is_over', false
    ),
    (so_far, firing) -> named_struct(
      'due', least(so_far.due + {EVERY_MS}, firing.end - 1),
      'clicks', coalesce(firing.clicks, 1L),
      'can_be', coalesce(
        so_far.can_be AND NOT so_far.is_over AND firing.clicks BETWEEN so_far.clicks AND size(times)
          AND firing.clicks >= size(filter(times, each -> each <= so_far.due))
          AND firing.end = element_at(times, greatest(1, least(size(times), int(firing.clicks)))) + {GAP_MS}
          AND so_far.due < firing.end
          AND firing.pages = aggregate(slice(read, 1, int(firing.clicks)), 0L, (sum, each) -> sum + each),
        false
      ),
      'is_over', coalesce(so_far.due = firing.end - 1, false)
    )
  ) AS state
  FROM visits LEFT JOIN said USING (scenario_id, split, visitor, start)
), judged AS (
  SELECT *, state.can_be AND state.is_over AND state.clicks = size(times) AS is_fit FROM followed
)
SELECT declared.* FROM declared LEFT SEMI JOIN (SELECT * FROM judged WHERE is_fit) AS possible
ON declared.scenario_id = possible.scenario_id AND declared.split = possible.split
  AND declared.visitor = possible.visitor AND declared.start = possible.start
UNION ALL
SELECT scenario_id, split, visitor, start, last + {GAP_MS} AS end, size(times) AS clicks,
  aggregate(read, 0L, (sum, each) -> sum + each) AS pages
FROM judged WHERE NOT is_fit
"""


def generate(random: Random) -> Workload:
    """Draw clicks at even times; the gap is odd."""
    drawn = draw_keyed(random, VISITORS, _click, 14)
    records = {
        split: tuple([(2 * timestamp, value) for timestamp, value in own])
        for split, own in drawn.records.items()
    }
    return Workload(records, drawn.parameters)


def _click(chance: Chance, visitor: str, now: int) -> tuple[str, int]:
    return visitor, chance.integer(1, 99)


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build clicks -> previews -> table."""
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    clicks = env.from_source(LabelledSource(io.source("clicks")), in_order, "clicks").uid("clicks")
    row = Types.TUPLE([Types.STRING(), Types.STRING(), *([Types.LONG()] * 4)])
    previews = (
        clicks.set_parallelism(io.source_parallelism)
        .key_by(label_and_key, LABELLED_KEY)
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS)))
        .trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(EVERY_MS)))
        .process(Visit(), row)
    )
    into_table(named(previews, "previews", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Return the firings that the run declares for a visit, if they can follow each other."""
    said: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for row in declared.rows:
        said[row[:3]].append(row[3:])
    rows: list[Any] = []
    for split, visitor, times, pages in _visits(records):
        visit = split, visitor, times[0]
        if _can_follow(said[visit], times, pages, declared.is_whole):
            rows += [(*visit, *firing) for firing in said[visit]]
        else:
            rows.append((*visit, times[-1] + GAP_MS, len(times), sum(pages)))
    return rows


def _visits(records: Records) -> Iterator[tuple[str, str, list[int], list[int]]]:
    """Yield each visit: split, visitor, the times of its clicks and their pages."""
    for split, own in records.items():
        open_visits: dict[str, tuple[list[int], list[int]]] = {}
        for timestamp, value in own:
            assert isinstance(value, tuple)
            visitor, page = str(value[0]), int(value[1] or 0)
            times, pages = open_visits.setdefault(visitor, ([], []))
            if times and timestamp > times[-1] + GAP_MS:
                yield split, visitor, times, pages
                times, pages = open_visits[visitor] = ([], [])
            times.append(timestamp)
            pages.append(page)
        for visitor, (times, pages) in open_visits.items():
            yield split, visitor, times, pages


def _can_follow(firings: list[Any], times: list[int], pages: list[int], is_whole: bool) -> bool:
    """Return whether a visit with these clicks may have fired so: each firing is (end, clicks, pages)."""
    if any(None in firing for firing in firings):
        return False
    # Java's remainder has the sign of the time.
    passed = times[0] % EVERY_MS if times[0] >= 0 else -(-times[0] % EVERY_MS)
    due = min(times[0] - passed + EVERY_MS, times[0] + GAP_MS - 1)
    before, is_over = 1, False
    for end, clicks, total in sorted(firings, key=lambda firing: (firing[1], firing[0])):
        if is_over or not before <= clicks <= len(times):
            return False
        if clicks < sum(time <= due for time in times) or end != times[clicks - 1] + GAP_MS:
            return False
        if due >= end or total != sum(pages[:clicks]):
            return False
        is_over = due == end - 1
        due = min(due + EVERY_MS, end - 1)
        before = clicks
    return not is_whole or (is_over and before == len(times))
