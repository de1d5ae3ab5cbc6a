"""What families of windows share: streams out of order, watermarks by the clock, and records that come late.

The rules this module lives by:

- Each split has a generator of watermarks of its own, BOUND_MS behind its newest record, and a subtask is as
  far as the slowest of its splits. So a record can miss a window only where a record *of its own split*,
  *before* it, was so much newer that the window is over: which records may miss which windows follows from
  the input. Which of them truly do does not, since watermarks come by the clock; so jobs give late records
  out as rows of their own (``late``), and the oracles judge by the rows.
- As in Flink, watermarks begin anew after a restore, and so may windows that were given out and cleared: a
  record that may miss a window may then come to a second window of the same name, and to a second row.
- What a run says that cannot be is not believed: then its rows are wrong, which the checkers tell.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from onceproof.engine.durations import Duration
from onceproof.engine.functions import ProcessFunction
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, JobIO, Records, Rows
from onceproof.harness.model.history import Row
from onceproof.scenarios._event_time import with_progress

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

SECOND_MS = 1000
BOUND_MS = 2 * SECOND_MS
"""How much older than the newest record of its split a record may be without being late."""

LATE = "late"
INTERVAL = "watermark_interval"
"""The parameter that says how often watermarks are given, in milliseconds of the simulation: in steps."""

WATERMARKS = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))


def draw_interval(chance: Chance) -> int:
    """Draw how often watermarks come: with nearly every record, or a few times in a run."""
    return chance.weighted([(2, 1), (10, 3), (40, 3), (150, 1)])


def set_interval(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Let watermarks come as often as the scenario says."""
    env.get_config().set_auto_watermark_interval(int(io.parameters.get(INTERVAL, 10)))


def draw_timestamps(chance: Chance, count: int, pace_ms: int, late_share: float) -> list[int]:
    """Draw the timestamps of a split: about ``pace_ms`` apart, most of them somewhat out of order.

    ``late_share`` of them are so old that they may come late.
    """
    now = BOUND_MS
    timestamps = []
    for _ in range(count):
        now += chance.integer(0, 2 * pace_ms)
        is_late = chance.chance(late_share)
        behind = chance.integer(BOUND_MS, 6 * BOUND_MS) if is_late else chance.integer(0, BOUND_MS)
        timestamps.append(max(0, now - behind))
    return timestamps


def draw_late_share(chance: Chance) -> float:
    """Draw how many records come late: as a rule none or few."""
    return chance.weighted([(0.0, 3), (0.1, 3), (0.4, 1)])


class LateRow(ProcessFunction):
    """Gives a late record out as ("late", key, timestamp, value)."""

    def process_element(
        self, value: tuple[str, Any], ctx: ProcessFunction.Context
    ) -> Iterator[tuple[str, str, int | None, Any]]:
        """One row."""
        yield LATE, value[0], ctx.timestamp(), value[1]


def given_out(rows: Sequence[Row], declared: Declared) -> Rows:
    """Give the rows that should be there: before the end of a run only those whose time has come.

    That is for the run to say; what it says must be among the rows that follow from its input.
    """
    if declared.is_whole:
        return rows
    visible = Counter(declared.rows)
    stated = []
    for row in rows:
        if visible[row]:
            visible[row] -= 1
            stated.append(row)
    return stated


class Arrival(NamedTuple):
    """A record, and the watermark that its split may have given before it."""

    timestamp: int
    value: Any
    watermark: int

    def may_miss(self, end: int) -> bool:
        """Whether a window that ends there may have been over."""
        return self.watermark >= end - 1


def arrivals(records: Records, bound_ms: int = BOUND_MS) -> Iterator[Arrival]:
    """Give all records; ``bound_ms`` is that of the watermarks."""
    for timestamp, value, watermark in with_progress(records, bound_ms):
        yield Arrival(timestamp, value, watermark)


def in_time(
    records: Records,
    declared: Declared,
    end_of: Callable[[int], int],
    row_of: Callable[[int, Any], Any],
    bound_ms: int = BOUND_MS,
) -> tuple[list[Arrival], list[Any]]:
    """Tell records that were in time from late ones; give the former, and the rows of the latter.

    ``end_of`` gives the end of the last window of a timestamp, ``row_of`` the late row of a record.
    """
    said = Counter([row for row in declared.rows if row[0] == LATE])
    kept, late = [], []
    for arrival in arrivals(records, bound_ms):
        row = row_of(arrival.timestamp, arrival.value)
        if said[row] and arrival.may_miss(end_of(arrival.timestamp)):
            said[row] -= 1
            late.append(row)
        else:
            kept.append(arrival)
    return kept, late


