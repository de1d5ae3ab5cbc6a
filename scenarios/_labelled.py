"""A source that adds to each value a label: the name of the split that it comes from.

Where the order of a key's records decides the result, all of them must come from one split, since two splits
race each other. A family makes the label a part of the key. The value in the scenario does not hold it, so a
record that the shrinker moves to another split gets another key there, and the order stays fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from onceproof.engine.connectors.source import ForwardingReader, Source, SourceIdentity, SplitReader

if TYPE_CHECKING:
    from onceproof.engine.elements import Record

Placing: TypeAlias = Callable[[str, Any], tuple[Any, ...]]
"""Returns a value with its label: called with (label, value)."""


def label_of(split: str) -> str:
    """Return the label of a split: its name; of a file its name without folder and ending."""
    return split.rpartition("/")[2].partition(".")[0]


def label_first(label: str, value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the value with the label as its first column."""
    return label, *value


class LabelledSource(Source):
    """Reads another source and adds to each value the label of its split."""

    def __init__(self, source: Source, placing: Placing = label_first) -> None:
        self._source = source
        self._placing = placing

    def splits(self) -> Sequence[str]:
        return self._source.splits()

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        return _LabellingReader(self._source.open_split(split, position), label_of(split), self._placing)

    def identity(self) -> SourceIdentity:
        return self._source.identity()


class _LabellingReader(ForwardingReader):
    def __init__(self, reader: SplitReader, label: str, placing: Placing) -> None:
        super().__init__(reader)
        self._label = label
        self._placing = placing

    def read(self, limit: int) -> list[Record]:
        label, placing = self._label, self._placing
        return [(placing(label, value), timestamp) for value, timestamp in self._reader.read(limit)]
