"""A source over records in memory, for tests, examples and simulations.

The position in a split is the number of records already read.

The identity of a collection is a digest of its first records. The values behind them may change between two
runs, so that a job whose input was corrected goes on; those that come first tell two collections apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Final

from onceproof.engine.connectors.source import Source, SourceIdentity, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.owned import own_records
from onceproof.engine.types.row import Row

FIRST_RECORDS: Final = 10
"""How many records of each split tell a collection from another one."""
_LONGEST_TEXT: Final = 1000
_MOST_ITEMS: Final = 100
_DEEPEST: Final = 10
_DIGEST_DIGITS: Final = 12
_PLAIN: Final = (type(None), bool, int, float)


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
        # The collection must be as it was when it is read again.
        return own_records(records if type(records) is list else list(records))

    @property
    def position(self) -> int:
        """The number of records read."""
        return self._position

    @property
    def exhausted(self) -> bool:
        """Whether all records have been read."""
        return self._position >= self._end

    @property
    def pending_records(self) -> int:
        """The number of records that are left."""
        return self._end - self._position


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
        return cls({"0": own_records([(value, None) for value in values])})

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

    def identity(self) -> SourceIdentity:
        """Return the splits with a digest of their first records, and the number of all records."""
        digest = sha256()
        for split in sorted(self._splits):
            for part in (f"split {split!r}", *_texts(self._splits[split][:FIRST_RECORDS], 0)):
                digest.update(f"{len(part)}:{part}".encode("utf-8", "backslashreplace"))
        what = f"a collection whose first records have the digest {digest.hexdigest()[:_DIGEST_DIGITS]}"
        return SourceIdentity(what, f"{sum(map(len, self._splits.values()))} records")


def _texts(value: Any, depth: int) -> Iterator[str]:
    """Yield what a value consists of, the same in every process; of an unknown object only its class."""
    yield type(value).__qualname__
    if isinstance(value, _PLAIN):
        yield repr(value)
    elif isinstance(value, str | bytes):
        yield repr(value[:_LONGEST_TEXT])
    elif depth == _DEEPEST:
        return
    elif isinstance(value, Mapping):
        for key, item in islice(value.items(), _MOST_ITEMS):
            yield from _texts(key, depth + 1)
            yield from _texts(item, depth + 1)
    elif isinstance(value, Sequence | Row):
        for item in islice(value, _MOST_ITEMS):
            yield from _texts(item, depth + 1)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _texts(getattr(value, field.name), depth + 1)
