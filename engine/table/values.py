"""Which Python values the types of SQL have, and the JSON form of these values.

| type | value |
| --- | --- |
| any | None is NULL |
| BOOLEAN | bool |
| TINYINT .. BIGINT | int, within the bits of the type |
| FLOAT, DOUBLE | float; a FLOAT is rounded to 32 bits |
| DECIMAL(p, s) | decimal.Decimal with exactly s digits of fraction |
| CHAR, VARCHAR | str |
| BINARY, VARBINARY | bytes |
| DATE | int, days since the epoch |
| TIME | int, milliseconds of the day |
| TIMESTAMP, TIMESTAMP_LTZ | int, nanoseconds since the epoch (UTC for LTZ, the local reading for the other) |
| INTERVAL of months, of time | int, months; int, milliseconds |
| ARRAY | tuple |
| MAP, MULTISET | tuple of pairs (key, value or count), each key once, in order of insertion |
| ROW, STRUCTURED | tuple |

Why nanoseconds: one int with one unit compares, hashes and subtracts in C, whatever the precision. From
1677 to 2262 it has 64 bits, which msgpack stores as they are; the other years from 0001 to 9999 take the
engine's form of big integers. Milliseconds, in which watermarks and timers are, are ``value //
NANOS_PER_MS``.

Everything is immutable and hashable, so a row is its own key in a state of maps and is never copied. Two
floats want care: NaN does not equal itself, and 0.0 equals -0.0. Keys of streams differ by the
engine (``engine/key_identity.py``); where rows are keys of a map, use ``identity``.

A change is a pair ``(kind, row)`` with the kinds of Flink's RowKind; the row is a tuple of values. So the row
itself, which state keeps, is never taken apart or copied when only its kind changes.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any, Final, TypeAlias

from onceproof.engine.key_identity import identity_of
from onceproof.engine.table.types import INTEGERS, LogicalType

Row: TypeAlias = tuple[Any, ...]
Change: TypeAlias = tuple[int, Row]

INSERT: Final = 0
UPDATE_BEFORE: Final = 1
UPDATE_AFTER: Final = 2
DELETE: Final = 3
KINDS: Final = ("+I", "-U", "+U", "-D")
"""The name of each kind."""
KIND_OF: Final = {name: kind for kind, name in enumerate(KINDS)}
ADDS: Final = (True, False, True, False)
"""Whether a change of each kind adds its row: +I and +U do, -U and -D retract."""

NANOS_PER_MS: Final = 1_000_000
NANOS_PER_SECOND: Final = 1_000_000_000
NANOS_PER_DAY: Final = 86_400 * NANOS_PER_SECOND
MS_PER_DAY: Final = 86_400_000
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAYS_PER_CYCLE: Final = 146_097

DECIMALS: Final = Context(prec=120, rounding=ROUND_HALF_UP)
"""For every operation on decimals: exact enough that only the result type rounds, half up as Flink."""

Codec: TypeAlias = Callable[[Any], Any]


def identity(row: Row) -> Any:
    """Return what stands for a row as a key of a map: NaN is one value, 0.0 and -0.0 are two."""
    return identity_of(row)


def to_scale(value: Decimal, scale: int) -> Decimal:
    """Return a decimal with so many digits of fraction, rounded half up."""
    return value.quantize(Decimal(1).scaleb(-scale), context=DECIMALS)


def to_decimal(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """Return a decimal in a type DECIMAL(precision, scale); NULL where it has too many digits."""
    if value.adjusted() > precision:
        return None
    scaled = to_scale(value, scale)
    if not scaled:
        return abs(scaled)
    return scaled if scaled.adjusted() < precision - scale else None


def to_float32(value: float) -> float:
    """Round to the nearest float of 32 bits."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def float32_text(value: float) -> str:
    """Return the shortest decimal that reads as a float of 32 bits."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if to_float32(float(text)) == value:
            return text
    return repr(value)


def wrap(value: int, bits: int) -> int:
    """Return an integer cut to so many bits, as Java cuts it."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


# ---- from JSON


def decoder(kind: LogicalType) -> Codec:
    """Return the function from the JSON form of a value to the value."""
    decode = _decoder(kind)
    return lambda value: None if value is None else decode(value)


def _decoder(kind: LogicalType) -> Codec:
    match kind.root:
        case "FLOAT":
            return lambda value: to_float32(float(value))
        case "DOUBLE":
            return float
        case "DECIMAL":
            return lambda value: to_scale(Decimal(value), kind.scale)
        case "BINARY" | "VARBINARY":
            return bytes.fromhex
        case "DATE":
            return _days_of
        case "TIME":
            return _time_of
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return timestamp_of
        case "ARRAY":
            element = decoder(kind.element)
            return lambda value: tuple(map(element, value))
        case "MAP" | "MULTISET":
            key = decoder(kind.arguments[0])
            item = decoder(kind.arguments[1]) if kind.root == "MAP" else int
            return lambda value: tuple([(key(name), item(each)) for name, each in value])
        case "ROW" | "STRUCTURED":
            return row_decoder(kind)
    return lambda value: value


