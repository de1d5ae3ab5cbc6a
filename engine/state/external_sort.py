"""Sorts more records than memory holds (Flink: ExternalSorter).

Flink promises no order of records of equal key and time: its quick sort is not stable. With fewer than SHORT
records it is, and comparisons with a recorded job agree by themselves. Up to MOST_RECORDS this module takes
the same steps, so that larger ones agree, too; beyond that the order is that of arrival.

Flink compares the bytes of a key as its serializer writes them, each with its sign. Here keys have their own
encoding, so ``java_order`` works out how these bytes compare.

Rules:

- The order is that of the encoded key, then of the timestamp, then of arrival. A record without a timestamp
  comes before all others of its key.
- What is beyond the allowed memory is sorted and written to a file as a run. At the end all runs are merged.
  A merge reads MOST_RUNS at once at most; where there are more, they become one longer run first.
- The file has no name: it is gone when this process closes it or dies. Nothing but this object reads it.
- Values are written as records in flight are: self-describing, with a checksum. Once there is a value without
  such a form, all further records stay in memory, unless the job allows pickled state.
- How much memory a record takes is estimated by one record of each buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from io import SEEK_END
from itertools import islice
from operator import itemgetter
from sys import getsizeof
from tempfile import TemporaryFile
from typing import IO, Any, Final, TypeAlias

from msgspec import Struct

from onceproof.engine.elements import MIN_WATERMARK, Record
from onceproof.engine.state.file_envelope import StateError
from onceproof.engine.state.in_flight import (
    INPUT,
    ChannelId,
    ChannelIndex,
    decode_channels,
    encode_channels,
)
from onceproof.engine.types.row import Row

SHORT: Final = 13
"""Shorter ranges are sorted by insertion (Flink: QuickSort)."""
MOST_RECORDS: Final = 1000

Rank: TypeAlias = tuple[bytes, int]
"""The key as ``java_order`` gives it, and the timestamp."""

_SIGNED: Final = bytes(byte ^ 0x80 for byte in range(256))
"""Signed bytes compare as these unsigned ones do."""


def java_order(key: Any) -> bytes:
    """Return bytes that compare as those of Flink's serializer for the key."""
    return _serialized(key).translate(_SIGNED)


def _serialized(key: Any) -> bytes:
    match key:
        case bool():
            return struct.pack(">?", key)
        case int() if -(1 << 63) <= key < 1 << 63:
            return struct.pack(">q", key)
        case float():
            return struct.pack(">d", key)
        case str():
            return _varied(len(key) + 1) + b"".join([_varied(ord(each)) for each in key])
        case Row():
            return b"".join(map(_serialized, key))
        case tuple():
            return b"".join(map(_serialized, key))
    return repr(key).encode()


def _varied(number: int) -> bytes:
    """Return a number with seven bits a byte, the lowest first."""
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def sorted_places(ranks: Sequence[Rank]) -> list[int]:
    """Return the places of the ranks in the order in which Flink's quick sort leaves them."""
    places = list(range(len(ranks)))
    levels = max(0, len(ranks) - 1).bit_length() << 2
    waiting = [(0, len(ranks), levels)]
    while waiting:
        begin, end, levels = waiting.pop()
        while end - begin >= SHORT and levels:
            levels -= 1
            low, high = _divide(ranks, places, begin, end)
            # The two parts do not touch each other, so their order is free.
            waiting.append((high, end, levels))
            end = low
        # A stable sort does what insertion does. So few records never use up the levels.
        places[begin:end] = sorted(places[begin:end], key=ranks.__getitem__)
    return places


def _divide(ranks: Sequence[Rank], places: list[int], begin: int, end: int) -> tuple[int, int]:
    """Put what equals the pivot between what is less and what is greater; return where it begins and ends."""

    def swap(one: int, other: int) -> None:
        places[one], places[other] = places[other], places[one]

    middle = (begin + end) >> 1
    for one, other in ((middle, begin), (middle, end - 1), (begin, end - 1)):
        if ranks[places[one]] > ranks[places[other]]:
            swap(one, other)
    pivot = ranks[places[begin]]
    left, right = begin, end
    # Ranks that equal the pivot are gathered at both ends first.
    equal_left, equal_right = begin, end
    while True:
        left += 1
        while left < right and ranks[places[left]] <= pivot:
            if ranks[places[left]] == pivot:
                equal_left += 1
                swap(equal_left, left)
            left += 1
        right -= 1
        while right > left and ranks[places[right]] >= pivot:
            if ranks[places[right]] == pivot:
                equal_right -= 1
                swap(equal_right, right)
            right -= 1
        if left >= right:
            break
        swap(left, right)
    low = high = left
    for place in range(equal_left, begin - 1, -1):
        low -= 1
        swap(place, low)
    for place in range(equal_right, end):
        swap(place, high)
        high += 1
    return low, high


Sortable: TypeAlias = tuple[bytes, int, Record]
"""The encoded key, the timestamp to sort by, and the record."""

BLOCK_RECORDS: Final = 500
"""How many records of a run are in memory at a time while it is merged."""
MOST_RUNS: Final = 64
_ENTRY_BYTES: Final = 200
"""What a record takes beside its key and value."""
_DEEPEST: Final = 3
"""How deep the parts of a value are looked at to estimate its size."""
_BY_KEY_AND_TIME: Final = itemgetter(0, 1)
_RUN: Final = ChannelId(INPUT, "", "", 0, 0, 0)