class Contents:
    """What the rows of one window may add up to."""

    __slots__ = ("_certain", "_doubtful", "least", "most")

    def __init__(self) -> None:
        self.least = 0
        self.most = 0
        self._certain = 0
        """What is in the first row of the window."""
        self._doubtful = 0

    def add(self, amount: int, may_come_again: bool, may_be_dropped: bool) -> None:
        """Add a record: whether it may come to a second window of the name, and be in no row at all."""
        self.most += amount
        if not may_be_dropped:
            self.least += amount
        if may_come_again:
            self._doubtful += 1
        else:
            self._certain += amount

    def amounts(self, said: Sequence[int], is_whole: bool) -> Sequence[int]:
        """Give the amounts of the window's rows: those that the run says, if they can be."""
        least = self.least
        if not is_whole:
            least = self._certain if said else 0
        is_told = None not in said and len(said) <= (self._certain > 0) + self._doubtful
        if is_told and least <= sum(said) <= self.most:
            return said
        return [self.least] if self.least else []


def rows_of_windows(
    kind: str, windows: Mapping[tuple[str, int], Contents], declared: Declared
) -> list[tuple[str, str, int, int]]:
    """Give the rows (kind, key, start, amount) of windows by key and start."""
    said: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row_kind, key, start, amount in declared.rows:
        if row_kind == kind:
            said[key, start].append(amount)
    return [
        (kind, *window, amount)
        for window, contents in windows.items()
        for amount in contents.amounts(said[window], declared.is_whole)
    ]


def arrivals_sql(key: str, value: str, end: str, bound_ms: int = BOUND_MS) -> str:
    """Give common table expressions: ``arrivals``, the records with ``watermark`` and ``is_late``.

    ``key`` and ``value`` say what the late row of a record holds, ``end`` is the end of its last window.
    """
    return f"""
  stated AS (
    SELECT *, {key} AS key, {value} AS value, max(timestamp) OVER (
      PARTITION BY scenario_id, split ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) - {bound_ms} - 1 AS watermark
    FROM records
  ),
  possible AS (SELECT *, coalesce(watermark >= {end} - 1, false) AS may_be_late FROM stated),
  numbered AS (
    SELECT *, row_number() OVER (
      PARTITION BY scenario_id, key, timestamp, value, may_be_late ORDER BY split, offset
    ) AS copy
    FROM possible
  ),
  late AS (
    SELECT scenario_id, key, at, value, count(*) AS copies
    FROM declared WHERE kind = '{LATE}' GROUP BY scenario_id, key, at, value
  ),
  arrivals AS (
    SELECT numbered.*, may_be_late AND copy <= coalesce(copies, 0) AS is_late
    FROM numbered LEFT JOIN late
    ON numbered.scenario_id = late.scenario_id AND numbered.key = late.key
      AND numbered.timestamp = late.at AND numbered.value = late.value
  )"""


def windows_sql(kind: str, size_ms: int) -> str:
    """Give what comes after the common table expression ``members``: the rows of windows and of late records.

    ``members`` are arrivals with the ``start`` of a window, ``amount``, and ``may_be_dropped``.
    """
    return f"""
  windows AS (
    SELECT scenario_id, key, start, sum(amount) AS most,
      coalesce(sum(amount) FILTER (WHERE NOT may_be_dropped), 0) AS least,
      least(1, count_if(NOT may_come_again)) + count_if(may_come_again) AS most_rows
    FROM (SELECT *, coalesce(watermark >= start + {size_ms} - 1, false) AS may_come_again FROM members)
    GROUP BY scenario_id, key, start
  ),
  said AS (
    SELECT scenario_id, key, at, sum(value) AS total, count(*) AS rows, count_if(value IS NULL) AS empty
    FROM declared WHERE kind = '{kind}' GROUP BY scenario_id, key, at
  ),
  judged AS (
    SELECT windows.*,
      coalesce(total, 0) BETWEEN least AND most AND coalesce(rows, 0) <= most_rows
        AND coalesce(empty, 0) = 0 AS can_be
    FROM windows LEFT JOIN said
    ON windows.scenario_id = said.scenario_id AND windows.key = said.key AND windows.start = said.at
  )
SELECT scenario_id, '{LATE}' AS kind, key, timestamp AS at, value FROM arrivals WHERE is_late
UNION ALL
SELECT scenario_id, '{kind}', key, start, least FROM judged WHERE NOT can_be AND least > 0
UNION ALL
SELECT declared.scenario_id, kind, declared.key, at, value FROM declared JOIN judged
ON declared.scenario_id = judged.scenario_id AND declared.key = judged.key AND at = start
WHERE kind = '{kind}' AND can_be
"""
