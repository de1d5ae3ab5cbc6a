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

    def of_channel(self, channel: int) -> int:
        """Return the last watermark of a channel."""
        return self._watermarks[channel]

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
        output, watermarks, idle = self._output, self._watermarks, self._idle
        if output in watermarks and not idle[watermarks.index(output)] and not self._is_idle:
            # This channel holds event time where it is. Nearly always one does, and the rest is skipped.
            return
        active = [mark for mark, is_idle in zip(watermarks, idle, strict=True) if not is_idle]
        assert self._is_idle is not bool(active), f"the input is idle: {self._is_idle}, its channels: {idle}"
        if active:
            assert output in active or max(active) < output, (
                f"event time stays at {output} though no channel holds it: {watermarks}, idle {idle}"
            )
        else:
            assert output == max(watermarks), (
                f"event time stays at {output} though all channels are idle, at {watermarks}"
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
