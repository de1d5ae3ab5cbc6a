"""What families of windows share: streams out of order, periodic watermarks, and records that come late.

The rules this module lives by:

- Each split has its own watermark generator, BOUND_MS behind the split's newest record; the watermark of a
  subtask is that of its slowest split. So a record can miss a window only where an earlier record of its own
  split was so much newer that the window had ended: which records may miss which windows follows from the
  input.
- Which records do miss a window depends on when periodic watermarks come. So jobs emit late records as rows
  of their own (``late``), and the oracles judge by these rows.
- As in Flink, watermarks begin anew after a restore. A record that may miss a window may then open the window
  again, which was already emitted and cleared, and so cause a second row of it.
- A declared row that is impossible is ignored: the expected rows then differ, and the checkers report it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from onceproof.harness.model.family import Declared, Records
from onceproof.scenarios._event_time import (
    BOUND_MS,
    LATE,
    SECOND_MS,
    WATERMARKS,
    LateRow,
    draw_late_share,
    draw_timestamps,
    given_out,
    moved,
    window_of,
    with_progress,
)

__all__ = (
    "BOUND_MS",
    "LATE",
    "SECOND_MS",
    "WATERMARKS",
    "LateRow",
    "draw_late_share",
    "draw_timestamps",
    "given_out",
    "moved",
    "window_of",
)


class Arrival(NamedTuple):
    """A record, and the watermark that its split may have given before it."""

    timestamp: int
    value: Any
    watermark: int

    def may_miss(self, end: int) -> bool:
        """Return whether a window with this end may have been over when the record came."""
        return self.watermark >= end - 1


def arrivals(records: Records, bound_ms: int = BOUND_MS) -> Iterator[Arrival]:
    """Yield all records; ``bound_ms`` is the bound of the watermarks."""
    for timestamp, value, watermark in with_progress(records, bound_ms):
        yield Arrival(timestamp, value, watermark)


def in_time(
    records: Records,
    declared: Declared,
    end_of: Callable[[int], int],
    row_of: Callable[[int, Any], Any],
    bound_ms: int = BOUND_MS,
) -> tuple[list[Arrival], list[Any]]:
    """Return the records that were in time, and the rows of the late ones.

    ``end_of`` returns the end of the last window of a timestamp, ``row_of`` the late row of a record.
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
    """The range of amounts that the rows of one window may add up to."""

    __slots__ = ("_certain", "_doubtful", "least", "most")

    def __init__(self) -> None:
        self.least = 0
        self.most = 0
        self._certain = 0
        """The amount that the first row of the window must hold."""
        self._doubtful = 0

    def add(self, amount: int, may_come_again: bool, may_be_dropped: bool) -> None:
        """Add a record.

        ``may_come_again``: it may open the window a second time. ``may_be_dropped``: it may be in no row.
        """
        self.most += amount
        if not may_be_dropped:
            self.least += amount
        if may_come_again:
            self._doubtful += 1
        else:
            self._certain += amount

    def amounts(self, said: Sequence[int], is_whole: bool) -> Sequence[int]:
        """Return the amounts of the window's rows: the declared ones if possible, else the least amount."""
        least = self.least
        if not is_whole:
            least = self._certain if said else 0
        is_possible = None not in said and len(said) <= (self._certain > 0) + self._doubtful
        if is_possible and least <= sum(said) <= self.most:
            return said
        return [self.least] if self.least else []


def rows_of_windows(
    kind: str, windows: Mapping[tuple[str, int], Contents], declared: Declared
) -> list[tuple[str, str, int, int]]:
    """Return the expected rows (kind, key, start, amount) of windows by key and start."""
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
    """Return the common table expressions up to ``arrivals``: records with ``watermark`` and ``is_late``.

    ``key`` and ``value`` are SQL for these columns of a record's late row, ``end`` for the end of its last
    window.
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


def windows_sql(kind: str, size_ms: int | str) -> str:
    """Return the SQL that follows the expression ``members``: the rows of windows and of late records.

    ``members`` are arrivals with the ``start`` of a window, ``amount``, and ``may_be_dropped``.
    ``size_ms`` is the size of windows, or the column that names it.
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