def row_decoder(kind: LogicalType) -> Codec:
    """Return the function from a list of JSON forms to a row."""
    fields = [decoder(each) for each in kind.types]
    return lambda value: tuple([decode(each) for decode, each in zip(fields, value, strict=True)])


def _days_of(text: str) -> int:
    """Return the days of an ISO date; years that Python does not know repeat after 400 of them."""
    year, month, day = text.rsplit("-", 2)
    cycles, of_cycle = divmod(int(year), 400)
    ordinal = date(of_cycle + 400, int(month), int(day)).toordinal()
    return ordinal - _EPOCH + (cycles - 1) * _DAYS_PER_CYCLE


def _time_of(text: str) -> int:
    clock, _, fraction = text.partition(".")
    hours, minutes, *seconds = map(int, clock.split(":"))
    return ((hours * 60 + minutes) * 60 + sum(seconds)) * 1000 + int(fraction.ljust(3, "0")[:3] or 0)


def timestamp_of(text: str) -> int:
    """Return the nanoseconds of an ISO text, of UTC if it has no zone."""
    day, _, clock = text.removesuffix("Z").replace(" ", "T").partition("T")
    whole, _, fraction = clock.partition(".")
    nanos = int(fraction.ljust(9, "0")[:9] or 0)
    return _days_of(day) * NANOS_PER_DAY + _time_of(whole or "0:0") * NANOS_PER_MS + nanos


# ---- to JSON


def encoder(kind: LogicalType) -> Codec:
    """Return the function from a value to its JSON form."""
    encode = _encoder(kind)
    return lambda value: None if value is None else encode(value)


def _encoder(kind: LogicalType) -> Codec:
    match kind.root:
        case "FLOAT":
            return lambda value: _float_json(value, float32_text)
        case "DOUBLE":
            return lambda value: _float_json(value, repr)
        case "DECIMAL":
            return lambda value: f"{value:f}"
        case "BINARY" | "VARBINARY":
            return bytes.hex
        case "DATE":
            return date_text
        case "TIME":
            return partial(time_text, digits=kind.precision)
        case "TIMESTAMP":
            return partial(timestamp_text, digits=kind.precision)
        case "TIMESTAMP_LTZ":
            return lambda value: f"{timestamp_text(value, kind.precision)}Z"
        case "ARRAY":
            element = encoder(kind.element)
            return lambda value: list(map(element, value))
        case "MAP" | "MULTISET":
            key = encoder(kind.arguments[0])
            item = encoder(kind.arguments[1]) if kind.root == "MAP" else int
            return lambda value: sorted([[key(name), item(each)] for name, each in value], key=json.dumps)
        case "ROW" | "STRUCTURED":
            return row_encoder(kind)
    return lambda value: value


def row_encoder(kind: LogicalType) -> Codec:
    """Return the function from a row to a list of JSON forms."""
    fields = [encoder(each) for each in kind.types]
    return lambda value: [encode(each) for encode, each in zip(fields, value, strict=True)]


def _float_json(value: float, text: Callable[[float], str]) -> float | str:
    if value != value:
        return "NaN"
    if value in (math.inf, -math.inf):
        return "Infinity" if value > 0 else "-Infinity"
    return float(text(value))


def date_text(days: int) -> str:
    """Return yyyy-MM-dd."""
    return (date(1970, 1, 1) + timedelta(days)).isoformat()


def time_text(milliseconds: int, digits: int = 0) -> str:
    """Return HH:mm:ss with so many digits of fraction."""
    seconds, fraction = divmod(milliseconds, 1000)
    minutes, second = divmod(seconds, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    return f"{text}.{fraction:03d}"[: 9 + digits] if digits else text


def timestamp_text(nanos: int, digits: int, between: str = "T") -> str:
    """Return an ISO text with so many digits of fraction."""
    days, rest = divmod(nanos, NANOS_PER_DAY)
    seconds, fraction = divmod(rest, NANOS_PER_SECOND)
    text = f"{date_text(days)}{between}{time_text(seconds * 1000)}"
    return f"{text}.{f'{fraction:09d}'[:digits]}" if digits else text


def fits(value: int, kind: LogicalType) -> bool:
    """Return whether an integer is within the bits of a type of integers."""
    half = 1 << (INTEGERS[kind.root] - 1)
    return -half <= value < half
