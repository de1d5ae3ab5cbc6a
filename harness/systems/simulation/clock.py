"""The simulated time, and the number of steps taken.

The world has one clock, which is changed in place. Objects that need the time hold the clock instead of the
world. So no reference cycle arises, and a finished run is freed without the garbage collector.
"""

from __future__ import annotations


class Clock:
    """``now`` is the time in milliseconds; ``step`` counts the steps, including the current one.

    ``ahead_ms`` is how far the wall clock is ahead of ``now``. A fault that sets the wall clock changes it,
    and nothing else: ``now`` never jumps back.

    A step takes 1 ms. ``now`` runs ahead of ``step`` when no action was possible and time jumped to a timer.
    """

    __slots__ = ("ahead_ms", "now", "step")

    def __init__(self) -> None:
        self.now = 0
        self.ahead_ms = 0
        self.step = 0

    def take_back(self) -> None:
        """Undo the beginning of a step in which no action was possible."""
        self.now -= 1
        self.step -= 1
