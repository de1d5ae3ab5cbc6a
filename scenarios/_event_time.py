"""What families of event time share: streams out of order, their watermarks, and records that come late.

The rules this module lives by:

- Each split has its own watermark generator, BOUND_MS behind the split's newest record; the watermark of a
  subtask is that of its slowest split.
- Which records are late depends on when periodic watermarks come. So jobs emit late records as rows of their
  own (``late``), and ``expected`` leaves out the records that these rows name. That each of them may be late,
  and which rows a late record gives after a restore, is what the harness works out: it is no matter of the
  families (``FamilyOptions(late=..., due=...)``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onceproof.engine.durations import Duration
from onceproof.engine.functions import ProcessFunction
from onceproof.engine.watermarks.strategy import WatermarkStrategy

if TYPE_CHECKING:
    from onceproof.harness.model.chance import Chance
    from onceproof.harness.model.family import Declared, Records
    from onceproof.harness.model.history import Row
    from onceproof.harness.model.scenario import InputRecord, RecordValue

SECOND_MS = 1000
BOUND_MS = 2 * SECOND_MS
"""How much older than the newest record of its split a record may be without being late."""

DAY_MS = 86_400 * SECOND_MS
BEGINNINGS = (
    (0, 12),
    (-20 * SECOND_MS, 3),
    (-2 * DAY_MS, 1),
    ((-(1 << 63) // DAY_MS + 2) * DAY_MS, 1),
    (((1 << 63) // DAY_MS - 2) * DAY_MS, 1),
)
"""When the records of a scenario begin, with weights: at 0, so that many are before it and many behind, long
before it, and a day from the least and the greatest time that there is. Windows of all sizes begin there."""

LATE = "late"
WATERMARKS = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))


def draw_timestamps(
    chance: Chance, count: int, pace_ms: int, late_share: float, size_ms: int = SECOND_MS
) -> list[int]:
    """Draw the timestamps of a split: about ``pace_ms`` apart, most of them somewhat out of order.

    A share of them, ``late_share``, is so old that the records may come late. Many are where windows of
    ``size_ms`` end, or so that the watermark behind them is there.
    """
    now = BOUND_MS
    timestamps: list[int] = []
    for _ in range(count):
        ahead = chance.choice((0, BOUND_MS))
        # Where the watermark is exactly at the end of a window, a record for that window is late by nothing.
        is_end = late_share > 0 and timestamps[-1:] == [now] and (now - BOUND_MS) % size_ms == 0
        now = chance.at_boundary(now + chance.integer(0, 2 * pace_ms) - ahead, size_ms) + ahead
        if chance.chance(0.5 if is_end else late_share):
            behind = chance.at_boundary(chance.integer(BOUND_MS, 6 * BOUND_MS), SECOND_MS)
        else:
            behind = chance.weighted([(0, 3), (BOUND_MS, 1), (chance.integer(0, BOUND_MS), 4)])
        timestamps.append(max(0, now - behind))
    return timestamps


def moved(chance: Chance, records: Mapping[str, Sequence[InputRecord]]) -> dict[str, tuple[InputRecord, ...]]:
    """Draw when the records begin, and move all of them there."""
    beginning = chance.weighted(BEGINNINGS)
    return {
        split: tuple([(timestamp + beginning, value) for timestamp, value in drawn])
        for split, drawn in records.items()
    }


def draw_late_share(chance: Chance) -> float:
    """Draw the share of records that may come late: mostly none or few."""
    return chance.weighted([(0.0, 3), (0.1, 3), (0.4, 1)])


class LateRow(ProcessFunction):
    """Emits a late record as the row ("late", key, timestamp, value)."""

    def process_element(
        self, value: tuple[str, Any], ctx: ProcessFunction.Context
    ) -> Iterator[tuple[str, str, int | None, Any]]:
        yield LATE, value[0], ctx.timestamp(), value[1]


def window_of(row: Row) -> tuple[Any, ...] | None:
    """Return kind, key and start of the window of a row, for ``answers``; None for a late row."""
    return None if row[0] == LATE else row[:3]


def without_late(
    records: Records, declared: Declared, row_of: Callable[[int, Any], Row]
) -> tuple[list[tuple[int, Any]], list[Row]]:
    """Return the records that no declared row says to be late, as (timestamp, value), and the late rows.

    ``row_of`` returns the late row of a timestamp and a value.
    """
    said = Counter([row for row in declared.rows if row[0] == LATE])
    counted, late = [], []
    for own in records.values():
        for timestamp, value in own:
            row = row_of(timestamp, value)
            if said[row]:
                said[row] -= 1
                late.append(row)
            else:
                counted.append((timestamp, value))
    return counted, late


def without_late_sql(key: str, value: str) -> str:
    """Return the common table expression ``marked``: records with ``is_late``, and ``key`` and ``value``.

    ``key`` and ``value`` are SQL for these columns of a record's late row (kind, key, at, value).
    """
    return f"""marked AS (
    SELECT numbered.*, copy <= coalesce(copies, 0) AS is_late
    FROM (
      SELECT *, row_number() OVER (
          PARTITION BY scenario_id, key, timestamp, value ORDER BY split, offset
        ) AS copy
      FROM (SELECT *, {key} AS key, {value} AS value FROM records)
    ) AS numbered
    LEFT JOIN (
      SELECT scenario_id, key, at, value, count(*) AS copies
      FROM declared WHERE kind = '{LATE}' GROUP BY scenario_id, key, at, value
    ) AS late
    ON numbered.scenario_id = late.scenario_id AND numbered.key = late.key
      AND numbered.timestamp = late.at AND numbered.value = late.value
  )"""


def with_progress(records: Records, bound_ms: int) -> Iterator[tuple[int, RecordValue, int]]:
    """Yield (timestamp, value, watermark): each record with the furthest watermark that may precede it.

    The watermark of a run is never ahead of that of any split, and the watermark of a record's own split
    follows from the records before it.
    """
    for split in records.values():
        newest: int | None = None
        for timestamp, value in split:
            yield timestamp, value, -(2**63) if newest is None else newest - bound_ms - 1
            newest = timestamp if newest is None else max(newest, timestamp)
