"""Combines the watermarks of an input's channels (Flink: StatusWatermarkValve).

The rules this module lives by:

- The watermark is the least of the aligned channels, and only increases are emitted.
- An idle channel is not aligned, and its watermarks are ignored. When the last channel turns idle, the
  highest watermark of all is emitted first, then idleness: whichever is last, event time comes as far.
- A channel that turns active with a watermark below the emitted one is not aligned until it has caught up: an
  input's event time never goes back, and does not wait for a channel that was idle. One that is ahead counts
  at once, and may be the only one that does (FLINK-40475, which Flink 2.3.0 does not have).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from onceproof.engine.elements import ACTIVE, IDLE, MIN_WATERMARK, Watermark, WatermarkStatus

TimeElement: TypeAlias = Watermark | WatermarkStatus

NOTHING: tuple[TimeElement, ...] = ()


class WatermarkValve:
    """The watermark and status of one input over ``channels`` channels."""

    __slots__ = ("_counts", "_idle", "_is_idle", "_output", "_watermarks")

    def __init__(self, channels: int) -> None:
        self._watermarks = [MIN_WATERMARK] * channels
        self._idle = [False] * channels
        self._counts = [True] * channels
        """By channel, whether it is aligned: active, and not behind the emitted watermark."""
        self._output = MIN_WATERMARK
        self._is_idle = False

    @property
    def is_idle(self) -> bool:
        """Return whether all channels are idle."""
        return self._is_idle

    @property
    def emitted(self) -> int:
        """Return the last watermark that was emitted for the input."""
        return self._output

    def watermark(self, channel: int, timestamp: int) -> Sequence[TimeElement]:
        """Process a watermark of a channel; return the elements to emit for the input."""
        if self._idle[channel] or timestamp <= self._watermarks[channel]:
            return NOTHING
        self._watermarks[channel] = timestamp
        if not self._counts[channel] and timestamp >= self._output:
            self._counts[channel] = True
        return self._lowest()

    def status(self, channel: int, is_idle: bool) -> Sequence[TimeElement]:
        """Process a channel that turns idle or active; return the elements to emit for the input."""
        if self._idle[channel] is is_idle:
            return NOTHING
        self._idle[channel] = is_idle
        return self._turned_idle(channel) if is_idle else self._turned_active(channel)

    def ended(self, channel: int, timestamp: int) -> Sequence[TimeElement]:
        """Process the end of a channel, idle or not; ``timestamp`` is MAX_WATERMARK."""
        return (*self.status(channel, False), *self.watermark(channel, timestamp))

    def validate(self) -> None:
        """Check that event time is where the watermarks and statuses of the channels put it.

        This looks at what has arrived only, not at which channels are noted as aligned.
        """
        output = self._output
        are_all_idle, is_ahead = True, False
        for watermark, is_idle in zip(self._watermarks, self._idle, strict=True):
            if is_idle:
                continue
            if watermark == output:
                # It holds event time where it is: nearly always one is found, and few channels are looked at.
                are_all_idle = is_ahead = False
                break
            are_all_idle = False
            is_ahead = is_ahead or watermark > output
        assert self._is_idle is are_all_idle, (
            f"the input is idle: {self._is_idle}, its channels: {self._idle}"
        )
        assert not is_ahead, (
            f"event time stays at {output} though no channel holds it: {self._watermarks}, idle {self._idle}"
        )
        assert not are_all_idle or output == max(self._watermarks), (
            f"event time stays at {output} though all channels are idle, at {self._watermarks}"
        )

    def _turned_idle(self, channel: int) -> Sequence[TimeElement]:
        self._counts[channel] = False
        if not all(self._idle):
            return self._lowest()
        self._is_idle = True
        highest = max(self._watermarks)
        if highest > self._output:
            self._output = highest
            return Watermark(highest), IDLE
        return (IDLE,)

    def _turned_active(self, channel: int) -> Sequence[TimeElement]:
        self._counts[channel] = self._watermarks[channel] >= self._output
        if not self._is_idle:
            return self._lowest()
        self._is_idle = False
        # The receiver ignores watermarks of an idle channel.
        return ACTIVE, *self._lowest()

    def _lowest(self) -> Sequence[TimeElement]:
        """Return the least watermark of the aligned channels if it has increased."""
        lowest = None
        for watermark, counts in zip(self._watermarks, self._counts, strict=True):
            if counts and (lowest is None or watermark < lowest):
                lowest = watermark
        if lowest is None or lowest <= self._output:
            return NOTHING
        self._output = lowest
        return (Watermark(lowest),)
