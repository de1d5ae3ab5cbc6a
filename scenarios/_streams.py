"""Families with two streams: one source for each, over the splits whose names begin with the stream's.

All splits of a scenario are one input. A split called ``orders-0`` belongs to the stream ``orders``, and only
the source of that stream reads it. So a record stays in its stream, and the oracles see by the split which
stream a record belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onceproof.engine.connectors.source import Source, SourceIdentity, SplitReader

if TYPE_CHECKING:
    from onceproof.harness.model.family import Records
    from onceproof.harness.model.scenario import InputRecord


class StreamSource(Source):
    """Reads those splits of another source that belong to one stream."""

    def __init__(self, source: Source, stream: str) -> None:
        self._source = source
        self._stream = stream

    def splits(self) -> Sequence[str]:
        return [split for split in self._source.splits() if belongs_to(split, self._stream)]

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        return self._source.open_split(split, position)

    def identity(self) -> SourceIdentity:
        what, extent = self._source.identity()
        return SourceIdentity(f"the stream {self._stream} of {what}", extent)


def belongs_to(split: str, stream: str) -> bool:
    return split.startswith(f"{stream}-")


def part_of(records: Records, stream: str) -> Mapping[str, Sequence[InputRecord]]:
    """Return the splits of one stream."""
    return {split: own for split, own in records.items() if belongs_to(split, stream)}
