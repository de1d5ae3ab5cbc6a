"""The wall clock beside the driver's clock.

The rules this module lives by:

- A driver's clock is steady: it never jumps. Intervals, pauses, time-outs, delays and the age of a barrier
  are measured by it, and ``now`` of every machine is its time.
- The wall clock can jump, because an administrator or a time server sets it. It is processing time, which
  users see (timers, time to live, timestamps of checkpoints), and nothing else.
- Machines read no clock. The driver keeps ``ahead_ms`` up to date, and wakes the tasks when it has risen.
"""

from __future__ import annotations


class WallClock:
    """How far the wall clock is ahead of the driver's clock, in milliseconds; the driver sets it."""

    __slots__ = ("ahead_ms",)

    def __init__(self, ahead_ms: int = 0) -> None:
        self.ahead_ms = ahead_ms
