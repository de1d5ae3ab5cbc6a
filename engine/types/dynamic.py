"""The wire form of self-describing values, for streams and state without a declared type.

msgpack carries None, bool, int, float, str, bytes, list and dict with string keys as they are. Extensions
carry tuples (so that a tuple does not come back as a list), dicts with other keys, integers beyond 64 bits,
and what ``objects`` has a form for. Any other value is opaque: it is refused by name, or pickled as a whole
where the caller has the permission of the job. Reading a pickle needs the same permission.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection
from typing import Any, Final

import msgspec

from onceproof.engine.types.objects import FORMS, form_of, made_of, why_without_form

Ext = msgspec.msgpack.Ext

_TUPLE = 1
_MAPPING = 2
_INTEGER = 3
ROW: Final = 4
"""The extension of rows, whose module describes them."""
PICKLED: Final = 100
_PROTOCOL: Final = 4
_BYTES_AS_THEY_ARE: Final = (0xC4, 0xC5, 0xC6)
"""How msgpack begins bytes that no extension wraps."""

_ENCODER = msgspec.msgpack.Encoder()

SCALARS = frozenset((str, int, float, bool, bytes, type(None)))
_SMALLEST = -0x8000000000000000
_LARGEST = 0xFFFFFFFFFFFFFFFF


class NotDescribable(TypeError):
    """``value`` has no self-describing form."""

    def __init__(self, value: Any) -> None:
        self.value = value
        why = why_without_form(value)
        super().__init__(
            f"a value of type {type(value).__qualname__} has no typed form"
            f"{f' ({why})' if why else ''}: keep plain values, tuples, rows, lists, dicts, sets, dates, and"
            " dataclasses, named tuples and enums of them, or allow pickle: declare"
            " Types.PICKLED_BYTE_ARRAY() and set pipeline.allow-pickled-state to true"
        )


class PickleForbidden(Exception):
    """A stored value is a pickle, and its reader has no permission to run it."""

    def __init__(self) -> None:
        super().__init__(
            "a stored value is a pickle, and reading it runs code: only state is read so, and only where"
            " pipeline.allow-pickled-state is true"
        )


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
        if SCALARS.issuperset(map(type, value)):
            try:
                return Ext(_TUPLE, _ENCODER.encode(value))
            except OverflowError:
                # An integer beyond 64 bits is seldom, and is_plain() takes longer than the encoder.
                pass
        return Ext(_TUPLE, _ENCODER.encode([pack(item) for item in value]))
    if kind is dict:
        if set(map(type, value)) <= {str}:
            return {key: pack(item) for key, item in value.items()}
        flat = [pack(part) for item in value.items() for part in item]
        return Ext(_MAPPING, _ENCODER.encode(flat))
    form = form_of(value)
    if form is None:
        raise NotDescribable(value)
    parts = [pack(part) for part in form.parts_of(value)]
    if kind is set or kind is frozenset:
        # Equal sets are equal bytes, whatever order the hashes of this process give them.
        parts.sort(key=_ENCODER.encode)
    return Ext(form.code, _ENCODER.encode(parts))


def pack_any(value: Any, allow_pickle: bool) -> Any:
    """Return the wire form of a value of PICKLED_BYTE_ARRAY: bytes alone are a pickle of version 0.2.0.

    Raises NotDescribable for an opaque value without permission, and PicklingError.
    """
    if type(value) is bytes:
        return Ext(FORMS[bytes].code, _ENCODER.encode([value]))
    try:
        return pack(value)
    except RecursionError:
        if not allow_pickle:
            raise NotDescribable(value) from None
    except NotDescribable:
        if not allow_pickle:
            raise
    return pickled(value)


def pickled(value: Any) -> Any:
    """Return the wire form of an opaque value."""
    return Ext(PICKLED, _ENCODER.encode(pickle.dumps(value, _PROTOCOL)))


def unpack_any(data: msgspec.Raw) -> Any:
    """Return the value of a wire form of ``pack_any``; raises PickleForbidden for a pickle."""
    if memoryview(data)[0] in _BYTES_AS_THEY_ARE:
        raise PickleForbidden
    return _DECODER.decode(data)


def unpack_with_pickle(data: msgspec.Raw) -> Any:
    """Return the value of a wire form of ``pack_any``, also of a pickle, which may run any code."""
    value = _TRUSTING.decode(data)
    return pickle.loads(value) if memoryview(data)[0] in _BYTES_AS_THEY_ARE else value


def unpickled(data: memoryview) -> Any:
    """Return the value of the extension that ``pickled`` makes."""
    return pickle.loads(_DECODER.decode(data))


def decode_extension(code: int, data: memoryview) -> Any:
    """Decode an extension that ``pack`` made; called by msgspec as the decoder's ``ext_hook``."""
    if code == _TUPLE:
        return tuple(_DECODER.decode(data))
    if code == _MAPPING:
        flat = _DECODER.decode(data)
        return dict(zip(flat[::2], flat[1::2], strict=True))
    if code == _INTEGER:
        return int.from_bytes(data, "big", signed=True)
    if code == PICKLED:
        raise PickleForbidden
    return made_of(code, _PARTS.decode(data))


def _decode_with_pickle(code: int, data: memoryview) -> Any:
    return unpickled(data) if code == PICKLED else decode_extension(code, data)


_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=decode_extension)
_PARTS: msgspec.msgpack.Decoder[list[Any]] = msgspec.msgpack.Decoder(list[Any], ext_hook=decode_extension)
_TRUSTING: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=_decode_with_pickle)


def copy(value: Any) -> Any:
    """Copy a self-describing value; immutable parts are shared.

    A part without a self-describing form is not copied: the encoder refuses it later and names its place.
    """
    kind = type(value)
    if kind is list:
        return value.copy() if SCALARS.issuperset(map(type, value)) else [copy(item) for item in value]
    if kind is dict:
        return {key: copy(item) for key, item in value.items()}
    if kind is tuple:
        return value if SCALARS.issuperset(map(type, value)) else tuple([copy(item) for item in value])
    if kind in SCALARS:
        return value
    form = form_of(value)
    if form is None or form.is_immutable:
        return value
    return form.made_of([copy(part) for part in form.parts_of(value)])
