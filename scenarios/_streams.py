"""Families with two streams: a source for each, over splits that are named for it.

The splits of a scenario are one input, whatever reads them. A split called ``orders-0`` belongs to the stream
``orders``, and the source of that stream reads it and no other. So a record stays in its stream, in which its
value means something, and the oracles see by the split what a record is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onceproof.engine.connectors.source import Source, SplitReader

if TYPE_CHECKING:
    from onceproof.harness.model.family import Records
    from onceproof.harness.model.scenario import InputRecord


class StreamSource(Source):
    """Those splits of another source that belong to a stream."""

    def __init__(self, source: Source, stream: str) -> None:
        self._source = source
        self._stream = stream

    def splits(self) -> Sequence[str]:
        """Those that are named for the stream."""
        return [split for split in self._source.splits() if belongs_to(split, self._stream)]

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        """The reader of the source within."""
        return self._source.open_split(split, position)


def belongs_to(split: str, stream: str) -> bool:
    """Return whether a split is one of a stream's."""
    return split.startswith(f"{stream}-")


def part_of(records: Records, stream: str) -> Mapping[str, Sequence[InputRecord]]:
    """Return the splits of one stream."""
    return {split: own for split, own in records.items() if belongs_to(split, stream)}
