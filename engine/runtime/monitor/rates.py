"""Rates of the counts in views: what happened in each second of the last few (Flink: MeterView).

The rules this module lives by:

- A rate is the difference of two views of one attempt, divided by the time between them. So it costs the
  tasks nothing.
- A new attempt begins new counts: views of another one are forgotten.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import Struct

from onceproof.engine.runtime.monitor.job_view import JobView, SubtaskReading

SPAN_MS: Final = 10_000
"""Over how long rates are measured. In Flink it is a minute; a page that is looked at wants to move."""
MILLIS: Final = 1000


class SubtaskRates(Struct, frozen=True):
    """What one subtask has done in a second, on average; times in milliseconds of each second."""

    records_in: float = 0.0
    records_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    busy_ms: float = 0.0
    backpressured_ms: float = 0.0
    idle_ms: float = 0.0
    turn_ms: float = 0.0
    commits: float = 0.0


NO_RATES: Final = SubtaskRates()


class Rates:
    """The rates of the subtasks of a job, from one view to the next."""

    def __init__(self) -> None:
        self._earlier: deque[JobView] = deque()
        self.by_subtask: dict[tuple[int, int], SubtaskRates] = {}

    def take(self, view: JobView) -> None:
        """Take the next view."""
        earlier = self._earlier
        if earlier and earlier[-1].attempt != view.attempt:
            earlier.clear()
        while len(earlier) > 1 and view.now_ms - earlier[1].now_ms >= SPAN_MS:
            earlier.popleft()
        # The oldest of each: a worker of a new attempt reports a little later than others.
        before = {(each.vertex, each.subtask): each for older in reversed(earlier) for each in older.subtasks}
        self.by_subtask = {
            (each.vertex, each.subtask): _rates(before.get((each.vertex, each.subtask)), each)
            for each in view.subtasks
        }
        earlier.append(view)

    def of(self, reading: SubtaskReading) -> SubtaskRates:
        """Return the rates of a subtask."""
        return self.by_subtask.get((reading.vertex, reading.subtask), NO_RATES)


def _rates(before: SubtaskReading | None, now: SubtaskReading) -> SubtaskRates:
    if before is None or now.seen_ms <= before.seen_ms or now.records_in < before.records_in:
        return NO_RATES
    elapsed_ms = now.seen_ms - before.seen_ms

    def rate(earlier: int, later: int) -> float:
        return round(max(0, later - earlier) * MILLIS / elapsed_ms, 3)

    waited = now.idle_ms - before.idle_ms, now.backpressured_ms - before.backpressured_ms
    worked_ms = now.busy_ms - before.busy_ms
    # The driver's clock and the wall clock differ a little: the three times are parts of one second.
    whole_ms = max(1, worked_ms + sum(waited))
    return SubtaskRates(
        rate(before.records_in, now.records_in),
        rate(before.records_out, now.records_out),
        rate(before.bytes_in, now.bytes_in),
        rate(before.bytes_out, now.bytes_out),
        round(worked_ms * MILLIS / whole_ms, 1),
        round(waited[1] * MILLIS / whole_ms, 1),
        round(waited[0] * MILLIS / whole_ms, 1),
        min(float(MILLIS), rate(before.turn_ms, now.turn_ms)),
        rate(before.commits, now.commits),
    )
