"""Reports the metrics of a job as a line of its log (Flink: Slf4jReporter, which writes a page)."""

from __future__ import annotations

import logging

from onceproof.engine.runtime.monitor.job_view import JobView
from onceproof.engine.runtime.monitor.task_readings import Rates

_logger = logging.getLogger(__name__)


class LogReporter:
    """Writes a line in each interval; a receiver of views."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._rates = Rates()
        self._next_ms = 0

    def take(self, view: JobView) -> None:
        """Write the line if it is due, or if the job has ended."""
        self._rates.take(view)
        has_ended = view.state in ("FINISHED", "FAILED", "CANCELED")
        if view.now_ms >= self._next_ms or has_ended:
            self._next_ms = view.now_ms + self._interval_ms
            _logger.info("%s", line_of(view, self._rates))


def line_of(view: JobView, rates: Rates) -> str:
    """Return what matters most of a job in one line."""
    sources = {vertex.index for vertex in view.vertices if not vertex.inputs}
    read = sum([each.records_in for each in view.subtasks if each.vertex in sources])
    rate = sum([rates.of(each).records_in for each in view.subtasks if each.vertex in sources])
    parts = [
        f"job {view.name!r}: {view.state}",
        f"attempt {view.attempt or '-'}",
        f"{read:,} records read, {rate:,.0f} a second",
        f"{view.restarts} restarts",
    ]
    latest = view.checkpoints.latest_completed
    if latest is not None:
        parts.append(
            f"checkpoint {latest.checkpoint_id} took {latest.duration_ms} ms"
            f" for {latest.stored_bytes:,} bytes"
        )
    if view.checkpoints.failed:
        parts.append(f"{view.checkpoints.failed} checkpoints failed")
    pending = [each.pending_records for each in view.subtasks if each.pending_records is not None]
    if pending:
        parts.append(f"{sum(pending):,} records pending")
    slow = [(rates.of(each).backpressured_ms, each) for each in view.subtasks]
    worst, where = max(slow, key=lambda pair: pair[0], default=(0.0, None))
    if where is not None and worst >= 1:
        name = view.vertices[where.vertex].name
        parts.append(f"{name}-{where.subtask} is backpressured {worst / 10:.0f} % of the time")
    return ", ".join(parts)
