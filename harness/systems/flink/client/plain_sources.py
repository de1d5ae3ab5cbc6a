"""The engine's interface of sources, for families that read one source through another.

A source of a family is read to its end before the job starts: its splits are finite and give the same records
each time. Flink then reads those records.
"""

from typing import Any, NamedTuple

__all__ = ["ForwardingReader", "Record", "Source", "SourceIdentity", "SplitReader"]

Record = tuple


class SourceIdentity(NamedTuple):
    """What a source reads."""

    what: str
    extent: Any = None


class SplitReader:
    """Reads one split."""

    retry_ms = 0

    def when_available(self, wake_up):
        """Do nothing: all records are there."""

    def checkpoint_complete(self, position):
        """Do nothing: nothing is stored."""

    def close(self):
        """Do nothing."""


class ForwardingReader(SplitReader):
    """Reads a split through another reader."""

    def __init__(self, reader):
        self._reader = reader

    def read(self, limit):
        return self._reader.read(limit)

    @property
    def position(self):
        return self._reader.position

    @property
    def exhausted(self):
        return self._reader.exhausted

    def close(self):
        self._reader.close()


class Source:
    """Has splits, each of which can be read."""

    is_bounded = True


class RecordsOfScenario(Source):
    """The splits of a scenario; a record is a value with its timestamp."""

    def __init__(self, splits):
        self._splits = splits

    def splits(self):
        return list(self._splits)

    def open_split(self, split, position):
        return _Records(self._splits[split])

    def identity(self):
        return SourceIdentity("the records of a scenario")


class _Records(SplitReader):
    def __init__(self, records):
        self._records = records
        self.position = 0

    def read(self, limit):
        first = self.position
        self.position = min(first + limit, len(self._records))
        return self._records[first : self.position]

    @property
    def exhausted(self):
        return self.position >= len(self._records)


def read_all(source):
    """Return the records of all splits of a source, by split."""
    records = {}
    for split in source.splits():
        reader = source.open_split(split, None)
        records[split] = read = []
        while not reader.exhausted:
            read += reader.read(1000)
        reader.close()
    return records
