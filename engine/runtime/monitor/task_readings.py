"""Reads the counters of tasks; called in the thread that runs them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.runtime.monitor.job_view import SubtaskReading
from onceproof.engine.task.task import Task
from onceproof.engine.task.task_counters import NANOS_OF_MS


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
