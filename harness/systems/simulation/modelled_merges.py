"""Which files of a modelled database are merged, and into what (RocksDB: universal compaction).

Rules:

- Which files are merged follows from their lengths, as in RocksDB. Where few bytes decide, RocksDB may merge
  a file more or less: its files are not exactly as long, and it counts them longer for what they delete.
- A merge that has the oldest file keeps no deletions: there is nothing older that they delete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from onceproof.engine.state.rocksdb.databases import FILES_MERGED, FILES_TOLERATED
from onceproof.harness.systems.simulation.modelled_files import Content, Entries, Range, TableFile

SIZE_AMPLIFICATION: Final = 2
"""Everything is merged once the newer files are so many times as large as the oldest."""
LEFT_OF_NEWER: Final = 0.9
"""Then the newest are left out, as long as so much of the newer files remains."""
SIZE_RATIO: Final = 1.01
"""A file is merged with newer ones if it is no larger than they are together, times this."""


def files_to_merge(files: Sequence[TableFile]) -> slice | None:
    """Return which files to merge (RocksDB: UniversalCompactionBuilder); None: none.

    Args:
        files: from the oldest to the newest.
    """
    lengths, count = [len(file.data) for file in files], len(files)
    newer = sum(lengths[1:])
    if newer >= SIZE_AMPLIFICATION * lengths[0]:
        # The newest are left to the next merge where that changes little.
        least = max(SIZE_AMPLIFICATION * lengths[0], LEFT_OF_NEWER * newer)
        most = min(sum([file.content.is_flushed for file in files]) - 1, count - 2)
        left = 0
        while left < most and newer - lengths[-1 - left] >= least:
            newer -= lengths[-1 - left]
            left += 1
        return slice(0, count - left)
    fewer = count - FILES_TOLERATED + 1
    return _similar(lengths, count, SIZE_RATIO) or _similar(lengths, fewer, float("inf"))


def _similar(lengths: Sequence[int], most: int, ratio: float) -> slice | None:
    """Return the newest files, ``most`` of them or fewer, that are no larger than the newer ones together."""
    for end in range(len(lengths), 0, -1):
        first, total = end - 1, lengths[end - 1]
        while first > 0 and end - first < most and total * ratio >= lengths[first - 1]:
            first -= 1
            total += lengths[first]
        if end - first >= FILES_MERGED:
            return slice(first, end)
    return None


def merged(files: Sequence[TableFile], has_oldest: bool) -> tuple[Entries, list[Range]]:
    """Return what these files of a database hold together: entries and deleted ranges."""
    entries: Entries = {}
    ranges: list[Range] = []
    for file in files:
        apply(file.content, entries, keeps_deletions=True)
        ranges += file.content.ranges
    if has_oldest:
        entries, ranges = {key: value for key, value in entries.items() if value is not None}, []
    return dict(sorted(entries.items())), ranges


def apply(content: Content, entries: Any, *, keeps_deletions: bool = False) -> None:
    """Write what a file holds over what older ones do."""
    for begin, end in content.ranges:
        for key in [key for key in entries if begin <= key < end]:
            del entries[key]
    for key, value in content.entries.items():
        if value is not None or keeps_deletions:
            entries[key] = value
        else:
            entries.pop(key, None)
