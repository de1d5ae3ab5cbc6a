"""Java's hash codes of Python values: what Flink derives a key's group from.

Python's ``hash()`` is salted per process and never used. Which keys are the same is decided in
``key_identity``. Groups are coarser, and stay as checkpoints of earlier versions have them: -0.0 is hashed as
0.0, and an untyped True or 1.0 as 1. Dates and times are hashed as Java does in UTC.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from types import NoneType
from typing import Any, Final

CACHED_HASHES = 1 << 16
"""Every task of every attempt hashes the same keys again: the cache saves most of that time."""
_MASK = 0xFFFFFFFF
_NATIVE_UTF16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_CANONICAL_DOUBLE_NAN = 0x7FF8000000000000
_CANONICAL_FLOAT_NAN = 0x7FC00000
_EPOCH: Final = datetime(1970, 1, 1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DAY_MS: Final = 86_400_000


class InvalidKey(TypeError):
    """A value that cannot be a key."""


def signed(value: int) -> int:
    """Read the lowest 32 bits as a signed integer, as Java does."""
    value &= _MASK
    return value - 0x100000000 if value & 0x80000000 else value


@lru_cache(maxsize=CACHED_HASHES)
def hash_string(value: str) -> int:
    """Compute ``String.hashCode``: the polynomial in 31 over UTF-16 units."""
    units: Sequence[int]
    if value.isascii():
        units = value.encode("ascii")
    else:
        units = memoryview(value.encode(_NATIVE_UTF16, "surrogatepass")).cast("H")
    code = 0
    if len(units) <= 16:
        for unit in units:
            code = code * 31 + unit
    else:
        for unit in units:
            code = (code * 31 + unit) & _MASK
    return signed(code)


def hash_strings(values: Sequence[str]) -> array[int]:
    """Compute ``String.hashCode`` of many strings, past the cache, which they would fill; without sign."""
    return unsigned(map(hash_string.__wrapped__, values))


def unsigned(codes: Iterable[int]) -> array[int]:
    """Return hash codes as integers of 32 bits without a sign."""
    return array("I", [code & _MASK for code in codes])


def hash_int(value: int) -> int:
    """Compute ``Integer.hashCode``: the value itself."""
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise InvalidKey(f"key {value} does not fit 32 bits: declare Types.LONG() as the key type")
    return int(value)


def hash_long(value: int) -> int:
    """Compute ``Long.hashCode``, and ``BigInteger.hashCode`` beyond 64 bits."""
    if -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        bits = value & 0xFFFFFFFFFFFFFFFF
        return signed(bits ^ (bits >> 32))
    return hash_big_integer(value)


def hash_longs(values: Sequence[int]) -> array[int]:
    """Compute ``Long.hashCode`` of many integers, without a sign."""
    try:
        # The usual keys: an integer of 32 bits without a sign is its own code.
        return array("I", values)
    except OverflowError:
        if min(values) >= -0x8000000000000000 and max(values) <= 0x7FFFFFFFFFFFFFFF:
            return unsigned([value ^ (value >> 32) for value in values])
        return unsigned(map(hash_long, values))


def hash_big_integer(value: int) -> int:
    """Compute ``BigInteger.hashCode``: the polynomial in 31 over 32-bit words of the magnitude, signed."""
    magnitude = abs(value)
    words = magnitude.to_bytes((magnitude.bit_length() + 31) // 32 * 4, "big")
    code = 0
    for (word,) in struct.iter_unpack(">I", words):
        code = (code * 31 + word) & _MASK
    return signed(-code if value < 0 else code)


def hash_bool(value: bool) -> int:
    """Compute ``Boolean.hashCode``."""
    return 1231 if value else 1237


def hash_double(value: float) -> int:
    """Compute ``Double.hashCode``."""
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0] if value == value else _CANONICAL_DOUBLE_NAN
    return signed(bits ^ (bits >> 32))


def hash_float(value: float) -> int:
    """Compute ``Float.hashCode``."""
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0] if value == value else _CANONICAL_FLOAT_NAN
    return signed(bits)


def hash_bytes(value: bytes) -> int:
    """Compute ``Arrays.hashCode(byte[])``."""
    code = 1
    for byte in value:
        code = (code * 31 + (byte - 256 if byte > 127 else byte)) & _MASK
    return signed(code)


def hash_fields(values: Sequence[Any], hashers: Sequence[Callable[[Any], int]]) -> int:
    """Compute ``TupleN.hashCode``: the polynomial in 31 over the fields' hash codes."""
    code = 0
    for value, hasher in zip(values, hashers, strict=True):
        code = code * 31 + (0 if value is None else hasher(value))
    return signed(code)


