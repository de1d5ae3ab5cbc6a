"""Watermarks behind each record, and the furthest watermark that a record may meet.

Watermarks that follow each record make progress in runs of a few hundred steps, where periodic ones would
come once or twice. How far the watermark of a run is depends on which channel was slow and on restores, which
begin without a watermark. It is never further than ``with_progress`` works out from the records.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from onceproof.engine.elements import Watermark
from onceproof.engine.watermarks.generators import WatermarkGenerator
from onceproof.engine.watermarks.strategy import WatermarkStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.watermarks.generators import WatermarkOutput
    from onceproof.engine.watermarks.strategy import WatermarkGeneratorContext
    from onceproof.harness.model.family import Records
    from onceproof.harness.model.scenario import RecordValue


class EachRecordWatermarks(WatermarkGenerator):
    """Emits a watermark, ``bound_ms`` behind, after each record that is newer than all before it."""

    def __init__(self, bound_ms: int, context: WatermarkGeneratorContext) -> None:
        self._bound_ms = bound_ms
        self._newest: int | None = None

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if self._newest is None or event_timestamp > self._newest:
            self._newest = event_timestamp
            output.emit_watermark(Watermark(event_timestamp - self._bound_ms - 1))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit nothing: all watermarks are emitted in ``on_event``."""


def watermarks(bound_ms: int) -> WatermarkStrategy:
    """Return a strategy with the records' own timestamps, up to ``bound_ms`` out of order."""
    return WatermarkStrategy.for_generator(partial(EachRecordWatermarks, bound_ms))


def with_progress(records: Records, bound_ms: int) -> Iterator[tuple[int, RecordValue, int]]:
    """Yield (timestamp, value, watermark): each record with the furthest watermark that may precede it.

    The watermark of a run is never ahead of that of any split, and the watermark of a record's own split
    follows from the records before it.
    """
    for split in records.values():
        newest: int | None = None
        for timestamp, value in split:
            yield timestamp, value, -(2**63) if newest is None else newest - bound_ms - 1
            newest = timestamp if newest is None else max(newest, timestamp)
