"""The furthest watermark that a record may meet.

How far the watermark of a run is depends on when it was emitted, on which channel was slow, and on restores,
which begin without a watermark. It is never further than ``with_progress`` works out from the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.harness.model.family import Records
    from onceproof.harness.model.scenario import RecordValue


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
