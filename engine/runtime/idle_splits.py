"""Notices the splits that hold event time back: they bring nothing, and are not declared as idle.

Rules:

- One look in each interval of periodic watermarks (`pipeline.auto-watermark-interval`), by a driver, which
  reads the tasks of its process and changes nothing. No task and no watermark depends on it.
- A split holds event time back if its watermark has stood still for ten looks, since that of another split of
  the source has risen. It is named once, with what to do about it.
- A driver sees the splits that its own process reads.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.graph import JobGraph
from onceproof.engine.messages import TaskId
from onceproof.engine.operators.event_time import TimestampedSourceOperator
from onceproof.engine.task.task import RUNNING, Task

_logger = logging.getLogger(__name__)

PATIENCE_LOOKS: Final = 10
NEVER: Final = 1 << 62
PAGE: Final = "docs/troubleshooting.md#holds-event-time-back-at"


class _Standstill(Struct):
    watermark: int
    others: int
    """The highest watermark of the source when this one was last seen to rise."""
    looks: int = 0


class IdleSplitWatch:
    """The watch over the splits that the tasks of one process read."""

    def __init__(self, graph: JobGraph) -> None:
        self._job_name = graph.name
        sources = [vertex for vertex in graph.vertices if not vertex.inputs]
        self._interval_ms = min([vertex.auto_watermark_interval_ms for vertex in sources], default=0)
        self._seen: dict[tuple[int, str], _Standstill] = {}
        self._named: set[tuple[int, str]] = set()
        self._attempt = ""
        self._next_look_ms = 0 if self._interval_ms else NEVER

    def look(self, tasks: Mapping[TaskId, Task], now_ms: int) -> None:
        """Look at the splits of the source tasks, once an interval is over."""
        if now_ms < self._next_look_ms:
            return
        self._next_look_ms = now_ms + self._interval_ms
        by_source: dict[int, dict[str, int]] = {}
        names: dict[int, str] = {}
        for task in tasks.values():
            if task.attempt != self._attempt:
                # Event time begins anew; what was named stays named.
                self._attempt = task.attempt
                self._seen.clear()
            head = task.operators[0]
            if task.state is RUNNING and isinstance(head, TimestampedSourceOperator):
                names[task.id.vertex] = task.vertex.operators[0].name
                by_source.setdefault(task.id.vertex, {}).update(head.active_watermarks())
        for vertex, watermarks in by_source.items():
            self._look_at(vertex, names[vertex], watermarks)

    def _look_at(self, vertex: int, source: str, watermarks: Mapping[str, int]) -> None:
        highest = max(watermarks.values(), default=MIN_WATERMARK)
        for split, watermark in watermarks.items():
            key = vertex, split
            seen = self._seen.get(key)
            if seen is None or watermark > seen.watermark:
                self._seen[key] = _Standstill(watermark, highest)
                continue
            if highest <= max(watermark, seen.others):
                # The others stand still as well: nothing comes at all.
                continue
            seen.looks += 1
            if seen.looks >= PATIENCE_LOOKS and key not in self._named:
                self._named.add(key)
                self._name(source, split, watermark)

    def _name(self, source: str, split: str, watermark: int) -> None:
        reached = "its beginning" if watermark == MIN_WATERMARK else str(watermark)
        _logger.warning(
            "job %r: split %r of source %r holds event time back at %s: it has brought nothing later for %d"
            " watermark intervals, while others have; if it may stay without records, give the watermark"
            " strategy with_idleness(...); see %s",
            self._job_name,
            split,
            source,
            reached,
            PATIENCE_LOOKS,
            PAGE,
        )
