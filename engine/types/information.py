"""The base of all types: how values are checked, copied, hashed and written.

The rules this module lives by:

- A type works on whole columns: all keys or all values of a state table at once, because a check per value
  would cost more than the snapshot.
- ``prepare`` checks a column exactly: an int is no DOUBLE, a bool is no INT. A value that a snapshot changed
  would make a restored run differ from an undisturbed one.
- The wire form is msgpack. Pickle is written and read only where the caller passes the permission of the job.
  ``prepare`` returns the function from a value to its wire form, or None if the
  value itself is written; ``wire_type`` is the type that the decoder reads.
- ``converter`` is for streams: what a function returns becomes a value of its declared type, or is refused.
  State is not converted, because its owner holds the value that it has put there.
- Types are interned: one object for each descriptor (and class, for dataclasses), compared by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeAlias

import msgspec

from onceproof.engine.java_hashes import InvalidKey, java_hash
from onceproof.engine.types.dynamic import decode_extension

Descriptor: TypeAlias = "str | list[Any]"
"""A description of a type that fits JSON: its name, or a list of its name and its parameters."""

Packer: TypeAlias = Callable[[Any], Any]

KeyRule: TypeAlias = "tuple[tuple[type, ...], Callable[[Any], Any]]"
"""The classes of keys that stand for themselves, and the function from any other key to its identity."""


def of_streams(given: Any) -> Any:
    """Return the type of streams that stands for a type of tables; anything else as it is."""
    return given.of_streams() if hasattr(given, "of_streams") else given


ENCODER = msgspec.msgpack.Encoder()
ENCODE = ENCODER.encode

_INTERNED: dict[tuple[Any, ...], TypeInformation] = {}


class WrongValue(TypeError):
    """The declared type does not admit ``value``.

    ``path`` says where in a nested value it is, innermost place first; converters fill it.
    """

    def __init__(self, value: Any, type_name: str, hint: str = "") -> None:
        self.value = value
        self.type_name = type_name
        self.path: list[str] = []
        shown = repr(value)
        if len(shown) > 60:
            shown = shown[:57] + "..."
        super().__init__(
            f"{shown} ({type(value).__qualname__}) is no {type_name}" + (f": {hint}" if hint else "")
        )


def interned(make: Callable[..., TypeInformation], *arguments: Any) -> TypeInformation:
    """Return the one type that ``make(*arguments)`` makes; arguments are names, types, and tuples of them."""
    identity: list[Any] = [make]
    for argument in arguments:
        identity.append(tuple(map(_identity, argument)) if type(argument) is tuple else _identity(argument))
    known = _INTERNED.get(key := tuple(identity))
    if known is None:
        # If two threads both make one, the first to enter it wins.
        known = _INTERNED.setdefault(key, make(*arguments))
    return known


def _identity(argument: Any) -> Any:
    return id(argument) if isinstance(argument, TypeInformation) else argument


class TypeInformation:
    """The type of the values of a stream, a key or a state (PyFlink: TypeInformation).

    Jobs get types from ``Types``; the other methods are called by the engine.
    """

    __slots__ = (
        "_block_decoders",
        "_decoder",
        "admits_none",
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
        admits_none: bool = False,
    ) -> None:
        self.name = name
        self.descriptor: Descriptor = name if descriptor is None else descriptor
        self.python_type = python_type
        self.wire_type = python_type if wire_type is None else wire_type
        self.java_hash_kind = java_hash_kind
        self.immutable = immutable
        self.contains_pickle = contains_pickle
        self.admits_none = admits_none
        """Whether None is a value of the type, as where Flink's serializer writes null."""
        self._decoder: msgspec.msgpack.Decoder[Any] | None = None
        self._block_decoders: dict[tuple[int, int], msgspec.msgpack.Decoder[list[tuple[list[Any], ...]]]] = {}

    def __repr__(self) -> str:
        return self.name

    def __deepcopy__(self, memo: dict[int, Any]) -> TypeInformation:
        return self

    def __reduce__(self) -> tuple[Callable[..., TypeInformation], tuple[Any, ...]]:
        # A type is unpickled by the function that interns it, which only its class knows.
        raise NotImplementedError

    # What subclasses override.

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        """Check the values, and return the function from a value to its wire form.

        Args:
            values: a column of values.
            allow_pickle: whether the job allows to pickle what has no form of its own.

        Returns:
            None if the values already are their wire form.

        Raises:
            WrongValue: a value is not of this type.
        """
        raise NotImplementedError

    def unpacker(self, allow_pickle: bool = False) -> Packer | None:
        """Return the function from the decoded wire form to the value, or None if they are the same.

        It raises PickleForbidden for a pickle, which ``allow_pickle`` has it run.
        """
        return None

    def converter(self) -> Packer | None:
        """Return the function from a value that a user's function returns to a value of this type.

        It returns the same object where the value fits, never changes it, and raises WrongValue. None: every
        value passes as it is.
        """
        return None

    def copy(self, value: Any) -> Any:
        """Copy the value so that later changes of the original do not reach the copy."""
        return value

    def check_key_type(self) -> None:
        """Raise InvalidKey if values of this type cannot be keys."""
        if self.java_hash_kind is None:
            raise InvalidKey(
                f"{self.name} cannot be a key type: choose text, a number, a date or time, or a tuple or row"
                " of them"
            )

    limits_keys = False
    """Whether ``identify`` refuses some keys of the classes that ``plain_keys`` returns."""

    def plain_keys(self) -> tuple[type, ...]:
        """Return the classes of keys that stand for themselves.

        A declared type has one at most, and refuses the keys of all other classes.
        """
        return ()

    def identify(self, key: Any) -> Any:
        """Return what stands for a key in tables (see ``key_identity``).

        Raises:
            InvalidKey: the type cannot be a key type, or the key is not of this type.
        """
        self.check_key_type()
        raise self.wrong_key(key)

    def wrong_key(self, key: Any, hint: str = "") -> InvalidKey:
        """Return the error that a key is not of this type."""
        hint = hint or "give a key of the declared type, or declare the type of the key"
        return InvalidKey(str(WrongValue(key, self.name, f"it does not fit the key type; {hint}")))

    def java_hash(self, key: Any) -> int:
        """Compute the Java hash code of a key of this type.

        Raises:
            InvalidKey: the type cannot be a key type, or the key is not of this type.
        """
        self.check_key_type()
        try:
            return java_hash(key, self.java_hash_kind)
        except (TypeError, AttributeError, ValueError, OverflowError) as error:
            if isinstance(error, InvalidKey):
                raise
            raise self.wrong_key(key) from error

    # What this class derives from the methods above.

    def key_rule(self) -> KeyRule:
        """Return how operators identify keys of this type; None is a key under every type, as in PyFlink."""
        identify = self.identify
        return self.plain_keys(), lambda key: None if key is None else identify(key)

    def copy_table(self, table: dict[Any, Any]) -> dict[Any, Any]:
        """Copy a table of values of this type, isolated from later changes."""
        if self.immutable:
            return table.copy()
        copy = self.copy
        return {key: copy(value) for key, value in table.items()}

    def copy_column(self, values: list[Any]) -> list[Any]:
        """Copy values of this type; an immutable type returns the same list."""
        if self.immutable:
            return values
        copy = self.copy
        # No map(): it would end at a StopIteration of a user's __deepcopy__, and so lose the other values.
        return [copy(value) for value in values]

    def copy_elements(self, table: dict[Any, Any]) -> dict[Any, Any]:
        """Copy the mutable elements of lists or maps; the containers may be shared."""
        return self.copy_table(table)

    def encode(self, value: Any, allow_pickle: bool = False) -> bytes:
        """Check one value and return its msgpack bytes; raises WrongValue, and NotDescribable."""
        pack = self.prepare((value,), allow_pickle)
        try:
            return ENCODER.encode(value if pack is None else pack(value))
        except UnicodeEncodeError as error:
            raise WrongValue(
                value, self.name, "it holds a lone surrogate, which UTF-8 cannot carry"
            ) from error

    def decode(self, data: bytes, allow_pickle: bool = False) -> Any:
        """Return the value of bytes that ``encode`` returned; raises PickleForbidden."""
        decoder = self._decoder
        if decoder is None:
            decoder = self._decoder = msgspec.msgpack.Decoder(self.wire_type, ext_hook=decode_extension)
        unpack = self.unpacker(allow_pickle)
        value = decoder.decode(data)
        return value if unpack is None else unpack(value)

    def encoder(self, allow_pickle: bool = False) -> Callable[[Any], bytes]:
        """Return a function that checks and encodes one value, made once for many calls."""
        return partial(self.encode, allow_pickle=True) if allow_pickle else self.encode

    def decoder(self, allow_pickle: bool = False) -> Callable[[bytes], Any]:
        """Return a function that decodes one value, made once for many calls."""
        decode = msgspec.msgpack.Decoder(self.wire_type, ext_hook=decode_extension).decode
        unpack = self.unpacker(allow_pickle)
        return decode if unpack is None else lambda data: unpack(decode(data))

    def block_decoder(
        self, key_type: TypeInformation, namespace_type: TypeInformation | None
    ) -> msgspec.msgpack.Decoder[list[tuple[list[Any], ...]]]:
        """Return the decoder of stored blocks whose values are of this type.

        A block has columns of keys, of namespaces if there are any, and of values.
        """
        types = (id(key_type), id(namespace_type))
        decoder = self._block_decoders.get(types)
        if decoder is None:
            kinds = (key_type, self) if namespace_type is None else (key_type, namespace_type, self)
            columns = tuple([list[kind.wire_type] for kind in kinds])  # type: ignore[name-defined]
            decoder = msgspec.msgpack.Decoder(list[tuple[columns]], ext_hook=decode_extension)  # type: ignore[valid-type]
            self._block_decoders[types] = decoder
        return decoder

    def to_descriptor(self) -> Descriptor:
        """Return a description of the type that fits JSON; snapshots hold it."""
        return self.descriptor
