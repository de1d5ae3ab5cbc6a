"""A source over records in memory, for tests, examples and simulations.

The position in a split is the number of records already read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onceproof.engine.connectors.source import Source, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.errors import UnrecoverableError


class WrongCollection(UnrecoverableError, ValueError):
    """A checkpoint lists a split or position that the collection does not have. The message is one line."""


class CollectionReader(SplitReader):
    """Reads one list of records."""

    __slots__ = ("_end", "_position", "_records")

    def __init__(self, records: Sequence[Record], position: int) -> None:
        self._records = records
        self._position = position
        self._end = len(records)

    def read(self, limit: int) -> list[Record]:
        begin = self._position
        records = self._records[begin : begin + limit]
        self._position = begin + len(records)
        return records if type(records) is list else list(records)

    @property
    def position(self) -> int:
        """The number of records read."""
        return self._position

    @property
    def exhausted(self) -> bool:
        """Whether all records have been read."""
        return self._position >= self._end


class CollectionSource(Source):
    """A source over splits in memory (PyFlink: ``from_collection``).

    Args:
        splits: split id -> records, each ``(value, timestamp in milliseconds or None)``.
    """

    def __init__(self, splits: Mapping[str, Sequence[Record]]) -> None:
        self._splits = splits

    @classmethod
    def of_values(cls, values: Sequence[Any]) -> CollectionSource:
        """Return a source with one split, named ``0``, of values without timestamps."""
        return cls({"0": [(value, None) for value in values]})

    def splits(self) -> Sequence[str]:
        """Return the ids of the splits."""
        return list(self._splits)

    def open_split(self, split: str, position: Any | None) -> CollectionReader:
        """Return a reader of a split.

        Args:
            split: the id of the split.
            position: the number of records to skip; None: 0.

        Raises:
            WrongCollection: the collection has no such split or position.
        """
        records = self._splits.get(split)
        if records is None:
            raise WrongCollection(
                f"split {split!r} is not in the collection source:"
                " restore with the same splits that the checkpoint was taken with"
            )
        begin = 0 if position is None else position
        if type(begin) is not int or not 0 <= begin <= len(records):
            raise WrongCollection(
                f"position {begin!r} of split {split!r} does not fit its {len(records)} records:"
                " restore with the same records that the checkpoint was taken with"
            )
        return CollectionReader(records, begin)
