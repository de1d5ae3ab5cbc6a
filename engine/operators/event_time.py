"""Where event time begins: a source with a watermark strategy, and an operator that applies one mid-stream.

Both ask their generators at the interval of ``pipeline.auto-watermark-interval``, counted from their opening
in processing time. What a generator gives because of a record goes out right behind that record.
"""

from __future__ import annotations

from onceproof.engine.connectors.source import Source
from onceproof.engine.elements import MAX_WATERMARK, Record
from onceproof.engine.operators.base import Downstream, Operator, OperatorContext
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.watermarks.stamping import TimestampsAndWatermarks
from onceproof.engine.watermarks.strategy import WatermarkStrategy

ONLY_PART = 0


class _Interval:
    """When generators are asked next; ``interval_ms`` 0 is never."""

    __slots__ = ("_clock", "_downstream", "_due_ms", "_interval_ms")

    def __init__(self, context: OperatorContext) -> None:
        assert context.downstream is not None
        self._downstream: Downstream = context.downstream
        self._clock = context.clock
        self._interval_ms = context.auto_watermark_interval_ms
        self._due_ms = 0
        if self._interval_ms:
            self._begin(context.clock())

    def is_over(self, now: int) -> bool:
        """Whether it is; then the next one has begun."""
        if not self._interval_ms:
            return False
        if now < self._due_ms:
            self._downstream.wake_at(self._due_ms)
            return False
        self._begin(now)
        return True

    def _begin(self, now: int) -> None:
        self._due_ms = now + self._interval_ms
        self._downstream.wake_at(self._due_ms)


class TimestampedSourceOperator(SourceOperator):
    """A source with timestamps and watermarks, which each split has of its own (Flink: SourceOperator).

    A split that has been read out holds the others back no longer.
    """

    uses_time = True

    def __init__(self, source: Source, strategy: WatermarkStrategy) -> None:
        super().__init__(source)
        self._strategy = strategy

    def open(self, context: OperatorContext) -> None:
        """Open every split; those that have something left get a generator each."""
        super().open(context)
        assert context.downstream is not None
        unfinished = [place for place, (_, reader) in enumerate(self._readers) if not reader.exhausted]
        self._stamping = TimestampsAndWatermarks(
            self._strategy, unfinished, context.clock, context.downstream
        )
        self._interval = _Interval(context)

    def poll(self, limit: int) -> list[Record]:
        """As every source, with timestamps; [] also where all records went out ahead of watermarks."""
        records = super().poll(limit)
        if not records:
            return records
        place = self._polled
        stamped = self._stamping.stamp(place, records)
        if self._readers[place][1].exhausted:
            self._stamping.remove(place)
        return stamped

    def process_time(self, now: int) -> list[Record]:
        """At the end of each interval, give the watermark."""
        if self._interval.is_over(now):
            self._stamping.on_periodic_emit()
        return []


class TimestampsAndWatermarksOperator(Operator):
    """Assigns timestamps and gives watermarks in place of those from upstream (Flink: the same)."""

    uses_time = True
    passes_watermarks = False

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy

    def open(self, context: OperatorContext) -> None:
        """Make the generator."""
        assert context.downstream is not None
        self._stamping = TimestampsAndWatermarks(
            self._strategy, (ONLY_PART,), context.clock, context.downstream
        )
        self._interval = _Interval(context)

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """The same values with their timestamps."""
        return self._stamping.stamp(ONLY_PART, records)

    def process_watermark(self, timestamp: int) -> list[Record]:
        """Of the watermarks from upstream only the last one counts: the end of all data."""
        if timestamp == MAX_WATERMARK:
            self._stamping.pass_on(timestamp)
        return []

    def process_time(self, now: int) -> list[Record]:
        """At the end of each interval, give the watermark."""
        if self._interval.is_over(now):
            self._stamping.on_periodic_emit()
        return []
