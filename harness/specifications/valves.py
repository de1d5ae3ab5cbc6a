"""Watermarks and idleness: of the channels of one input, the valve, and of one stream's own (semantics 5).

Rules:

- The input's watermark is the lowest of its aligned channels, and is emitted only when it rises.
- An idle channel is not aligned, and what it says of event time is ignored.
- When the last channel turns idle, the highest watermark of all is emitted first, then idleness.
- A channel that turns active behind the emitted watermark is not aligned before it has caught up.
- Nothing is remembered over a restore: each attempt begins with MIN_WATERMARK.
- A stream with a time-out turns idle at a periodic call, if longer than the time-out has passed since the
  first such call behind its last record.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceproof.engine.elements import ACTIVE, IDLE, MIN_WATERMARK, Watermark, WatermarkStatus


class ValveSpecification:
    """The valve of an input with so many channels."""

    __slots__ = ("aligned", "emitted", "idle", "marks")

    def __init__(self, channels: int) -> None:
        self.marks = [MIN_WATERMARK] * channels
        self.aligned = set(range(channels))
        self.idle: set[int] = set()
        self.emitted = MIN_WATERMARK

    def watermark(self, channel: int, timestamp: int) -> Sequence[Watermark | WatermarkStatus]:
        """Return what a watermark of a channel must emit."""
        marks = self.marks
        if channel in self.idle or timestamp <= marks[channel]:
            return ()
        marks[channel] = timestamp
        if timestamp >= self.emitted:
            self.aligned.add(channel)
        return self._risen()

    def status(self, channel: int, is_idle: bool) -> Sequence[Watermark | WatermarkStatus]:
        """Return what a channel that turns idle or active must emit."""
        if is_idle is (channel in self.idle):
            return ()
        were_all_idle = len(self.idle) == len(self.marks)
        if not is_idle:
            self.idle.discard(channel)
            if self.marks[channel] >= self.emitted:
                self.aligned.add(channel)
            return (ACTIVE, *self._risen()) if were_all_idle else self._risen()
        self.idle.add(channel)
        self.aligned.discard(channel)
        if len(self.idle) < len(self.marks):
            return self._risen()
        return (*self._emit(max(self.marks)), IDLE)

    def ended(self, channel: int, timestamp: int) -> Sequence[Watermark | WatermarkStatus]:
        """Return what the end of a channel must emit, idle or not."""
        return (*self.status(channel, False), *self.watermark(channel, timestamp))

    def _risen(self) -> Sequence[Watermark]:
        marks, aligned = self.marks, self.aligned
        return self._emit(min([marks[channel] for channel in aligned])) if aligned else ()

    def _emit(self, timestamp: int) -> Sequence[Watermark]:
        if timestamp <= self.emitted:
            return ()
        self.emitted = timestamp
        return (Watermark(timestamp),)


class IdlenessSpecification:
    """A stream that counts as idle when it has had no record for longer than a time-out."""

    __slots__ = ("has_record", "is_idle", "quiet_since", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.has_record = False
        """Whether a record has come since the last periodic call."""
        self.quiet_since: int | None = None
        """When the first periodic call without a record was."""
        self.is_idle = False

    def record(self) -> None:
        """Take a record."""
        self.has_record, self.is_idle = True, False

    def periodic(self, now: int) -> bool:
        """Return whether the stream must turn idle in a periodic call."""
        if self.has_record:
            self.has_record, self.quiet_since = False, None
        elif self.quiet_since is None:
            self.quiet_since = now
        elif not self.is_idle and now - self.quiet_since > self.timeout_ms:
            self.is_idle = True
            return True
        return False
