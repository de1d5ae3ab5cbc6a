"""Reads the counters of tasks; called in the thread that runs them.

Rules:

- A rate of a task or a job is the difference of two views of one attempt, divided by the time between them.
  So it costs the tasks nothing.
- A new attempt begins new counts: views of another one are forgotten.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.runtime.monitor.job_view import JobView, SubtaskReading
from onceproof.engine.task.task import Task
from onceproof.engine.task.task_counters import NANOS_OF_MS

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


def read_tasks(tasks: Iterable[Task], now_ms: int) -> tuple[SubtaskReading, ...]:
    """Return what these tasks show now, by the wall clock."""
    process = os.getpid()
    return tuple([_read(task, process, now_ms) for task in tasks])


def _read(task: Task, process: int, now_ms: int) -> SubtaskReading:
    counters = task.counters
    head = task.operators[0]
    source = head if isinstance(head, SourceOperator) else None
    found = [counts for each in task.operators if (counts := each.transaction_counts()) is not None]
    idle_ms, backpressured_ms, busy_ms = counters.shares_ms()
    return SubtaskReading(
        vertex=task.id.vertex,
        subtask=task.id.subtask,
        state=task.state.name,
        process=process,
        seen_ms=now_ms,
        records_in=counters.records_in + task.records_read,
        records_out=counters.records_out,
        bytes_in=counters.bytes_in,
        bytes_out=counters.bytes_out,
        idle_ms=idle_ms,
        backpressured_ms=backpressured_ms,
        busy_ms=busy_ms,
        turn_ms=counters.turn_ns // NANOS_OF_MS,
        buffers_queued=sum(map(len, task.queues)),
        input_watermark=None if task.input_time is None else _shown(task.input_time.watermark),
        output_watermark=_shown(counters.watermark),
        emitted_timestamp=counters.emitted_timestamp,
        read_at_ms=counters.read_at_ms,
        pending_records=None if source is None else _pending(source),
        open_transactions=sum([each[0] for each in found]) if found else None,
        pending_transactions=sum([each[1] for each in found]) if found else None,
        commits=counters.commits,
        aborted_transactions=counters.aborted_transactions,
        commit_ms=counters.commit_ms,
        last_commit_ms=counters.last_commit_ms,
        longest_commit_ms=counters.longest_commit_ms,
    )


def _pending(source: SourceOperator) -> int | None:
    """Return how many records wait; None also where a reader fails to say so, which must not fail the job."""
    try:
        return source.pending_records
    except Exception:
        return None


def _shown(watermark: int) -> int | None:
    """Return a watermark that is a time; None before the first one and behind the end of the data."""
    return watermark if MIN_WATERMARK < watermark < MAX_WATERMARK else None