class _Block(Struct, frozen=True):
    """Where a block of a run is in the file."""

    offset: int
    index: ChannelIndex


class ExternalSort:
    """Takes records with their keys, and then returns them in order, once."""

    def __init__(
        self, memory_bytes: int, key_of: Callable[[bytes], Any] | None = None, *, allow_pickle: bool = False
    ) -> None:
        """Begin without records.

        Args:
            memory_bytes: how much memory the records may take, about.
            key_of: decodes a key; None: the keys are numbers of ours, all of them different.
            allow_pickle: whether values may be written that have no self-describing form.
        """
        self._file: IO[bytes] | None = None
        self._key_of = key_of
        self._memory_bytes = memory_bytes
        self._allow_pickle = allow_pickle
        self._held: list[Sortable] = []
        self._held_bytes = 0
        self._spills = True
        self._runs: list[list[_Block]] = []
        """The runs in the file, in the order of arrival."""
        self.spilled_records = 0
        """How many records have been written to a file, each as often as it was."""

    def add(self, entries: Sequence[tuple[bytes, Record]]) -> None:
        """Take the records of a buffer with their encoded keys, in the order of arrival."""
        append = self._held.append
        for key, record in entries:
            timestamp = record[1]
            append((key, MIN_WATERMARK if timestamp is None else timestamp, record))
        key, record = entries[0]
        self._held_bytes += len(entries) * (_ENTRY_BYTES + len(key) + _size_of(record[0], _DEEPEST))
        if self._held_bytes > self._memory_bytes and self._spills:
            self._spill()

    def in_order(self) -> Iterator[Sortable]:
        """Return all records in order; nothing can be added any more."""
        held, self._held = self._held, []
        if not self._runs:
            held = self._as_flink(held)
        held.sort(key=_BY_KEY_AND_TIME)
        return self._merged(held) if self._runs else iter(held)

    def _as_flink(self, arrived: list[Sortable]) -> list[Sortable]:
        """Return few records in the order in which Flink's sorter leaves those of equal key and time.

        Those of recorded jobs without timestamps come in the order of arrival.
        """
        decode = self._key_of
        if decode is None or not SHORT <= len(arrived) <= MOST_RECORDS:
            return arrived
        if all(timestamp == MIN_WATERMARK for _, timestamp, _ in arrived):
            return arrived
        ranks = [(java_order(decode(key)), timestamp) for key, timestamp, _ in arrived]
        return [arrived[place] for place in sorted_places(ranks)]

    def close(self) -> None:
        """Forget all records, and remove the file."""
        self._held, self._runs = [], []
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __del__(self) -> None:
        # A task that is killed closes nothing.
        self.close()

    def _spill(self) -> None:
        """Write what is held as a run, or hold everything from now on if that cannot be."""
        if len(self._runs) >= MOST_RUNS:
            self._join_runs()
        self._held.sort(key=_BY_KEY_AND_TIME)
        file = self._file = self._file or _new_file()
        begin = file.seek(0, SEEK_END)
        try:
            self._runs.append(self._write(self._held, file))
        except StateError:
            file.truncate(begin)
            self._spills = False
            return
        self._held, self._held_bytes = [], 0

    def _join_runs(self) -> None:
        old, new = self._file, _new_file()
        self._runs = [self._write(self._merged(()), new)]
        self._file = new
        if old is not None:
            old.close()

    def _merged(self, held: Iterable[Sortable]) -> Iterator[Sortable]:
        # Equal ones come from the earlier run first.
        return merge(*map(self._read, self._runs), held, key=_BY_KEY_AND_TIME)

    def _write(self, entries: Iterable[Sortable], file: IO[bytes]) -> list[_Block]:
        blocks: list[_Block] = []
        rest = iter(entries)
        while block := list(islice(rest, BLOCK_RECORDS)):
            buffer = [((key, value), timestamp) for key, _, (value, timestamp) in block]
            data, index = encode_channels({_RUN: [buffer]}, allow_pickle=self._allow_pickle)
            blocks.append(_Block(file.tell(), index))
            file.write(data)
            self.spilled_records += len(block)
        return blocks

    def _read(self, run: Sequence[_Block]) -> Iterator[Sortable]:
        file = self._file
        assert file is not None
        for block in run:
            file.seek(block.offset)
            data = file.read(block.index.length)
            records = decode_channels(data, block.index, "a sorted run", allow_pickle=self._allow_pickle)
            for (key, value), timestamp in records[_RUN]:
                yield key, MIN_WATERMARK if timestamp is None else timestamp, (value, timestamp)


def _new_file() -> IO[bytes]:
    return TemporaryFile(prefix="onceproof-sort-")


def _size_of(value: Any, depth: int) -> int:
    """Return about how many bytes a value takes, the parts of collections included."""
    size = getsizeof(value)
    if depth:
        if isinstance(value, dict):
            for key, part in value.items():
                size += _size_of(key, depth - 1) + _size_of(part, depth - 1)
        elif isinstance(value, list | tuple | set | frozenset):
            size += sum([_size_of(part, depth - 1) for part in value])
        elif hasattr(value, "__dict__"):
            size += _size_of(vars(value), depth - 1)
    return size
