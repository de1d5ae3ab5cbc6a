"""The order in which Flink's sorter leaves records of equal key and time, for a few records.

Flink promises none: its quick sort is not stable. With fewer than SHORT records it is, and comparisons with a
recorded job agree by themselves. Up to MOST_RECORDS this module takes the same steps, so that larger ones
agree, too; beyond that the order is that of arrival.

Flink compares the bytes of a key as its serializer writes them, each with its sign. Here keys have their own
encoding, so ``java_order`` works out how these bytes compare.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

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
