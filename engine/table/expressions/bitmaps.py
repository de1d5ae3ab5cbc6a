"""Functions of BITMAP, a set of INTs: a tuple of them, ascending as unsigned numbers (Flink: RoaringBitmap).

The form of BITMAP_TO_BYTES is that of Roaring's specification. Containers of runs are read, but not written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, Final

from onceproof.engine.table.expressions.registry import FunctionFailed, Scope, strict
from onceproof.engine.table.expressions.rex import Call
from onceproof.engine.table.values import wrap

Bitmap = tuple[int, ...]
_NO_RUNS: Final = 12346
_RUNS: Final = 12347
_LARGEST_ARRAY: Final = 4096


def bitmap_of(values: Iterable[int | None]) -> Bitmap:
    """Return the set of values that are not NULL."""
    return tuple(sorted({value for value in values if value is not None}, key=_unsigned))


def _unsigned(value: int) -> int:
    return value & 0xFFFF_FFFF


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "$BITMAP_BUILD$1": bitmap_of,
    "$BITMAP_CARDINALITY$1": len,
    "$BITMAP_AND$1": lambda first, second: bitmap_of(set(first) & set(second)),
    "$BITMAP_ANDNOT$1": lambda first, second: bitmap_of(set(first) - set(second)),
    "$BITMAP_OR$1": lambda first, second: bitmap_of({*first, *second}),
    "$BITMAP_XOR$1": lambda first, second: bitmap_of(set(first) ^ set(second)),
    "$BITMAP_TO_ARRAY$1": tuple,
    "$BITMAP_TO_STRING$1": lambda bitmap: f"{{{','.join([str(_unsigned(value)) for value in bitmap])}}}",
    "$BITMAP_TO_BYTES$1": lambda bitmap: to_bytes(bitmap),
    "$BITMAP_FROM_BYTES$1": lambda data: from_bytes(data),
}


@strict(*_FUNCTIONS)
def _function(call: Call, scope: Scope) -> Callable[..., Any]:
    return _FUNCTIONS[call.name]


def to_bytes(bitmap: Bitmap) -> bytes:
    """Return the serialized form of a bitmap."""
    containers = [
        (high, [_unsigned(value) & 0xFFFF for value in values])
        for high, values in groupby(bitmap, lambda value: _unsigned(value) >> 16)
    ]
    head = struct.pack("<II", _NO_RUNS, len(containers))
    keys = b"".join([struct.pack("<HH", high, len(lows) - 1) for high, lows in containers])
    bodies = [_body(lows) for _, lows in containers]
    offset = len(head) + len(keys) + 4 * len(containers)
    offsets = []
    for body in bodies:
        offsets.append(struct.pack("<I", offset))
        offset += len(body)
    return head + keys + b"".join(offsets) + b"".join(bodies)


def _body(lows: list[int]) -> bytes:
    if len(lows) <= _LARGEST_ARRAY:
        return struct.pack(f"<{len(lows)}H", *lows)
    bits = sum([1 << low for low in lows])
    return bits.to_bytes(8192, "little")


def from_bytes(data: bytes) -> Bitmap:
    """Read a serialized bitmap. Raises FunctionFailed."""
    try:
        return tuple(_read(data))
    except (struct.error, IndexError, ValueError) as error:
        raise FunctionFailed(f"Failed to deserialize bitmap from bytes: {error}") from None


def _read(data: bytes) -> Iterable[int]:
    (cookie,) = struct.unpack_from("<I", data)
    at = 4
    runs = 0
    if cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        size = (count + 7) // 8
        runs = int.from_bytes(data[at : at + size], "little")
        at += size
    elif cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
    else:
        raise ValueError("unknown cookie")
    keys = [struct.unpack_from("<HH", data, at + 4 * index) for index in range(count)]
    at += 4 * count
    if not runs or count >= 4:
        at += 4 * count
    for index, (high, last) in enumerate(keys):
        if runs >> index & 1:
            (pairs,) = struct.unpack_from("<H", data, at)
            spans = struct.unpack_from(f"<{2 * pairs}H", data, at + 2)
            at += 2 + 4 * pairs
            lows = [
                low
                for start, more in zip(spans[::2], spans[1::2], strict=True)
                for low in range(start, start + more + 1)
            ]
        elif last < _LARGEST_ARRAY:
            lows = list(struct.unpack_from(f"<{last + 1}H", data, at))
            at += 2 * (last + 1)
        else:
            bits = int.from_bytes(data[at : at + 8192], "little")
            lows = [low for low in range(65536) if bits >> low & 1]
            at += 8192
        yield from [wrap(high << 16 | low, 32) for low in lows]
