"""Types that the engine wraps around declared ones: a value or None, a value with its last access.

Users do not declare them. They appear in the descriptors of stored state, and so in error messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from onceproof.engine.key_identity import value_of
from onceproof.engine.types.composite import or_none, prepared, wire_type_or_none
from onceproof.engine.types.information import ENCODE, Packer, TypeInformation, WrongValue, interned

_NONE: Final = ENCODE(None)


class NullableType(TypeInformation):
    """A value of the inner type, or None."""

    __slots__ = ("inner",)

    def __init__(self, inner: TypeInformation) -> None:
        super().__init__(
            f"NULLABLE({inner.name})",
            descriptor=["NULLABLE", inner.descriptor],
            python_type=inner.python_type,
            wire_type=wire_type_or_none(inner),
            immutable=inner.immutable,
            contains_pickle=inner.contains_pickle,
            admits_none=True,
        )
        self.inner = inner

    def __reduce__(self) -> tuple[Callable[..., TypeInformation], tuple[Any, ...]]:
        return nullable, (self.inner,)

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        return prepared(self.inner, values, allow_pickle)

    def unpacker(self, allow_pickle: bool = False) -> Packer | None:
        return or_none(self.inner.unpacker(allow_pickle))

    def converter(self) -> Packer | None:
        return or_none(self.inner.converter())

    def copy(self, value: Any) -> Any:
        return None if value is None else self.inner.copy(value)


class LastAccessType(TypeInformation):
    """``(value, timestamp)``: a value of the inner type and its last access in milliseconds."""

    __slots__ = ("inner",)

    def __init__(self, inner: TypeInformation) -> None:
        super().__init__(
            f"TTL({inner.name})",
            descriptor=["TTL", inner.descriptor],
            python_type=tuple,
            wire_type=tuple[inner.wire_type, int],  # type: ignore[name-defined]
            immutable=inner.immutable,
            contains_pickle=inner.contains_pickle,
        )
        self.inner = inner

    def __reduce__(self) -> tuple[Callable[..., TypeInformation], tuple[Any, ...]]:
        return with_last_access, (self.inner,)

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        for value in values:
            if type(value) is not tuple or len(value) != 2 or type(value[1]) is not int:
                raise WrongValue(value, self.name)
        pack = self.inner.prepare([value for value, _ in values], allow_pickle)
        return None if pack is None else lambda held: (pack(held[0]), held[1])

    def unpacker(self, allow_pickle: bool = False) -> Packer | None:
        unpack = self.inner.unpacker(allow_pickle)
        return None if unpack is None else lambda held: (unpack(held[0]), held[1])

    def copy(self, value: Any) -> Any:
        return value if self.immutable else (self.inner.copy(value[0]), value[1])

    def copy_column(self, values: list[Any]) -> list[Any]:
        inner = [value for value, _ in values]
        return values if self.inner.copy_column(inner) is inner else super().copy_column(values)


def nullable(inner: TypeInformation) -> TypeInformation:
    """Return the type of a value of ``inner`` or None. DYNAMIC and VOID admit None already."""
    if inner.name in ("DYNAMIC", "VOID") or isinstance(inner, NullableType):
        return inner
    return interned(NullableType, inner)


def with_last_access(inner: TypeInformation) -> TypeInformation:
    """Return the type of ``(value of inner, timestamp)``."""
    return interned(LastAccessType, inner)


def key_codec(key_type: TypeInformation) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Return how keys of a type are written and read; the same key always has the same bytes.

    What writes them raises InvalidKey for a value that is no key of the type.
    """
    encode, identify = key_type.encoder(), key_type.key_rule()[1]

    def write(key: Any) -> bytes:
        same = value_of(identify(key))
        return _NONE if same is None else encode(same)

    return write, nullable(key_type).decoder()
