"""The watermark of one input from those of its channels (Flink: StatusWatermarkValve).

The rules it lives by:

- It is the least of the channels that count, and only its increases are given out.
- An idle channel does not count, and its watermarks are ignored. When the last channel turns idle and was the
  one that held the others back, the highest watermark of all is given out first, then idleness.
- A channel that becomes active again behind what was given out is active, yet does not count until it has
  caught up: an input's event time never goes back, nor stands still for one who was away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from onceproof.engine.elements import ACTIVE, IDLE, MIN_WATERMARK, Watermark, WatermarkStatus

TimeElement: TypeAlias = Watermark | WatermarkStatus

NOTHING: tuple[TimeElement, ...] = ()


class WatermarkValve:
    """The event time of one input over ``channels`` channels."""

    __slots__ = ("_counts", "_idle", "_is_idle", "_output", "_watermarks")

    def __init__(self, channels: int) -> None:
        self._watermarks = [MIN_WATERMARK] * channels
        self._idle = [False] * channels
        self._counts = [True] * channels
        """Return whether the channel is active and not behind what was given out."""
        self._output = MIN_WATERMARK
        self._is_idle = False

    def watermark(self, channel: int, timestamp: int) -> Sequence[TimeElement]:
        """A watermark arrives on a channel; what follows for the input."""
        if self._idle[channel] or timestamp <= self._watermarks[channel]:
            return NOTHING
        self._watermarks[channel] = timestamp
        if not self._counts[channel] and timestamp >= self._output:
            self._counts[channel] = True
        return self._lowest()

    def status(self, channel: int, is_idle: bool) -> Sequence[TimeElement]:
        """A channel turns idle or active; what follows for the input."""
        if self._idle[channel] is is_idle:
            return NOTHING
        self._idle[channel] = is_idle
        return self._turned_idle(channel) if is_idle else self._turned_active(channel)

    def ended(self, channel: int, timestamp: int) -> Sequence[TimeElement]:
        """A channel has ended at ``timestamp``, the highest there is, idle or not."""
        return (*self.status(channel, False), *self.watermark(channel, timestamp))

    def _turned_idle(self, channel: int) -> Sequence[TimeElement]:
        self._counts[channel] = False
        held_back = self._watermarks[channel] == self._output
        if not all(self._idle):
            return self._lowest() if held_back else NOTHING
        self._is_idle = True
        highest = max(self._watermarks)
        if held_back and highest > self._output:
            self._output = highest
            return Watermark(highest), IDLE
        return (IDLE,)

    def _turned_active(self, channel: int) -> Sequence[TimeElement]:
        self._counts[channel] = self._watermarks[channel] >= self._output
        if self._is_idle:
            self._is_idle = False
            return (ACTIVE,)
        return NOTHING

    def _lowest(self) -> Sequence[TimeElement]:
        """The least watermark of the channels that count, if it is new."""
        lowest = None
        for watermark, counts in zip(self._watermarks, self._counts, strict=True):
            if counts and (lowest is None or watermark < lowest):
                lowest = watermark
        if lowest is None or lowest <= self._output:
            return NOTHING
        self._output = lowest
        return (Watermark(lowest),)
