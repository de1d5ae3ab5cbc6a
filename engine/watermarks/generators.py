"""Watermark generators: they derive watermarks from the records of one stream (Flink: WatermarkGenerator).

A generator is called for every record and periodically. In either call it may emit watermarks and idleness to
an output, which drops watermarks that are no progress. There is one generator for each split of a source, or
for each subtask of ``assign_timestamps_and_watermarks``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from operator import itemgetter
from typing import Any, TypeAlias

from onceproof.engine.elements import MIN_WATERMARK, Record, Watermark

Clock: TypeAlias = Callable[[], int]

_TIMESTAMP_OF = itemgetter(1)


class WatermarkOutput(ABC):
    """Receives the watermarks of a generator (Flink: WatermarkOutput)."""

    @abstractmethod
    def emit_watermark(self, watermark: Watermark) -> None:
        """Emit a watermark; this makes an idle stream active again."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Mark the stream as idle: downstream operators do not wait for its watermarks."""

    @abstractmethod
    def mark_active(self) -> None:
        """Mark the stream as active again."""


class WatermarkGenerator(ABC):
    """Derives watermarks from records (Flink: WatermarkGenerator)."""

    @abstractmethod
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Process a record; the generator may emit a watermark right behind it.

        Args:
            event: the value of the record.
            event_timestamp: its timestamp in milliseconds, or MIN_WATERMARK if it has none.
            output: receives the watermark.
        """

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit a watermark; called every ``pipeline.auto-watermark-interval`` of processing time."""


class PeriodicGenerator(WatermarkGenerator):
    """Base of generators that emit watermarks periodically only, and so can process a whole buffer."""

    @abstractmethod
    def on_records(self, records: list[Record]) -> None:
        """Process records; there is at least one."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self.on_records([(event, event_timestamp)])


class BoundedOutOfOrdernessWatermarks(PeriodicGenerator):
    """The highest timestamp less a bound, less 1 ms (Flink: BoundedOutOfOrdernessWatermarks)."""

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        if max_out_of_orderness_ms < 0:
            raise ValueError(f"max out of orderness {max_out_of_orderness_ms} ms must not be negative")
        self._behind = max_out_of_orderness_ms + 1
        self._highest = MIN_WATERMARK + self._behind

    def on_records(self, records: list[Record]) -> None:
        """Update the highest timestamp; records without a timestamp are skipped."""
        try:
            highest = max(map(_TIMESTAMP_OF, records))
        except TypeError:
            highest = max([record[1] for record in records if record[1] is not None], default=MIN_WATERMARK)
        if highest is not None and highest > self._highest:
            self._highest = highest

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the watermark: a record exactly at the bound is not late, hence less 1 ms."""
        output.emit_watermark(Watermark(self._highest - self._behind))


class NoWatermarks(PeriodicGenerator):
    """Emits no watermark: event time advances only at the end of the data (Flink: NoWatermarksGenerator)."""

    def on_records(self, records: list[Record]) -> None:
        """Do nothing."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Do nothing."""


class WatermarksWithIdleness(WatermarkGenerator):
    """Marks a stream as idle that has no records for longer than a timeout (Flink: WatermarksWithIdleness).

    The timeout begins at the first periodic call without a new record.
    """

    def __init__(self, generator: WatermarkGenerator, idle_timeout_ms: int, clock: Clock) -> None:
        self._generator = generator
        self._idle_timeout_ms = idle_timeout_ms
        self._clock = clock
        self._was_active = False
        self._quiet_since: int | None = None
        self._is_idle = False

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self._generator.on_event(event, event_timestamp, output)
        self._was_active = True
        self._is_idle = False

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Call the wrapped generator, or mark the stream as idle."""
        if not self._has_timed_out():
            self._generator.on_periodic_emit(output)
        elif not self._is_idle:
            output.mark_idle()
            self._is_idle = True

    def _has_timed_out(self) -> bool:
        if self._was_active:
            self._was_active = False
            self._quiet_since = None
            return False
        if self._quiet_since is None:
            self._quiet_since = self._clock()
            return False
        return self._clock() - self._quiet_since > self._idle_timeout_ms
