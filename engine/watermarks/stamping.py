"""A strategy at work on the records of one subtask: timestamps are assigned, watermarks given out.

The rules this module lives by:

- A watermark that a generator gives because of a record comes right behind that record, ahead of the next.
- What is given out only ever advances, and idleness is told once.
- A subtask with several parts (the splits of a source) has a generator for each; they are put together as the
  inputs of an operator are, so a slow split holds the subtask back and a finished one does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from onceproof.engine.elements import MIN_WATERMARK, Record, Watermark
from onceproof.engine.watermarks.combined import CombinedWatermark
from onceproof.engine.watermarks.generators import (
    Clock,
    PeriodicGenerator,
    WatermarkGenerator,
    WatermarkOutput,
)
from onceproof.engine.watermarks.strategy import WatermarkGeneratorContext, WatermarkStrategy


class Stream(Protocol):
    """Where records, watermarks and idleness go on to."""

    def emit(self, records: list[Record]) -> None:
        """Send records on."""

    def watermark(self, timestamp: int) -> None:
        """Send a watermark on."""

    def status(self, is_idle: bool) -> None:
        """Send word of idleness, or of its end, on."""


class ProgressOutput(WatermarkOutput):
    """Sends on what is new: higher watermarks, changes of status (Flink: WatermarkToDataOutput)."""

    __slots__ = ("_is_idle", "_reached", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._reached = MIN_WATERMARK
        self._is_idle = False

    def emit_watermark(self, watermark: Watermark) -> None:
        """Send it on if it is new, active again before it."""
        timestamp = watermark.timestamp
        if timestamp > self._reached:
            self._reached = timestamp
            self.mark_active()
            self._stream.watermark(timestamp)

    def mark_idle(self) -> None:
        """Say so if it is new."""
        if not self._is_idle:
            self._is_idle = True
            self._stream.status(True)

    def mark_active(self) -> None:
        """Say so if it is new."""
        if self._is_idle:
            self._is_idle = False
            self._stream.status(False)


class _PartOutput(WatermarkOutput):
    """What one part says, kept until the parts are put together."""

    __slots__ = ("_combined", "_part", "has_changed")

    def __init__(self, combined: CombinedWatermark, part: int) -> None:
        self._combined = combined
        self._part = part
        self.has_changed = False

    def emit_watermark(self, watermark: Watermark) -> None:
        """The part has reached it."""
        self._combined.update(self._part, watermark.timestamp)
        self.has_changed = True

    def mark_idle(self) -> None:
        """The part is idle."""
        self._combined.update_status(self._part, True)
        self.has_changed = True

    def mark_active(self) -> None:
        """The part is active."""
        self._combined.update_status(self._part, False)
        self.has_changed = True


class TimestampsAndWatermarks:
    """Assigns timestamps and gives watermarks for numbered parts (Flink: TimestampsAndWatermarks)."""

    __slots__ = ("_combined", "_extract", "_generators", "_output", "_outputs", "_stream")

    def __init__(
        self, strategy: WatermarkStrategy, parts: Iterable[int], clock: Clock, stream: Stream
    ) -> None:
        assigner = strategy.create_timestamp_assigner()
        self._extract = None if assigner is None else assigner.extract_timestamp
        self._stream = stream
        self._output = ProgressOutput(stream)
        parts = list(parts)
        context = WatermarkGeneratorContext(clock)
        self._generators: dict[int, WatermarkGenerator] = {
            part: strategy.create_watermark_generator(context) for part in parts
        }
        self._combined = CombinedWatermark(parts)
        self._outputs = {part: _PartOutput(self._combined, part) for part in parts}

    def stamp(self, part: int, records: list[Record]) -> list[Record]:
        """Assign timestamps; what is left to send on after the last watermark that was given meanwhile."""
        extract = self._extract
        if extract is not None:
            records = [
                (value, extract(value, MIN_WATERMARK if timestamp is None else timestamp))
                for value, timestamp in records
            ]
        generator = self._generators[part]
        if isinstance(generator, PeriodicGenerator):
            generator.on_records(records)
            return records
        output = self._outputs[part]
        on_event = generator.on_event
        begin = 0
        for place, (value, timestamp) in enumerate(records, start=1):
            on_event(value, MIN_WATERMARK if timestamp is None else timestamp, output)
            if output.has_changed:
                output.has_changed = False
                self._stream.emit(records[begin:place])
                begin = place
                self._send_on()
        return records[begin:] if begin else records

    def on_periodic_emit(self) -> None:
        """The interval is over: ask all generators, then give out what follows from all of them."""
        for part, generator in self._generators.items():
            output = self._outputs[part]
            generator.on_periodic_emit(output)
            output.has_changed = False
        self._send_on()

    def remove(self, part: int) -> None:
        """A part is over. What follows is given out with the next watermark."""
        if self._generators.pop(part, None) is not None:
            del self._outputs[part]
            self._combined.remove(part)

    def pass_on(self, timestamp: int) -> None:
        """Give out a watermark that is nobody's to tell: the last one, at the end of the data."""
        self._output.emit_watermark(Watermark(timestamp))

    def _send_on(self) -> None:
        combined = self._combined
        if not combined.is_idle:
            self._output.mark_active()
        self._output.emit_watermark(Watermark(combined.watermark))
        if combined.is_idle:
            self._output.mark_idle()
