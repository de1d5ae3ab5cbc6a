"""The wire form of self-describing values, for streams and state without a declared type.

msgpack carries None, bool, int, float, str, bytes, list and dict with string keys as they are. Extensions
carry tuples (so that a tuple does not come back as a list), dicts with other keys, integers beyond 64 bits,
and what ``describe`` adds: rows, dates, times and decimals. Any other value is refused by name rather than
pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

Ext = msgspec.msgpack.Ext

_TUPLE = 1
_MAPPING = 2
_INTEGER = 3
ROW: Final = 4
"""The extension of rows, whose module describes them: it imports this one."""
DATE: Final = 5
TIME: Final = 6
TIMESTAMP: Final = 7
DECIMAL: Final = 8

_FIELDS_OF: Final[dict[type, tuple[int, Callable[[Any], list[Any]]]]] = {}
_MADE_OF: Final[dict[int, Callable[[list[Any]], Any]]] = {}

_ENCODER = msgspec.msgpack.Encoder()

SCALARS = frozenset((str, int, float, bool, bytes, type(None)))
_SMALLEST = -0x8000000000000000
_LARGEST = 0xFFFFFFFFFFFFFFFF


class NotDescribable(TypeError):
    """``value`` has no self-describing form."""

    def __init__(self, value: Any) -> None:
        self.value = value
        super().__init__(
            f"a value of type {type(value).__qualname__} has no typed form: "
            "declare Types.PICKLED_BYTE_ARRAY(), or keep tuples, rows, lists, dicts and plain values"
        )


def describe(
    kind: type, code: int, fields_of: Callable[[Any], list[Any]], made_of: Callable[[list[Any]], Any]
) -> None:
    """Give a class a self-describing form: an extension with a list of values that describe themselves.

    :param made_of: makes an object of the list; raises TypeError or ValueError where it does not fit
    """
    _FIELDS_OF[kind] = code, fields_of
    _MADE_OF[code] = made_of


def is_plain(values: Collection[Any]) -> bool:
    """Return whether msgpack carries all the values as they are."""
    types = set(map(type, values))
    if not types <= SCALARS:
        return False
    if int in types:
        if len(types) == 1:
            return bool(min(values) >= _SMALLEST and max(values) <= _LARGEST)
        for value in values:
            if type(value) is int and not _SMALLEST <= value <= _LARGEST:
                return False
    return True


def pack(value: Any) -> Any:
    """Return the wire form of a value."""
    kind = type(value)
    if kind in SCALARS:
        if kind is int and not _SMALLEST <= value <= _LARGEST:
            return Ext(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
        return value
    if kind is list:
        return value if is_plain(value) else [pack(item) for item in value]
    if kind is tuple:
        return Ext(_TUPLE, _ENCODER.encode(value if is_plain(value) else [pack(item) for item in value]))
    if kind is dict:
        if set(map(type, value)) <= {str}:
            return {key: pack(item) for key, item in value.items()}
        flat = [pack(part) for item in value.items() for part in item]
        return Ext(_MAPPING, _ENCODER.encode(flat))
    if kind in _FIELDS_OF:
        extension, fields_of = _FIELDS_OF[kind]
        return Ext(extension, _ENCODER.encode([pack(item) for item in fields_of(value)]))
    raise NotDescribable(value)


def decode_extension(code: int, data: memoryview) -> Any:
    """Decode an extension that ``pack`` made; called by msgspec as the decoder's ``ext_hook``."""
    if code == _TUPLE:
        return tuple(_DECODER.decode(data))
    if code == _MAPPING:
        flat = _DECODER.decode(data)
        return dict(zip(flat[::2], flat[1::2], strict=True))
    if code == _INTEGER:
        return int.from_bytes(data, "big", signed=True)
    if code in _MADE_OF:
        return _MADE_OF[code](_DECODER.decode(data))
    raise ValueError(f"unknown extension {code} in a stored value")


_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=decode_extension)


def copy(value: Any) -> Any:
    """Copy a self-describing value; immutable parts are shared.

    A part without a self-describing form is not copied: the encoder refuses it later and names its place.
    """
    kind = type(value)
    if kind is list:
        return value.copy() if SCALARS.issuperset(map(type, value)) else [copy(item) for item in value]
    if kind is dict:
        return {key: copy(item) for key, item in value.items()}
    if kind is tuple and not SCALARS.issuperset(map(type, value)):
        return tuple([copy(item) for item in value])
    if kind in _FIELDS_OF:
        code, fields_of = _FIELDS_OF[kind]
        return _MADE_OF[code]([copy(item) for item in fields_of(value)])
    return value
