"""Applies a watermark strategy to the records of one subtask (Flink: TimestampsAndWatermarks).

The rules this module lives by:

- A watermark that a generator emits for a record is sent right behind that record, before the next one.
- The watermarks that are sent only advance, and a change of idleness is sent once.
- A subtask with several parts (the splits of a source) has a generator for each. Their watermarks are
  combined like those of an operator's inputs: a slow split holds the subtask back, a finished one does not.
- Where a new task goes on in place of an old one within an attempt (on Spark, after each epoch), it takes
  over the old one's generators and what they have reached. A part that the old one has removed stays removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import GeneratorType, NoneType
from typing import Any, Final, Protocol

from msgspec import Struct

from onceproof.engine.elements import MIN_WATERMARK, Record, Watermark
from onceproof.engine.watermarks.combined import CombinedWatermark
from onceproof.engine.watermarks.generators import (
    Clock,
    PeriodicGenerator,
    WatermarkGenerator,
    WatermarkOutput,
)
from onceproof.engine.watermarks.strategy import WatermarkGeneratorContext, WatermarkStrategy

_LONGEST_SHOWN: Final = 60


class Stream(Protocol):
    """The downstream of the strategy."""

    def emit(self, records: list[Record]) -> None:
        """Send records."""

    def watermark(self, timestamp: int) -> None:
        """Send a watermark."""

    def status(self, is_idle: bool) -> None:
        """Send whether the stream is idle."""


class TaskClock:
    """The clock of generators: that of the task in which they are.

    Pickled with the generators that hold it, it stays behind: the next task sets its own.
    """

    __slots__ = ("read",)

    def __init__(self, read: Clock) -> None:
        self.read = read

    def __call__(self) -> int:
        return self.read()

    def __reduce__(self) -> tuple[Callable[[Clock], TaskClock], tuple[Clock]]:
        return TaskClock, (_no_clock,)


def _no_clock() -> int:
    raise AssertionError("a generator that no task has taken over has no clock")


class StampingTime(Struct, frozen=True):
    """The event time of a TimestampsAndWatermarks: its generators, and what they have reached and sent."""

    clock: TaskClock
    generators: Mapping[int, WatermarkGenerator]
    combined: CombinedWatermark
    reached: int
    is_idle: bool


class ProgressOutput(WatermarkOutput):
    """Sends higher watermarks and changes of status, and drops the rest (Flink: WatermarkToDataOutput)."""

    __slots__ = ("_stream", "is_idle", "reached")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.reached = MIN_WATERMARK
        self.is_idle = False

    def emit_watermark(self, watermark: Watermark) -> None:
        """Send the watermark if it is higher than the last one; mark the stream as active before it."""
        timestamp = watermark.timestamp
        if timestamp > self.reached:
            self.reached = timestamp
            self.mark_active()
            self._stream.watermark(timestamp)

    def mark_idle(self) -> None:
        if not self.is_idle:
            self.is_idle = True
            self._stream.status(True)

    def mark_active(self) -> None:
        if self.is_idle:
            self.is_idle = False
            self._stream.status(False)


def _no_timestamp(extract: Callable[[Any, int], int], value: Any, timestamp: Any) -> TypeError:
    """Return the error that a timestamp assigner returned something else than an int."""
    remedy = {
        float: "round it, int(...)",
        NoneType: "return one for each record",
        GeneratorType: "return it, do not yield it",
    }.get(type(timestamp), "return an int")
    shown = "a generator" if type(timestamp) is GeneratorType else repr(timestamp)
    record = repr(value)
    if len(record) > _LONGEST_SHOWN:
        record = record[: _LONGEST_SHOWN - 3] + "..."
    assigner = type(getattr(extract, "__self__", extract)).__qualname__
    return TypeError(
        f"timestamp assigner {assigner} returned {shown} ({type(timestamp).__qualname__}) for the record"
        f" {record}: a timestamp is an int, in milliseconds since the epoch; {remedy}"
    )


class _PartOutput(WatermarkOutput):
    """Collects the watermarks and the status of one part until they are combined."""

    __slots__ = ("_combined", "_part", "has_changed")

    def __init__(self, combined: CombinedWatermark, part: int) -> None:
        self._combined = combined
        self._part = part
        self.has_changed = False

    def emit_watermark(self, watermark: Watermark) -> None:
        self._combined.update(self._part, watermark.timestamp)
        self.has_changed = True

    def mark_idle(self) -> None:
        self._combined.update_status(self._part, True)
        self.has_changed = True

    def mark_active(self) -> None:
        self._combined.update_status(self._part, False)
        self.has_changed = True


class TimestampsAndWatermarks:
    """Assigns timestamps and emits watermarks for numbered parts (Flink: TimestampsAndWatermarks)."""

    __slots__ = ("_clock", "_combined", "_extract", "_generators", "_output", "_outputs", "_stream")

    def __init__(
        self, strategy: WatermarkStrategy, parts: Iterable[int], clock: Clock, stream: Stream
    ) -> None:
        assigner = strategy.create_timestamp_assigner()
        self._extract = None if assigner is None else assigner.extract_timestamp
        self._stream = stream
        self._output = ProgressOutput(stream)
        parts = list(parts)
        self._clock = TaskClock(clock)
        context = WatermarkGeneratorContext(self._clock)
        self._generators: dict[int, WatermarkGenerator] = {
            part: strategy.create_watermark_generator(context) for part in parts
        }
        self._combined = CombinedWatermark(parts)
        self._outputs = {part: _PartOutput(self._combined, part) for part in parts}

    def stamp(self, part: int, records: list[Record]) -> list[Record]:
        """Assign timestamps, and call the generator.

        Records that precede a watermark are sent with it; the caller sends the returned ones.
        """
        extract = self._extract
        if extract is not None:
            records = [
                (value, extract(value, MIN_WATERMARK if timestamp is None else timestamp))
                for value, timestamp in records
            ]
            for value, timestamp in records:
                if timestamp.__class__ is not int:
                    raise _no_timestamp(extract, value, timestamp)
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
        """Call all generators, then send the combined watermark and status."""
        for part, generator in self._generators.items():
            output = self._outputs[part]
            generator.on_periodic_emit(output)
            output.has_changed = False
        self._send_on()

    def active_watermarks(self) -> dict[int, int]:
        """Return the watermarks of the parts that have not ended and are not idle."""
        return self._combined.active_watermarks()

    def event_time(self) -> StampingTime:
        """Return what a new task needs to go on in place of this one."""
        output = self._output
        return StampingTime(self._clock, self._generators, self._combined, output.reached, output.is_idle)

    def resume(self, known: StampingTime, parts: Mapping[int, int]) -> None:
        """Go on with the event time of an old task; ``parts``: by its part, the number of the part here."""
        known.clock.read = self._clock.read
        self._clock = known.clock
        self._combined = combined = known.combined.renumbered(parts)
        generators = {parts[part]: each for part, each in known.generators.items() if part in parts}
        self._generators = generators
        self._outputs = {part: _PartOutput(combined, part) for part in generators}
        self._output.reached = known.reached
        self._output.is_idle = known.is_idle

    def remove(self, part: int) -> None:
        """Remove a part that has ended; the next watermark takes that into account."""
        if self._generators.pop(part, None) is not None:
            del self._outputs[part]
            self._combined.remove(part)

    def emit_final_watermark(self, timestamp: int) -> None:
        """Send the last watermark at the end of the data, which no generator emits."""
        self._output.emit_watermark(Watermark(timestamp))

    def validate(self) -> None:
        """Check that the stream does not count as idle downstream while a part is active.

        Event time would go on without that part, past its records. A part that turns active says so with the
        record or the call in which it does, whether or not its watermark rises. The end of the last active
        part is sent with the next watermark, so a stream may count as active for longer than it is.
        """
        assert not (self._output.is_idle and self._combined.has_active_part), (
            f"the stream counts as idle, at {self._output.reached}, though one of its parts is active"
        )

    def _send_on(self) -> None:
        combined = self._combined
        if not combined.is_idle:
            self._output.mark_active()
        self._output.emit_watermark(Watermark(combined.watermark))
        if combined.is_idle:
            self._output.mark_idle()
