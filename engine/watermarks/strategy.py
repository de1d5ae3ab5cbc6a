"""Watermark strategies: where timestamps come from, and how watermarks are generated.

A strategy is an immutable value: each ``with_`` method returns a new one. It makes a generator for each split
of a source, or for each subtask of ``assign_timestamps_and_watermarks``.
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
    """Extracts the timestamp of a record from its value (PyFlink: TimestampAssigner)."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the timestamp of a record in milliseconds since the epoch.

        Args:
            value: the value of the record.
            record_timestamp: its current timestamp, or MIN_WATERMARK if it has none.
        """


class WatermarkGeneratorContext(Struct, frozen=True):
    """The argument of a generator supplier (Flink: WatermarkGeneratorSupplier.Context)."""

    _clock: Clock

    def get_input_activity_clock(self) -> Clock:
        """Return the clock of processing time, in milliseconds since the epoch."""
        return self._clock


GeneratorSupplier: TypeAlias = Callable[[WatermarkGeneratorContext], WatermarkGenerator]


class WatermarkStrategy(Struct, frozen=True):
    """How timestamps are assigned and watermarks generated (PyFlink: WatermarkStrategy)."""

    _supplier: GeneratorSupplier
    _assigner: TimestampAssigner | None = None
    idle_timeout_ms: int | None = None
    """After how long without a record a split counts as idle; None: it never does."""
    bound_ms: int | None = None
    """How far a stock strategy's watermarks are behind the newest record; None: its generator decides."""

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Return a strategy for timestamps that never decrease within a split."""
        return WatermarkStrategy(partial(_bounded, 0), bound_ms=0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Return a strategy for records that are out of order by at most a bound.

        Args:
            max_out_of_orderness: how far a timestamp may be below the highest one of its split; records
                further below are late.

        Raises:
            ValueError: the bound is negative.
        """
        bound_ms = milliseconds_of(max_out_of_orderness, "max out of orderness")
        if bound_ms < 0:
            raise ValueError(f"max out of orderness {bound_ms} ms must not be negative")
        return WatermarkStrategy(partial(_bounded, bound_ms), bound_ms=bound_ms)

    @staticmethod
    def for_generator(generator_supplier: GeneratorSupplier) -> WatermarkStrategy:
        """Return a strategy with generators of the user (Flink: forGenerator).

        Args:
            generator_supplier: makes a WatermarkGenerator for each split, from a WatermarkGeneratorContext.

        Raises:
            TypeError: ``generator_supplier`` is not callable.
        """
        if not callable(generator_supplier):
            raise TypeError(
                f"for_generator takes a function that makes a WatermarkGenerator, not {generator_supplier!r}"
            )
        return WatermarkStrategy(generator_supplier)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Return a strategy without watermarks: event time advances only at the end of the data."""
        return WatermarkStrategy(_none)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """Return this strategy with timestamps extracted from the values.

        Raises:
            TypeError: ``timestamp_assigner`` is not a TimestampAssigner.
        """
        if not isinstance(timestamp_assigner, TimestampAssigner):
            raise TypeError(
                f"with_timestamp_assigner takes a TimestampAssigner, not {timestamp_assigner!r}:"
                " derive a class from it and pass an object of it"
            )
        return replace(self, _assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Return this strategy with idle detection.

        Args:
            idle_timeout: a split without records for longer than this processing time is idle, and does not
                hold back the watermark.

        Raises:
            ValueError: the timeout is not positive.
        """
        timeout_ms = milliseconds_of(idle_timeout, "idle timeout")
        if timeout_ms <= 0:
            raise ValueError(f"idle timeout {timeout_ms} ms must be positive")
        return replace(self, idle_timeout_ms=timeout_ms)

    def without_progress(self) -> WatermarkStrategy:
        """Return this strategy with its timestamps and without watermarks, for BATCH mode (ours)."""
        return WatermarkStrategy(_none, self._assigner)

    def create_watermark_generator(self, context: WatermarkGeneratorContext) -> WatermarkGenerator:
        """Return a new generator (Flink: createWatermarkGenerator)."""
        generator = self._supplier(context)
        if self.idle_timeout_ms is None:
            return generator
        return WatermarksWithIdleness(generator, self.idle_timeout_ms, context.get_input_activity_clock())

    def create_timestamp_assigner(self) -> TimestampAssigner | None:
        """Return the timestamp assigner, or None if records keep their timestamps."""
        return self._assigner


def _bounded(bound_ms: int, context: WatermarkGeneratorContext) -> WatermarkGenerator:
    return BoundedOutOfOrdernessWatermarks(bound_ms)


def _none(context: WatermarkGeneratorContext) -> WatermarkGenerator:
    return NoWatermarks()
