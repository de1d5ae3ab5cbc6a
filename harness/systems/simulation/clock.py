"""What time it is in the simulated world, and how many steps it has taken.

One object for the whole world, which is changed in place: whoever dates something holds the clock rather
than the world, so that what a run leaves behind goes without the garbage collector.
"""

from __future__ import annotations


class Clock:
    """``now`` in milliseconds, of which a step takes one; ``step`` counts the steps, the one in hand too.

    The two part where nothing could happen and time has jumped.
    """

    __slots__ = ("now", "step")

    def __init__(self) -> None:
        self.now = 0
        self.step = 0

    def tick(self) -> None:
        """A step begins."""
        self.now += 1
        self.step += 1

    def take_back(self) -> None:
        """The step that began is none."""
        self.now -= 1
        self.step -= 1
