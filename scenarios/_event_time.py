"""Event time as the families use it: a watermark behind each record, and which records may come too late.

Watermarks that follow each record make progress in runs of a few hundred steps, where periodic ones would
come once or twice. How far a run has come is its own choice (it depends on which channel was slow, and a
restored job begins from no watermark at all), but never more than what follows here from the records.
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
    """Gives a watermark behind each record that is newer than all before, ``bound_ms`` behind it."""

    def __init__(self, bound_ms: int, context: WatermarkGeneratorContext) -> None:
        self._bound_ms = bound_ms
        self._newest: int | None = None

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """One record has gone by."""
        if self._newest is None or event_timestamp > self._newest:
            self._newest = event_timestamp
            output.emit_watermark(Watermark(event_timestamp - self._bound_ms - 1))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Everything has been given."""


def watermarks(bound_ms: int) -> WatermarkStrategy:
    """Return the strategy: timestamps are the records' own, up to ``bound_ms`` out of order."""
    return WatermarkStrategy.for_generator(partial(EachRecordWatermarks, bound_ms))


def with_progress(records: Records, bound_ms: int) -> Iterator[tuple[int, RecordValue, int]]:
    """Yield each record with the furthest watermark that can have been ahead of it.

    No watermark of a run is ahead of that of any split, and that of a record's own split follows from the
    records before it.
    """
    for split in records.values():
        newest: int | None = None
        for timestamp, value in split:
            yield timestamp, value, -(2**63) if newest is None else newest - bound_ms - 1
            newest = timestamp if newest is None else max(newest, timestamp)
