"""The clocks of the machine, for drivers that run in real time.

A test, or a fault under trial, gives a driver other clocks.
"""

from __future__ import annotations

import time
from typing import Final

WALL_CLOCK_TOLERANCE_MS: Final = 10
"""A driver takes a change of the wall clock for a jump from here on, and leaves smaller ones alone: the two
clocks are read one after the other, and processing time must not tremble."""


class Clocks:
    """The steady clock and the wall clock, in milliseconds; the steady one also in nanoseconds."""

    def steady_ns(self) -> int:
        """Return the time by a clock that never jumps, since an arbitrary moment."""
        return time.monotonic_ns()

    def steady_ms(self) -> int:
        """Return the same time in milliseconds."""
        return self.steady_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Return the time since the epoch by the wall clock."""
        return time.time_ns() // 1_000_000


SYSTEM_CLOCKS: Final = Clocks()
