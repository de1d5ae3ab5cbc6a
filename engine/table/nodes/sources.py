"""Scans of tables, and the watermarks of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from onceproof.engine.durations import Duration
from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK, Record, Watermark
from onceproof.engine.operators.base import Operator, OperatorContext
from onceproof.engine.table.expressions.registry import Evaluate, FunctionFailed, compile_expression
from onceproof.engine.table.operators import Moment
from onceproof.engine.table.plans import Node, UnsupportedPlan
from onceproof.engine.table.table_ends import READING_METADATA, source_end
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import TableStream, Translation, translator
from onceproof.engine.table.values import NANOS_PER_MS, Change
from onceproof.engine.wall_clock import WallClock
from onceproof.engine.watermarks.generators import WatermarkGenerator, WatermarkOutput
from onceproof.engine.watermarks.strategy import WatermarkGeneratorContext, WatermarkStrategy

_WATERMARKS: Final = "WatermarkPushDown"


class RowWatermarks(WatermarkGenerator):
    """Computes a watermark from each row (Flink: GeneratedWatermarkGeneratorSupplier).

    A NULL leaves it as it is. Without an interval, each is emitted behind its row.
    """

    def __init__(self, expression: Mapping[str, Any], settings: TableSettings, interval_ms: int) -> None:
        self._evaluate = compile_expression(expression, settings.scope(Moment()))
        self._emits_at_once = interval_ms == 0
        self._watermark = MIN_WATERMARK

    def on_event(self, event: Change, event_timestamp: int, output: WatermarkOutput) -> None:
        nanos = self._evaluate(event[1])
        if nanos is not None:
            self._watermark = max(self._watermark, nanos // NANOS_PER_MS)
            if self._emits_at_once:
                self.on_periodic_emit(output)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if self._watermark > MIN_WATERMARK:
            output.emit_watermark(Watermark(self._watermark))


def _generator(arguments: tuple[Any, ...], context: WatermarkGeneratorContext) -> RowWatermarks:
    return RowWatermarks(*arguments)


@translator("table-source-scan", 1, 2)
def translate_scan(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Ask for the stream of the table."""
    strategy = None
    for ability in node.attributes["scanTableSource"].get("abilities", ()):
        if ability["type"] == READING_METADATA:
            continue
        if ability["type"] != _WATERMARKS:
            raise UnsupportedPlan(f"a source with {ability['type']}")
        interval_ms = translation.environment.get_config().get_auto_watermark_interval()
        arguments = ability["watermarkExpr"], translation.settings, interval_ms
        RowWatermarks(*arguments)
        strategy = WatermarkStrategy.for_generator(partial(_generator, arguments))
        if (idle_ms := ability.get("idleTimeoutMillis", -1)) > 0:
            strategy = strategy.with_idleness(Duration.of_millis(idle_ms))
    stream = translation.tables.scan(translation.environment, source_end(node), strategy)
    return TableStream(stream, node.output)


class WatermarkAssigner(Operator):
    """Emits the watermark of a row behind it (Flink: WatermarkAssignerOperator).

    It is emitted at once where it has advanced by more than the interval, and otherwise when that is over. It
    begins at 0: none before the epoch is emitted.
    """

    uses_time = True
    passes_watermarks = False

    def __init__(self, expression: Mapping[str, Any], rowtime: int, settings: TableSettings) -> None:
        self._evaluate: Evaluate = compile_expression(expression, settings.scope(Moment()))
        self._rowtime = rowtime
        self._current = self._emitted = 0
        self._due_ms: int | None = None

    def open(self, context: OperatorContext) -> None:
        assert context.downstream is not None
        self._downstream = context.downstream
        self._clock = context.steady_clock
        self._interval_ms = context.auto_watermark_interval_ms
        if self._interval_ms:
            self._wait()

    def _wait(self) -> None:
        self._due_ms = self._clock() + self._interval_ms
        self._downstream.wake_at_steady(self._due_ms)

    def event_time(self) -> tuple[int, int]:
        return self._current, self._emitted

    def resume_event_time(self, known: Any) -> None:
        self._current, self._emitted = known

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        waiting: list[Record] = []
        for record in records:
            row = record[0][1]
            if row[self._rowtime] is None:
                raise FunctionFailed(
                    "RowTime field should not be null, please convert it to a non-null long value."
                )
            waiting.append(record)
            nanos = self._evaluate(row)
            if nanos is not None:
                self._current = max(self._current, nanos // NANOS_PER_MS)
                if self._current - self._emitted > self._interval_ms:
                    self._downstream.emit(waiting)
                    waiting = []
                    self._advance()
        return waiting

    def _advance(self) -> None:
        if self._current > self._emitted:
            self._emitted = self._current
            self._downstream.watermark(self._emitted)

    def process_watermark(self, timestamp: int) -> list[Record]:
        """Drop the watermarks from upstream, except the last one at the end of the data."""
        if timestamp == MAX_WATERMARK:
            self._current = MAX_WATERMARK
            self._advance()
        return []

    def process_time(self, now: int) -> list[Record]:
        if self._due_ms is not None:
            if self._clock() >= self._due_ms:
                self._advance()
                self._wait()
            else:
                # The task was woken for something else, and must still be asked anew.
                self._downstream.wake_at_steady(self._due_ms)
        return []

    def next_due_ms(self, wall_clock: WallClock) -> int | None:
        return self._due_ms


@translator("watermark-assigner", 1)
def translate_watermarks(node: Node, inputs: Sequence[TableStream], translation: Translation) -> TableStream:
    """Add the operator."""
    attributes = node.attributes
    create = partial(
        WatermarkAssigner,
        attributes["watermarkExpr"],
        attributes["rowtimeFieldIndex"],
        translation.settings,
    )
    return translation.operator(node, inputs[0], create)
