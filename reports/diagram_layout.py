"""The layout of a space-time diagram: the time axis, and the areas that are occupied.

Time runs from left to right. Simulated time jumps from timer to timer, so a long stretch without events is
shortened and marked. The scale fits the page if it stays legible; a longer trace scrolls. A label is drawn
only in a free area; without room its text is in the tooltip alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

FIT_WIDTH = 1100.0
NARROWEST_STEP = 13.0
WIDEST_STEP = 46.0
LONGEST_GAP = 7
TICK_DISTANCE = 56.0
MARGIN = 26.0
CELL = 64.0
LINK = 6.0


class TimeAxis:
    """Maps steps to x coordinates in pixels."""

    def __init__(self, steps: Iterable[int], beside: float = 0.0) -> None:
        """Lay out `steps`; `beside` is the width in pixels that the lane names take from the page."""
        self.steps: Sequence[int] = sorted(set(steps)) or [0]
        advances = [
            min(following - step, LONGEST_GAP)
            for step, following in zip(self.steps, self.steps[1:], strict=False)
        ]
        self.unit = min(
            WIDEST_STEP, max(NARROWEST_STEP, (FIT_WIDTH - beside - 2 * MARGIN) / max(1, sum(advances)))
        )
        self.positions = [MARGIN]
        self.cuts: list[float] = []
        for index, advance in enumerate(advances):
            start = self.positions[-1]
            self.positions.append(start + advance * self.unit)
            if self.steps[index + 1] - self.steps[index] > LONGEST_GAP:
                self.cuts.append(start + advance * self.unit / 2)
        self.width = self.positions[-1] + MARGIN

    def at(self, step: int) -> float:
        """Return the x coordinate of a step; steps without events are interpolated."""
        index = bisect_left(self.steps, step)
        if index < len(self.steps) and self.steps[index] == step:
            return self.positions[index]
        if index == 0:
            return self.positions[0]
        if index == len(self.steps):
            return self.positions[-1]
        before, after = self.steps[index - 1], self.steps[index]
        share = (step - before) / (after - before)
        return self.positions[index - 1] + share * (self.positions[index] - self.positions[index - 1])

    def ticks(self) -> list[tuple[int, float]]:
        """Return (step, x) of the labels of the axis: round steps that fit, none inside a cut."""
        distance = next(
            (size for size in (1, 2, 5, 10, 20, 50, 100, 200) if size * self.unit >= TICK_DISTANCE), 500
        )
        chosen: list[tuple[int, float]] = []
        first = -(-self.steps[0] // distance) * distance
        step = first
        while step <= self.steps[-1]:
            index = bisect_right(self.steps, step)
            inside = 0 < index < len(self.steps) and self.steps[index - 1] != step
            if inside and self.steps[index] - self.steps[index - 1] > LONGEST_GAP:
                # Skip the cut at once, because it may be thousands of steps long.
                step = -(-self.steps[index] // distance) * distance
                continue
            position = self.at(step)
            if not chosen or position - chosen[-1][1] >= TICK_DISTANCE * 0.6:
                chosen.append((step, position))
            step += distance
        return chosen


class Space:
    """The occupied boxes, indexed by columns so that a look-up reads only nearby boxes."""

    def __init__(self) -> None:
        self.columns: dict[int, list[tuple[float, float, float, float]]] = {}

    def _columns(self, left: float, right: float) -> range:
        return range(int(left // CELL), int(right // CELL) + 1)

    def take(self, left: float, top: float, right: float, bottom: float) -> None:
        """Mark a box as occupied."""
        for column in self._columns(left, right):
            self.columns.setdefault(column, []).append((left, top, right, bottom))

    def overlaps(self, left: float, top: float, right: float, bottom: float) -> int:
        """Return the number of occupied boxes that overlap the box."""
        return sum(
            left < box[2] and box[0] < right and top < box[3] and box[1] < bottom
            for column in self._columns(left, right)
            for box in self.columns.get(column, ())
        )

    def is_free(self, left: float, top: float, right: float, bottom: float) -> bool:
        """Return whether no occupied box overlaps the box."""
        return not self.overlaps(left, top, right, bottom)

    def take_line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """Mark a line as occupied, as a chain of small boxes."""
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        count = int(length / LINK) + 1
        for link in range(count + 1):
            x, y = x1 + (x2 - x1) * link / count, y1 + (y2 - y1) * link / count
            self.take(x - 1, y - 1, x + 1, y + 1)

    def take_if_free(self, left: float, top: float, right: float, bottom: float) -> bool:
        """Mark the box as occupied if it is free; return whether it was."""
        if not self.is_free(left, top, right, bottom):
            return False
        self.take(left, top, right, bottom)
        return True
