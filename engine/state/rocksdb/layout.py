"""The layout of state in a database: how an entry becomes a key of the database, and back.

A key of the database is ::

    key group (2 bytes) | name of the state | entry | the rest

- The key group comes first, so that a range of key groups is a range of the database.
- Names, keys, namespaces and the keys of maps are msgpack. No msgpack value is a prefix of another one, so
  all keys with a common prefix belong to one state or entry.
- A part that is followed by another one has its length (4 bytes) before it, so that a scan can split the key.
- The rest is empty for a single value, a number of 8 bytes for each element of a list, in order, and the
  map's key for each entry of a map.
- A key that is the same by ``key_identity`` has the same bytes, another one has others.
- The keys of maps that are equal in Python must have equal bytes, because they are one key in a dict: -0.0 is
  written as 0.0, and without a declared type True and 1.0 are written as 1. Versions up to 0.2 wrote the keys
  of the stream so, too; a database that one of them began goes on in that way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from types import NoneType
from typing import Any, Final

from onceproof.engine.key_groups import key_group_of
from onceproof.engine.key_identity import Distinct, value_of
from onceproof.engine.state.descriptors import LIST, MAP
from onceproof.engine.types import NotDescribable, TypeInformation
from onceproof.engine.types.composite import TupleType
from onceproof.engine.types.information import ENCODE
from onceproof.engine.types.row import RowType, row_like
from onceproof.engine.types.scalars import DynamicType, FloatType, PickledType
from onceproof.engine.types.wrapped import nullable

_NONE: Final = ENCODE(None)
_GROUP: Final = struct.Struct(">H")
_LENGTH: Final = struct.Struct(">I")
_SEQUENCE: Final = struct.Struct(">Q")

_SAME_BYTES: Final = (int, str, bytes, NoneType, date, timedelta)
"""The classes whose equal values have equal bytes, and which equal nothing of another class."""

GROUP_BYTES: Final = _GROUP.size
LENGTH_BYTES: Final = _LENGTH.size

pack_group = _GROUP.pack
pack_length = _LENGTH.pack
pack_sequence = _SEQUENCE.pack


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the least key greater than all keys with this prefix; None if there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def range_of_groups(low: int, high: int) -> tuple[bytes, bytes]:
    """Return the first key (inclusive) and the last key (exclusive) of an inclusive range of key groups."""
    return pack_group(low), pack_group(high + 1)


def canonical_form(kind: TypeInformation) -> Callable[[Any], Any] | None:
    """Return a function that maps equal keys of a type to one value; None if equal keys have equal bytes.

    It raises NotDescribable for a value of which equal ones may have different bytes.
    """
    if isinstance(kind, FloatType):
        return _positive_zero
    if isinstance(kind, DynamicType | PickledType):
        return _as_in_a_dict
    if isinstance(kind, TupleType | RowType):
        forms = [canonical_form(field) for field in kind.fields]
        if not any(forms):
            return None
        if isinstance(kind, TupleType):
            return lambda value: tuple(_fields(value, forms))
        return lambda value: row_like(value, _fields(value, forms))
    return None


def _fields(value: Any, forms: list[Callable[[Any], Any] | None]) -> list[Any]:
    return [item if form is None else form(item) for item, form in zip(value, forms, strict=True)]


def _positive_zero(value: Any) -> Any:
    return value + 0.0 if type(value) is float else value


def _as_in_a_dict(value: Any) -> Any:
    """Return one form for numbers that are equal, also within tuples."""
    kind = type(value)
    if kind is bool:
        return int(value)
    if kind is float:
        return int(value) if value.is_integer() else value
    if kind is tuple:
        return tuple(map(_as_in_a_dict, value))
    if (kind is datetime or kind is time) and value.tzinfo is None:
        return value.replace(fold=0)
    if kind not in _SAME_BYTES:
        raise NotDescribable(value)
    return value


class Keys:
    """Converts the identities of keys into their key groups and bytes, and back.

    ``merges_equal``: keys that are equal in Python are one.
    """

    __slots__ = ("_canonical", "_decode", "_encode", "_identify", "_kind", "_max_parallelism", "merges_equal")

    def __init__(self, kind: TypeInformation, max_parallelism: int, merges_equal: bool = False) -> None:
        self._kind = kind
        self._max_parallelism = max_parallelism
        canonical = canonical_form(kind)
        self.merges_equal = merges_equal and canonical is not None
        self._canonical = canonical if merges_equal else None
        self._encode = kind.encoder()
        self._decode = nullable(kind).decoder()
        _, self._identify = kind.key_rule()

    def code(self, identity: Any) -> tuple[int, bytes]:
        """Return the key group and the bytes of a key.

        Raises WrongValue and InvalidKey.
        """
        canonical = self._canonical
        key = value_of(identity) if type(identity) is Distinct else identity
        data = _NONE if key is None else self._encode(key if canonical is None else canonical(key))
        return key_group_of(identity, self._max_parallelism, self._kind), data

    def identity(self, data: bytes) -> Any:
        """Return the identity of the key with these bytes."""
        return self._identify(self._decode(data))


class EntryLayout:
    """Converts between the entries of one state and prefixes of keys in the database."""

    __slots__ = (
        "_canonical_namespace",
        "_decode_namespace",
        "_encode_namespace",
        "_has_rest",
        "_keys",
        "_namespaced",
        "prefix",
        "state",
    )

    def __init__(
        self,
        state: str,
        kind: str,
        keys: Keys,
        namespace_type: TypeInformation | None,
    ) -> None:
        self.state = state
        self.prefix = ENCODE(state)
        self._keys = keys
        self._has_rest = kind in (LIST, MAP)
        self._namespaced = namespace_type is not None
        if namespace_type is not None:
            self._canonical_namespace = canonical_form(namespace_type)
            self._encode_namespace = namespace_type.encoder()
            self._decode_namespace = namespace_type.decoder()

    def begin(self, entry: Any) -> bytes:
        """Return the prefix of all keys of an entry.

        Raises WrongValue and InvalidKey.
        """
        if not self._namespaced:
            group, key = self._keys.code(entry)
            return pack_group(group) + self.prefix + self.join(key, None)
        group, key = self._keys.code(entry[0])
        canonical, namespace = self._canonical_namespace, entry[1]
        data = self._encode_namespace(namespace if canonical is None else canonical(namespace))
        return pack_group(group) + self.prefix + self.join(key, data)

    def join(self, key: bytes, namespace: bytes | None) -> bytes:
        """Join the bytes of a key and a namespace."""
        if namespace is None:
            return pack_length(len(key)) + key if self._has_rest else key
        joined = pack_length(len(key)) + key
        return joined + pack_length(len(namespace)) + namespace if self._has_rest else joined + namespace

    def split(self, data: bytes) -> tuple[bytes, bytes | None, int]:
        """Split a key of the database: the bytes of key and namespace, and the position of the rest."""
        position = GROUP_BYTES + len(self.prefix)
        if not self._has_rest and not self._namespaced:
            return data[position:], None, len(data)
        key, position = _cut(data, position)
        if not self._namespaced:
            return key, None, position
        if not self._has_rest:
            return key, data[position:], len(data)
        namespace, position = _cut(data, position)
        return key, namespace, position

    def entry(self, data: bytes) -> Any:
        """Return the entry of a key of the database."""
        key, namespace, _ = self.split(data)
        if namespace is None:
            return self._keys.identity(key)
        return self._keys.identity(key), self._decode_namespace(namespace)


def _cut(data: bytes, position: int) -> tuple[bytes, int]:
    begin = position + LENGTH_BYTES
    end = begin + int(_LENGTH.unpack_from(data, position)[0])
    return data[begin:end], end
