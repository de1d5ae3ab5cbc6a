"""The operators that apply a watermark strategy: at a source, or in the middle of a stream.

Both call their generators periodically, every ``pipeline.auto-watermark-interval`` since they were opened, by
a clock that never jumps. A watermark that a generator emits for a record is sent right behind that record.
"""

from __future__ import annotations

from msgspec import Struct

from onceproof.engine.connectors.source import Source
from onceproof.engine.elements import MAX_WATERMARK, Record
from onceproof.engine.operators.base import Downstream, Operator, OperatorContext
from onceproof.engine.operators.declared_output import DeclaredOutput
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.wall_clock import WallClock
from onceproof.engine.watermarks.stamping import StampingTime, TimestampsAndWatermarks
from onceproof.engine.watermarks.strategy import WatermarkStrategy

ONLY_PART = 0


class _EmitInterval:
    """The next time of ``on_periodic_emit``; an interval of 0 ms: never."""

    __slots__ = ("_clock", "_downstream", "_interval_ms", "due_ms")

    def __init__(self, context: OperatorContext) -> None:
        assert context.downstream is not None
        self._downstream: Downstream = context.downstream
        self._clock = context.steady_clock
        self._interval_ms = context.auto_watermark_interval_ms
        self.due_ms: int | None = None
        """When the interval is over, by the steady clock; None: there is none."""
        if self._interval_ms:
            self._begin(self._clock())

    def is_over(self) -> bool:
        """Return whether the interval is over; if so, begin the next one."""
        due_ms = self.due_ms
        if due_ms is None:
            return False
        now = self._clock()
        if now < due_ms:
            self._downstream.wake_at_steady(due_ms)
            return False
        self._begin(now)
        return True

    def _begin(self, now: int) -> None:
        due_ms = self.due_ms = now + self._interval_ms
        self._downstream.wake_at_steady(due_ms)


class SourceTime(Struct, frozen=True):
    """The event time of a source: by split, the number of its part in ``stamping``."""

    parts: dict[str, int]
    stamping: StampingTime


class TimestampedSourceOperator(SourceOperator):
    """A source with timestamps and a watermark generator for each split (Flink: SourceOperator).

    An exhausted split no longer holds back the watermark of the others.
    """

    uses_time = True

    def __init__(self, source: Source, strategy: WatermarkStrategy) -> None:
        super().__init__(source)
        self.strategy = strategy
        self._declared: DeclaredOutput | None = None

    def in_batch(self) -> Operator:
        return TimestampedSourceOperator(self.source, self.strategy.without_progress())

    def applies(self, declared: DeclaredOutput) -> bool:
        """Return True: the strategy's functions get values of the declared type."""
        self._declared = declared
        return True

    def open(self, context: OperatorContext) -> None:
        """Open every split, and make a generator for each that is not exhausted."""
        super().open(context)
        assert context.downstream is not None
        unfinished = [place for place, (_, reader) in enumerate(self._readers) if not reader.exhausted]
        self._stamping = TimestampsAndWatermarks(
            self.strategy, unfinished, context.steady_clock, context.downstream
        )
        self._interval = _EmitInterval(context)

    def active_watermarks(self) -> dict[str, int]:
        """Return by name the watermarks of the splits that have not ended and do not count as idle."""
        active = self._stamping.active_watermarks()
        return {self._readers[place][0]: watermark for place, watermark in active.items()}

    def event_time(self) -> SourceTime:
        parts = {split: place for place, (split, _) in enumerate(self._readers)}
        return SourceTime(parts, self._stamping.event_time())

    def resume_event_time(self, known: SourceTime) -> None:
        places = {split: place for place, (split, _) in enumerate(self._readers)}
        self._stamping.resume(
            known.stamping, {part: places[split] for split, part in known.parts.items() if split in places}
        )

    def poll(self, limit: int) -> list[Record]:
        """Read records and assign timestamps; [] also if all records were emitted ahead of watermarks."""
        unfinished = self._unfinished
        records = super().poll(limit)
        if self._unfinished != unfinished:
            # Some splits turned out to be at their end when they were read.
            for place, (_, reader) in enumerate(self._readers):
                if reader.exhausted and (not records or place != self._polled):
                    self._stamping.remove(place)
        if not records:
            return records
        if self._declared is not None:
            records = self._declared.apply(records)
        place = self._polled
        stamped = self._stamping.stamp(place, records)
        if self._readers[place][1].exhausted:
            self._stamping.remove(place)
        return stamped

    def process_time(self, now: int) -> list[Record]:
        if self._interval.is_over():
            self._stamping.on_periodic_emit()
        return []

    def next_due_ms(self, wall_clock: WallClock) -> int | None:
        return self._interval.due_ms

    def validate(self) -> None:
        self._stamping.validate()


class TimestampsAndWatermarksOperator(Operator):
    """Assigns timestamps and replaces the watermarks from upstream.

    Flink: TimestampsAndWatermarksOperator.
    """

    uses_time = True
    passes_watermarks = False
    passes_status = False

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self.strategy = strategy

    def in_batch(self) -> Operator:
        return TimestampsAndWatermarksOperator(self.strategy.without_progress())

    def open(self, context: OperatorContext) -> None:
        assert context.downstream is not None
        self._stamping = TimestampsAndWatermarks(
            self.strategy, (ONLY_PART,), context.steady_clock, context.downstream
        )
        self._interval = _EmitInterval(context)

    def event_time(self) -> StampingTime:
        return self._stamping.event_time()

    def resume_event_time(self, known: StampingTime) -> None:
        self._stamping.resume(known, {ONLY_PART: ONLY_PART})

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        return self._stamping.stamp(ONLY_PART, records)

    def process_watermark(self, timestamp: int) -> list[Record]:
        """Drop the watermarks from upstream, except the last one at the end of the data."""
        if timestamp == MAX_WATERMARK:
            self._stamping.emit_final_watermark(timestamp)
        return []

    def process_time(self, now: int) -> list[Record]:
        if self._interval.is_over():
            self._stamping.on_periodic_emit()
        return []

    def next_due_ms(self, wall_clock: WallClock) -> int | None:
        return self._interval.due_ms

    def validate(self) -> None:
        self._stamping.validate()
