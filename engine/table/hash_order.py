"""The order in which Flink walks through the keys of a bundle: that of Java's HashMap over binary rows.

It decides what is seen: a bundle of the global phase may end in the middle of what a local phase sends, and
an aggregate above another one gets the keys in this order. A key is laid out as Flink's BinaryRowData (eight
bytes for the NULL bits of up to 56 columns, eight for each column, then what does not fit in there), and its
hash is that of MurmurHashUtil over these words.

A multiset is such a map too: its order shows where it is cast to a text or taken apart by UNNEST.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

from onceproof.engine.java_hashes import hash_bool, hash_decimal, hash_double, hash_float, hash_long
from onceproof.engine.table.types import BINARIES, TEXTS, TIMESTAMPS, LogicalType
from onceproof.engine.table.values import NANOS_PER_MS, Row

HashRow: TypeAlias = Callable[[Row], int]
_Layout: TypeAlias = "Callable[[Any, int], tuple[bytes, bytes]]"

_MASK: Final = 0xFFFFFFFF
_SEED: Final = 42
_FIRST_CAPACITY: Final = 16
_HEADER_BITS: Final = 8
_COMPACT_DECIMAL: Final = 18
_COMPACT_TIMESTAMP: Final = 3
_LONGEST_INLINE: Final = 7
_FIXED: Final = {
    "BOOLEAN": "<?7x",
    "TINYINT": "<b7x",
    "SMALLINT": "<h6x",
    "INT": "<i4x",
    "DATE": "<i4x",
    "TIME": "<i4x",
    "INTERVAL_MONTHS": "<i4x",
    "BIGINT": "<q",
    "INTERVAL_MS": "<q",
    "FLOAT": "<f4x",
    "DOUBLE": "<d",
}


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def murmur_words(data: bytes) -> int:
    """Return the hash of words of four bytes (Flink: MurmurHashUtil.hashBytesByWords), unsigned."""
    return _murmur(struct.unpack(f"<{len(data) // 4}I", data), len(data))


def murmur_bytes(data: bytes) -> int:
    """Return the hash of bytes (Flink: MurmurHashUtil.hashBytes); those behind the words are signed."""
    words, rest = len(data) // 4, len(data) % 4
    return _murmur(struct.unpack(f"<{words}I{rest}b", data), len(data))


def _murmur(words: Sequence[int], length: int) -> int:
    code = _SEED
    for word in words:
        mixed = _rotate(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
        code = (_rotate(code ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    code ^= length
    code = (code ^ code >> 16) * 0x85EBCA6B & _MASK
    code = (code ^ code >> 13) * 0xC2B2AE35 & _MASK
    return code ^ code >> 16


def row_hash(types: Sequence[LogicalType]) -> HashRow | None:
    """Return the function from a row to its hash; None: a type is none that keys have."""
    layouts = [_layout(kind) for kind in types]
    known = [each for each in layouts if each is not None]
    if len(known) < len(layouts):
        return None
    null_bytes = (len(types) + 63 + _HEADER_BITS) // 64 * 8
    begin = null_bytes + 8 * len(types)

    def hash_of(row: Row) -> int:
        nulls, fixed, variable = 0, b"", b""
        for place, (value, lay_out) in enumerate(zip(row, known, strict=True)):
            if value is None:
                nulls |= 1 << (place + _HEADER_BITS)
                fixed += bytes(8)
            else:
                word, more = lay_out(value, begin + len(variable))
                fixed += word
                variable += more
        return murmur_words(nulls.to_bytes(null_bytes, "little") + fixed + variable)

    return hash_of


def _layout(kind: LogicalType) -> _Layout | None:
    """Return the function from a value and the end of the row to its word and what is behind the row."""
    root = kind.root
    if root in _FIXED:
        pack = struct.Struct(_FIXED[root]).pack
        return lambda value, end: (pack(value), b"")
    if root in TEXTS:
        return lambda value, end: _bytes_layout(value.encode(), end)
    if root in BINARIES:
        return _bytes_layout
    if root in TIMESTAMPS:
        return _timestamp_layout if kind.precision > _COMPACT_TIMESTAMP else _milliseconds_layout
    if root == "DECIMAL":
        return _decimal_layout if kind.precision > _COMPACT_DECIMAL else _compact_decimal_layout
    return None


def _bytes_layout(value: bytes, end: int) -> tuple[bytes, bytes]:
    if len(value) <= _LONGEST_INLINE:
        return value.ljust(_LONGEST_INLINE, b"\0") + bytes([len(value) | 0x80]), b""
    return struct.pack("<II", len(value), end), value.ljust((len(value) + 7) // 8 * 8, b"\0")


def _milliseconds_layout(value: int, end: int) -> tuple[bytes, bytes]:
    return struct.pack("<q", value // NANOS_PER_MS), b""


def _timestamp_layout(value: int, end: int) -> tuple[bytes, bytes]:
    milliseconds, nanos = divmod(value, NANOS_PER_MS)
    return struct.pack("<II", nanos, end), struct.pack("<q", milliseconds)


def _unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)) or "0")
    return -number if sign else number


def _compact_decimal_layout(value: Decimal, end: int) -> tuple[bytes, bytes]:
    return struct.pack("<q", _unscaled(value)), b""


def _decimal_layout(value: Decimal, end: int) -> tuple[bytes, bytes]:
    number = _unscaled(value)
    length = (number + (number < 0)).bit_length() // 8 + 1
    data = number.to_bytes(length, "big", signed=True)
    return struct.pack("<II", length, end), data.ljust(16, b"\0")


class HashOrder:
    """Orders the keys of one map that is cleared and filled again: its capacity never shrinks.

    Args: types: those of the columns of the keys.
    """

    def __init__(self, types: Sequence[LogicalType]) -> None:
        self._hash = row_hash(types)
        self._capacity = _FIRST_CAPACITY

    def sorted(self, keys: Iterable[Row]) -> list[int]:
        """Return the places of the keys, which came in this order, in the order of the map."""
        keys = list(keys)
        while len(keys) * 4 > self._capacity * 3:
            self._capacity *= 2
        places = range(len(keys))
        if self._hash is None:
            return list(places)
        codes = [self._hash(key) for key in keys]
        return sorted(places, key=lambda place: (codes[place] ^ codes[place] >> 16) & self._capacity - 1)


_VALUE_HASHES: Final[dict[str, Callable[[Any], int]]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "DATE", "TIME"), int),
    **dict.fromkeys(TEXTS, lambda text: murmur_bytes(text.encode())),
    "BIGINT": hash_long,
    "FLOAT": hash_float,
    "DOUBLE": hash_double,
    "BOOLEAN": hash_bool,
    "DECIMAL": hash_decimal,
}
"""Java's hash codes of values in Flink's internal form; binary strings have their own."""


def in_hash_map(kind: LogicalType, values: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return entries whose keys have a type in the order of a HashMap; other types keep their order."""
    entries = list(values)
    hash_of = _VALUE_HASHES.get(kind.root)
    if hash_of is None:
        return entries
    capacity = _FIRST_CAPACITY
    while len(entries) * 4 > capacity * 3:
        capacity *= 2

    def place(entry: tuple[Any, Any]) -> int:
        code = hash_of(entry[0]) & _MASK
        return (code ^ code >> 16) & capacity - 1

    return sorted(entries, key=place)
