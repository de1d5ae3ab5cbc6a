"""What a type is to the engine: a check, a copy, a hash code and a form on the wire.

A type works on whole columns: all keys or all values of a state table at once, because a check per value
would cost more than the snapshot. ``prepare`` checks a column exactly (an int is no DOUBLE, a bool is no
INT: a value that came back from a snapshot as something else would make a restored run differ from an
undisturbed one) and answers with the function that turns a value into its wire form, or None where the
value itself is written. The wire is msgpack; ``wire_type`` tells the decoder what to read.

Types are interned: one object for each description (and class, where a type has one), so that they compare by
identity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import msgspec

from onceproof.engine.key_groups import InvalidKey, java_hash
from onceproof.engine.types.dynamic import decode_extension

Descriptor: TypeAlias = "str | list[Any]"
"""A small description of a type that fits JSON: its name, or a list of its name and its parameters."""

Packer: TypeAlias = Callable[[Any], Any]

ENCODER = msgspec.msgpack.Encoder()
ENCODE = ENCODER.encode

_INTERNED: dict[tuple[Any, ...], TypeInformation] = {}


class WrongValue(TypeError):
    """A value that its declared type does not admit. ``value`` is the offender."""

    def __init__(self, value: Any, type_name: str, hint: str = "") -> None:
        self.value = value
        self.type_name = type_name
        shown = repr(value)
        if len(shown) > 60:
            shown = shown[:57] + "..."
        super().__init__(
            f"{shown} ({type(value).__qualname__}) is no {type_name}" + (f": {hint}" if hint else "")
        )


def interned(make: Callable[..., TypeInformation], *arguments: Any) -> TypeInformation:
    """Give the one type that ``make`` makes of ``arguments``: names, interned types, and tuples of them."""
    identity: list[Any] = [make]
    for argument in arguments:
        identity.append(tuple(map(_identity, argument)) if type(argument) is tuple else _identity(argument))
    known = _INTERNED.get(key := tuple(identity))
    if known is None:
        # Two threads may both make one: the first to enter it wins.
        known = _INTERNED.setdefault(key, make(*arguments))
    return known


def _identity(argument: Any) -> Any:
    return id(argument) if isinstance(argument, TypeInformation) else argument


class TypeInformation:
    """Describes the values of a stream, a key or a state (PyFlink: TypeInformation)."""

    __slots__ = (
        "_decoder",
        "_entry_decoders",
        "contains_pickle",
        "descriptor",
        "immutable",
        "java_hash_kind",
        "name",
        "python_type",
        "wire_type",
    )

    def __init__(
        self,
        name: str,
        *,
        python_type: Any,
        descriptor: Descriptor | None = None,
        wire_type: Any = None,
        java_hash_kind: str | None = None,
        immutable: bool = True,
        contains_pickle: bool = False,
    ) -> None:
        self.name = name
        self.descriptor: Descriptor = name if descriptor is None else descriptor
        self.python_type = python_type
        self.wire_type = python_type if wire_type is None else wire_type
        self.java_hash_kind = java_hash_kind
        self.immutable = immutable
        self.contains_pickle = contains_pickle
        self._decoder: msgspec.msgpack.Decoder[Any] | None = None
        self._entry_decoders: dict[int, msgspec.msgpack.Decoder[list[tuple[Any, Any]]]] = {}

    def __repr__(self) -> str:
        return self.name

    def __deepcopy__(self, memo: dict[int, Any]) -> TypeInformation:
        return self

    def __reduce__(self) -> tuple[Callable[..., TypeInformation], tuple[Any, ...]]:
        from onceproof.engine.types import from_descriptor

        return from_descriptor, (self.descriptor,)

    # What subclasses override.

    def prepare(self, values: Collection[Any]) -> Packer | None:
        """Check the values; give the function to their wire form, or None where they are it already."""
        raise NotImplementedError

    def unpacker(self) -> Packer | None:
        """Give the function from the decoded wire form to the value, or None where they are the same."""
        return None

    def copy(self, value: Any) -> Any:
        """Copy the value so that later changes of the original do not reach the copy."""
        return value

    def java_hash(self, key: Any) -> int:
        """Compute the Java hash code of a key of this type."""
        if self.java_hash_kind is None:
            raise InvalidKey(
                f"{self.name} cannot be a key type: choose a string, a number, or a tuple of them"
            )
        try:
            return java_hash(key, self.java_hash_kind)
        except (TypeError, AttributeError, ValueError, OverflowError) as error:
            if isinstance(error, InvalidKey):
                raise
            raise InvalidKey(str(WrongValue(key, self.name, "the key does not fit the key type"))) from error

    # What follows from it.

    def copy_table(self, table: dict[Any, Any]) -> dict[Any, Any]:
        """Copy a table of values of this type, isolated from later changes."""
        if self.immutable:
            return table.copy()
        copy = self.copy
        return {key: copy(value) for key, value in table.items()}

    def copy_column(self, values: list[Any]) -> list[Any]:
        """Copy values of this type; the same list where none of them can change."""
        return values if self.immutable else list(map(self.copy, values))

    def copy_elements(self, table: dict[Any, Any]) -> dict[Any, Any]:
        """Copy the elements within lists or maps, where they can change; the containers may be shared."""
        return self.copy_table(table)

    def encode(self, value: Any) -> bytes:
        """Encode one value."""
        pack = self.prepare((value,))
        try:
            return ENCODER.encode(value if pack is None else pack(value))
        except UnicodeEncodeError as error:
            raise WrongValue(
                value, self.name, "it holds a lone surrogate, which UTF-8 cannot carry"
            ) from error

    def decode(self, data: bytes) -> Any:
        """Decode one value."""
        decoder = self._decoder
        if decoder is None:
            decoder = self._decoder = msgspec.msgpack.Decoder(self.wire_type, ext_hook=decode_extension)
        unpack = self.unpacker()
        value = decoder.decode(data)
        return value if unpack is None else unpack(value)

    def encoder(self) -> Callable[[Any], bytes]:
        """Give what checks and encodes one value, for whoever does so again and again."""
        return self.encode

    def decoder(self) -> Callable[[bytes], Any]:
        """Give what decodes one value, for whoever does so again and again."""
        decode = msgspec.msgpack.Decoder(self.wire_type, ext_hook=decode_extension).decode
        unpack = self.unpacker()
        return decode if unpack is None else lambda data: unpack(decode(data))

    def entry_decoder(self, key_type: TypeInformation) -> msgspec.msgpack.Decoder[list[tuple[Any, Any]]]:
        """Give the decoder of a list of (key, value) pairs, values being of this type."""
        decoder = self._entry_decoders.get(id(key_type))
        if decoder is None:
            entries = list[tuple[key_type.wire_type, self.wire_type]]  # type: ignore[name-defined]
            decoder = msgspec.msgpack.Decoder(entries, ext_hook=decode_extension)
            self._entry_decoders[id(key_type)] = decoder
        return decoder

    def to_descriptor(self) -> Descriptor:
        """Describe the type in a form that snapshots and JSON can hold."""
        return self.descriptor