def _hash_tuple(value: Sequence[Any]) -> int:
    code = 0
    for field in value:
        code = code * 31 + (0 if field is None else hash_dynamic(field))
    return signed(code)


def _hash_number(value: float) -> int:
    """Hash an untyped float so that it shares its group with the integer it equals."""
    return hash_long(int(value)) if value.is_integer() else hash_double(value)


def hash_date(value: date) -> int:
    """Compute ``java.sql.Date.hashCode``, at midnight in UTC."""
    return hash_long((value.toordinal() - _EPOCH.toordinal()) * _DAY_MS)


def hash_time(value: time) -> int:
    """Compute ``java.sql.Time.hashCode``, which is exact to the millisecond."""
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return hash_long(seconds * 1000 + value.microsecond // 1000)


def hash_timestamp(value: datetime) -> int:
    """Compute ``java.sql.Timestamp.hashCode``, which is exact to the millisecond."""
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return hash_long((value - _EPOCH) // _MILLISECOND)


def hash_decimal(value: Decimal) -> int:
    """Compute ``BigDecimal.hashCode``; a Decimal that is no number, which Java lacks, is hashed as text."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return hash_string(str(value))
    unscaled = int("".join(map(str, digits)) or "0")
    return signed(31 * hash_big_integer(-unscaled if sign else unscaled) - exponent)


def _hash_none(value: None) -> int:
    return 0


_BY_PYTHON_TYPE: dict[type, Callable[[Any], int]] = {
    str: hash_string,
    int: hash_long,
    bool: hash_int,
    float: _hash_number,
    bytes: hash_bytes,
    tuple: _hash_tuple,
    date: hash_date,
    time: hash_time,
    datetime: hash_timestamp,
    Decimal: hash_decimal,
    NoneType: _hash_none,
}

_BY_KIND: dict[str, Callable[[Any], int]] = {
    "string": hash_string,
    "char": hash_string,
    "byte": hash_int,
    "short": hash_int,
    "int": hash_int,
    "long": hash_long,
    "bigint": hash_big_integer,
    "bool": hash_bool,
    "float": hash_float,
    "double": hash_double,
    "bytes": hash_bytes,
    "tuple": _hash_tuple,
    "date": hash_date,
    "time": hash_time,
    "timestamp": hash_timestamp,
    "decimal": hash_decimal,
}


def hash_row(values: Sequence[Any]) -> int:
    """Compute ``Row.hashCode`` of fields without declared types: their hash as an array."""
    return signed((_hash_tuple(values) + 31 ** len(values)) * 961)


def hash_as(kind: type, hasher: Callable[[Any], int]) -> None:
    """Have keys of a class that this module does not know hashed by a function."""
    _BY_PYTHON_TYPE[kind] = hasher


def hash_dynamic(value: Any) -> int:
    """Hash a key of no declared type: an int is hashed as a Java Long, a float that is not whole as a Double.

    Raises InvalidKey for a value of a class that has no hash code.
    """
    hasher = _BY_PYTHON_TYPE.get(type(value))
    if hasher is None:
        raise InvalidKey(f"{value!r} of type {type(value).__qualname__} has no hash code")
    return hasher(value)


def java_hash(value: Any, kind: str | None = None) -> int:
    """Compute Java's ``hashCode`` of the value as ``kind``; None chooses by the Python type."""
    if kind is None:
        return hash_dynamic(value)
    hasher = _BY_KIND.get(kind)
    if hasher is None:
        raise ValueError(f"unknown kind of hash {kind!r}: known are {', '.join(_BY_KIND)}")
    return hasher(value)
