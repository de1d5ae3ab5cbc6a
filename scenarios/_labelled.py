"""Splits as labels: a source that puts into each value from which split it comes.

Where the order of a key's records decides the result, all of them have to come from one split, since two
splits race each other. A family sees to that by making the split a part of the key. The value itself does not
hold it: so a record that a shrinker moves to another split has another key there, and its order is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from onceproof.engine.connectors.source import Source, SplitReader

if TYPE_CHECKING:
    from onceproof.engine.elements import Record

Placing: TypeAlias = Callable[[str, Any], tuple[Any, ...]]
"""Gives the value with its label in its place."""


def label_of(split: str) -> str:
    """Return the label of a split: its name, or that of its file without folder and ending."""
    return split.rpartition("/")[2].partition(".")[0]


def label_first(label: str, value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the value behind its label."""
    return label, *value


class LabelledSource(Source):
    """Gives the values of another source with the labels of their splits."""

    def __init__(self, source: Source, placing: Placing = label_first) -> None:
        self._source = source
        self._placing = placing

    def splits(self) -> Sequence[str]:
        """Those of the source within."""
        return self._source.splits()

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        """A reader that adds the label."""
        return _LabellingReader(self._source.open_split(split, position), label_of(split), self._placing)


class _LabellingReader(SplitReader):
    """Adds the label to each value as it is read."""

    __slots__ = ("_label", "_placing", "_reader")

    def __init__(self, reader: SplitReader, label: str, placing: Placing) -> None:
        self._reader = reader
        self._label = label
        self._placing = placing

    def read(self, limit: int) -> list[Record]:
        """The next records."""
        label, placing = self._label, self._placing
        return [(placing(label, value), timestamp) for value, timestamp in self._reader.read(limit)]

    @property
    def position(self) -> Any:
        """That of the reader within."""
        return self._reader.position

    @property
    def exhausted(self) -> bool:
        """Whether the reader within has given all."""
        return self._reader.exhausted

    def close(self) -> None:
        """Close the reader within."""
        self._reader.close()
