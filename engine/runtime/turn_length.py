"""How many records a task takes in a turn, and how many may wait for it.

The rules this module lives by:

- One thread runs all tasks in turns. A turn of a slow function must end soon, because timers, barriers,
  watermarks and requests wait for it. A turn of a fast function must be long, because each turn costs.
- The time of a turn is measured after it, never inside: the loops over records stay as they are. So a task
  begins with one record, and takes at most twice as many in each turn as in the one before.
- Records that wait in front of a slow task delay the barrier behind them. So no more are sent to it than it
  works off in a part of the buffer timeout (Flink: buffer debloating). A fast task has full buffers.
- A function that turns slow has one turn of the old size before this notices, and works off what waits.
- With a buffer timeout of 0 each record has a turn of its own, and at most one waits in a channel. Without
  a buffer timeout (-1) nothing is measured, and every turn takes a whole buffer.

Nothing here decides about results: any number of records in a turn gives the same rows.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from onceproof.engine.elements import Element, Record

TURN_SHARE: Final = 0.05
"""A turn may take this part of the buffer timeout, ..."""
BACKLOG_SHARE: Final = 0.4
"""... and what waits for a slow task in all of its channels this part."""
SLOW_RECORDS: Final = 32
"""A task is slow if a turn has not even time for so many records."""
FEW_RECORDS: Final = 64
"""Buffers smaller than this are joined: behind a hash edge each turn of the sender leaves a small one."""


class Pace:
    """The pace of one task."""

    __slots__ = ("_backlog_ns", "_channels", "_most", "_record_ns", "_turn_ns", "is_slow", "limit")

    def __init__(self, most_records: int, channels: int, timeout_ms: int) -> None:
        """Begin with one record a turn.

        Args:
            most_records: how many records a turn takes at most.
            channels: how many input channels the task has.
            timeout_ms: the buffer timeout in milliseconds; 0: each record by itself; -1: none.
        """
        self._most = most_records
        self._channels = max(1, channels)
        self._turn_ns = int(timeout_ms * 1_000_000 * TURN_SHARE)
        self._backlog_ns = int(timeout_ms * 1_000_000 * BACKLOG_SHARE)
        self._record_ns = 0
        """What a record has cost, smoothed over some turns."""
        self.limit = most_records if timeout_ms < 0 else 1
        """How many records the next turn takes at most."""
        self.is_slow = timeout_ms == 0

    @property
    def backlog(self) -> int:
        """Return how many records may wait in each channel of the slow task, at least 1."""
        return max(1, self._backlog_ns // max(1, self._record_ns) // self._channels)

    def took(self, records: int, elapsed_ns: int) -> None:
        """Adapt to a turn of ``records`` records that took ``elapsed_ns``; of none: to nothing."""
        turn_ns = self._turn_ns
        if turn_ns <= 0 or records <= 0:
            return
        sample = elapsed_ns // records
        smooth = self._record_ns = (3 * self._record_ns + sample) >> 2
        fitting = turn_ns // max(1, sample, smooth)
        self.is_slow = fitting < SLOW_RECORDS
        self.limit = max(1, min(self._most, 2 * self.limit, fitting))


def head_of(queue: deque[Element], limit: int) -> int:
    """Let the first element of ``queue`` be a buffer of at most ``limit`` records; return their number.

    A longer buffer is cut, and the rest stays behind it. Short ones that follow each other are joined. No
    buffer is changed, because a snapshot may hold it. Returns 0 if the element is no buffer.
    """
    head = queue[0]
    if type(head) is not list:
        return 0
    count = len(head)
    if count > limit:
        queue[0] = head[limit:]
        queue.appendleft(head[:limit])
        return limit
    if count < FEW_RECORDS <= limit and len(queue) > 1 and type(queue[1]) is list:
        return _join(queue, limit)
    return count


def _join(queue: deque[Element], limit: int) -> int:
    joined: list[Record] = []
    while queue:
        head = queue[0]
        if type(head) is not list or len(joined) + len(head) > limit:
            break
        joined += head
        queue.popleft()
    queue.appendleft(joined)
    return len(joined)
