"""What a user says about event time: where timestamps come from, and how watermarks follow from them.

A strategy is a value: each ``with_`` method gives a new one. Each split of a source, or each subtask of
``assign_timestamps_and_watermarks``, gets a generator of its own from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.durations import Duration, milliseconds_of
from onceproof.engine.watermarks.generators import (
    BoundedOutOfOrdernessWatermarks,
    Clock,
    NoWatermarks,
    WatermarkGenerator,
    WatermarksWithIdleness,
)


class TimestampAssigner(ABC):
    """Takes the timestamp of a record out of its value (PyFlink: TimestampAssigner)."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Milliseconds since the epoch.

        ``record_timestamp`` is the one that the record has already, or MIN_WATERMARK where it has none.
        """


class WatermarkGeneratorContext(Struct, frozen=True):
    """What a generator may know of where it runs (Flink: WatermarkGeneratorSupplier.Context)."""

    _clock: Clock

    def get_input_activity_clock(self) -> Clock:
        """Processing time in milliseconds, as of the event in hand."""
        return self._clock


GeneratorSupplier: TypeAlias = Callable[[WatermarkGeneratorContext], WatermarkGenerator]


class WatermarkStrategy(Struct, frozen=True):
    """How timestamps and watermarks are made (PyFlink: WatermarkStrategy)."""

    _supplier: GeneratorSupplier
    _assigner: TimestampAssigner | None = None
    _idle_timeout_ms: int | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Timestamps ascend within each split, so each is a watermark but for equal ones to follow."""
        return WatermarkStrategy(partial(_bounded, 0))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """No record is older than the newest of its split by more than the bound; what is, comes late."""
        bound_ms = milliseconds_of(max_out_of_orderness, "max out of orderness")
        if bound_ms < 0:
            raise ValueError(f"max out of orderness {bound_ms} ms must not be negative")
        return WatermarkStrategy(partial(_bounded, bound_ms))

    @staticmethod
    def for_generator(generator_supplier: GeneratorSupplier) -> WatermarkStrategy:
        """Watermarks of a generator of one's own, one made for each split (Flink: forGenerator)."""
        if not callable(generator_supplier):
            raise TypeError(
                f"for_generator takes a function that makes a WatermarkGenerator, not {generator_supplier!r}"
            )
        return WatermarkStrategy(generator_supplier)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Event time advances only at the end of the data."""
        return WatermarkStrategy(_none)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """Take the timestamps out of the values."""
        if not isinstance(timestamp_assigner, TimestampAssigner):
            raise TypeError(
                f"with_timestamp_assigner takes a TimestampAssigner, not {timestamp_assigner!r}:"
                " derive a class from it and pass an object of it"
            )
        return replace(self, _assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Do not wait for a split that brings nothing for longer than this in processing time."""
        timeout_ms = milliseconds_of(idle_timeout, "idle timeout")
        if timeout_ms <= 0:
            raise ValueError(f"idle timeout {timeout_ms} ms must be positive")
        return replace(self, _idle_timeout_ms=timeout_ms)

    def create_watermark_generator(self, context: WatermarkGeneratorContext) -> WatermarkGenerator:
        """A new generator (Flink: createWatermarkGenerator)."""
        generator = self._supplier(context)
        if self._idle_timeout_ms is None:
            return generator
        return WatermarksWithIdleness(generator, self._idle_timeout_ms, context.get_input_activity_clock())

    def create_timestamp_assigner(self) -> TimestampAssigner | None:
        """The timestamp assigner, or None where records keep the timestamps that they have."""
        return self._assigner


def _bounded(bound_ms: int, context: WatermarkGeneratorContext) -> WatermarkGenerator:
    return BoundedOutOfOrdernessWatermarks(bound_ms)


def _none(context: WatermarkGeneratorContext) -> WatermarkGenerator:
    return NoWatermarks()
