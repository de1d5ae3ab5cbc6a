"""The wall clock beside the driver's clock.

The rules this module lives by:

- A driver's clock is steady: it never jumps. Intervals, pauses, time-outs, delays and the age of a barrier
  are measured by it, and ``now`` of every machine is its time.
- The wall clock can jump, because an administrator or a time server sets it. It is processing time, which
  users see (timers, time to live, timestamps of checkpoints), and nothing else.
- Machines read no clock. The driver keeps ``ahead_ms`` up to date, and wakes the tasks when it has risen.
- User code does read one: within one event a function may be called a thousand times, and take long. A driver
  in real time lends it ``steady_ms``. In the simulation no time passes within an event.
"""

from __future__ import annotations

from collections.abc import Callable


class WallClock:
    """How far the wall clock is ahead of the driver's clock, in milliseconds; the driver sets it."""

    __slots__ = ("ahead_ms", "steady_ms")

    def __init__(self, ahead_ms: int = 0, steady_ms: Callable[[], int] | None = None) -> None:
        self.ahead_ms = ahead_ms
        self.steady_ms = steady_ms
        """Reads the driver's clock, for user code; None: its time stands still within an event."""
