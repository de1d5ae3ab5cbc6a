"""Watermark generators: how event time is told from the records of one stream (Flink: WatermarkGenerator).

A generator sees every record and is asked now and then for what it makes of them. It gives watermarks and
idleness to an output, at either occasion; the output drops what is no progress. One generator serves one
split of a source, or one subtask of ``assign_timestamps_and_watermarks``.
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
    """Where a generator gives its watermarks (Flink: WatermarkOutput)."""

    @abstractmethod
    def emit_watermark(self, watermark: Watermark) -> None:
        """Event time has reached the watermark; an idle stream is active again."""

    @abstractmethod
    def mark_idle(self) -> None:
        """The stream is idle: nobody downstream shall wait for it."""

    @abstractmethod
    def mark_active(self) -> None:
        """The stream is no longer idle."""


class WatermarkGenerator(ABC):
    """Tells event time from records (Flink: WatermarkGenerator)."""

    @abstractmethod
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """A record has gone by; a generator may give a watermark at once."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """The interval of ``pipeline.auto-watermark-interval`` is over."""


class PeriodicGenerator(WatermarkGenerator):
    """A generator of ours that gives watermarks at its interval only, so it may look at a whole buffer."""

    @abstractmethod
    def on_records(self, records: list[Record]) -> None:
        """These records have gone by; there is at least one."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """One record has gone by."""
        self.on_records([(event, event_timestamp)])


class BoundedOutOfOrdernessWatermarks(PeriodicGenerator):
    """No record is older than the newest by more than a bound (Flink: BoundedOutOfOrdernessWatermarks)."""

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        if max_out_of_orderness_ms < 0:
            raise ValueError(f"max out of orderness {max_out_of_orderness_ms} ms must not be negative")
        self._behind = max_out_of_orderness_ms + 1
        self._highest = MIN_WATERMARK + self._behind

    def on_records(self, records: list[Record]) -> None:
        """Look for the newest; records without a timestamp tell nothing."""
        try:
            highest = max(map(_TIMESTAMP_OF, records))
        except TypeError:
            highest = max([record[1] for record in records if record[1] is not None], default=MIN_WATERMARK)
        if highest is not None and highest > self._highest:
            self._highest = highest

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """A record just at the bound may still come, so the watermark is below it by one."""
        output.emit_watermark(Watermark(self._highest - self._behind))


class NoWatermarks(PeriodicGenerator):
    """Event time never advances but at the end of the data (Flink: NoWatermarksGenerator)."""

    def on_records(self, records: list[Record]) -> None:
        """Nothing follows from them."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """There is nothing to give."""


class WatermarksWithIdleness(WatermarkGenerator):
    """Marks a stream idle that brings no records for longer than a timeout (Flink: the same).

    Time is counted from the first periodic look that finds nothing new.
    """

    def __init__(self, generator: WatermarkGenerator, idle_timeout_ms: int, clock: Clock) -> None:
        self._generator = generator
        self._idle_timeout_ms = idle_timeout_ms
        self._clock = clock
        self._was_active = False
        self._quiet_since: int | None = None
        self._is_idle = False

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """A record is activity."""
        self._generator.on_event(event, event_timestamp, output)
        self._was_active = True
        self._is_idle = False

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """What the generator within gives, unless the stream is idle."""
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
