"""The scalar types: numbers, text, bytes, dates, pickled objects and self-describing values."""

from __future__ import annotations

import copy as copying
from array import array
from collections.abc import Callable, Collection
from datetime import date, datetime, time
from decimal import Decimal
from operator import index
from struct import Struct
from types import NoneType
from typing import Any, Final

import msgspec

from onceproof.engine.java_hashes import hash_dynamic
from onceproof.engine.key_identity import PLAIN, float_identity, identity_of
from onceproof.engine.types import dynamic
from onceproof.engine.types.information import ENCODE, KeyRule, Packer, TypeInformation, WrongValue

PACK_FLOAT: Final = Struct("<f").pack
UNPACK_FLOAT: Final = Struct("<f").unpack


def _integer(value: Any) -> int | None:
    """Take what counts, as numpy's integers do; True is a BOOLEAN."""
    return index(value) if hasattr(type(value), "__index__") and not isinstance(value, bool) else None


def _real(value: Any) -> float | None:
    """Take what is a float of another class, as numpy's are; a whole number is a LONG."""
    if isinstance(value, float):
        return float.__float__(value)
    kind = type(value)
    return float(value) if hasattr(kind, "__float__") and not isinstance(value, int | Decimal) else None


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return Decimal(str(value))
    return None


def _date(value: Any) -> date | None:
    return date(value.year, value.month, value.day) if isinstance(value, date) else None


def _timestamp(value: Any) -> datetime | None:
    return datetime.combine(value.date(), value.timetz()) if isinstance(value, datetime) else None


OTHERS: Final[dict[str, Callable[[Any], Any]]] = {
    "STRING": lambda value: str.__str__(value) if isinstance(value, str) else None,
    "CHAR": lambda value: str.__str__(value) if isinstance(value, str) else None,
    "BYTE": _integer,
    "SHORT": _integer,
    "INT": _integer,
    "LONG": _integer,
    "BIG_INT": _integer,
    "FLOAT": _real,
    "DOUBLE": _real,
    "BIG_DEC": _decimal,
    "SQL_DATE": _date,
    "SQL_TIMESTAMP": _timestamp,
    "BYTES": lambda value: bytes(value) if isinstance(value, bytearray | memoryview | bytes) else None,
}
"""How a type takes values of other Python types where they leave an operator: as Flink's serializers do.

A function returns None for a value that its type does not take.
"""

_ADMIT_NONE: Final = frozenset(
    ("STRING", "BIG_INT", "BIG_DEC", "SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP", "VOID")
)
"""The scalar types whose serializers in Flink write null; the others fail there with an exception."""

_PLAIN_KEYS: Final = frozenset(
    ("STRING", "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "BIG_INT", "CHAR", "SQL_DATE", "BYTES")
)
"""The types whose keys are compared as in Flink where they are of the one Python type."""

_WITH_IDENTITIES: Final = frozenset(("BIG_DEC", "SQL_TIME"))
"""The types of which Python takes different keys for equal."""


class NamedType(TypeInformation):
    """A type without parameters: its name says all."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[..., TypeInformation], tuple[Any, ...]]:
        return scalar_type, (self.name,)


class ScalarType(NamedType):
    """A type with exactly one Python type, and perhaps None."""

    __slots__ = ("_only",)

    def __init__(self, name: str, python_type: type, **settings: Any) -> None:
        admits_none = name in _ADMIT_NONE
        wire_type = settings.pop("wire_type", python_type)
        super().__init__(
            name,
            python_type=python_type,
            wire_type=wire_type | None if admits_none else wire_type,
            admits_none=admits_none,
            **settings,
        )
        self._only = {python_type}

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        kinds = set(map(type, values))
        if values and kinds != self._only and not (self.admits_none and kinds <= {*self._only, NoneType}):
            raise WrongValue(self.first_wrong(values), self.name)
        return None

    def encoder(self, allow_pickle: bool = False) -> Callable[[Any], bytes]:
        if type(self).prepare is not ScalarType.prepare:
            return self.encode
        only, admits_none = self.python_type, self.admits_none

        def encode(value: Any) -> bytes:
            if type(value) is not only and not (value is None and admits_none):
                raise WrongValue(value, self.name)
            return ENCODE(value)

        return encode

    def converter(self) -> Packer | None:
        only, name, convert_other = self.python_type, self.name, OTHERS.get(self.name)
        admits_none = self.admits_none

        def convert(value: Any) -> Any:
            if type(value) is only or (value is None and admits_none):
                return value
            result = None if convert_other is None else convert_other(value)
            if result is None:
                raise WrongValue(value, name)
            return result

        return convert

    def plain_keys(self) -> tuple[type, ...]:
        return (self.python_type,) if self.name in _PLAIN_KEYS else ()

    def identify(self, key: Any) -> Any:
        if type(key) is not self.python_type:
            raise self.wrong_key(key)
        self.check_key_type()
        return identity_of(key) if self.name in _WITH_IDENTITIES else key

    def first_wrong(self, values: Collection[Any]) -> Any:
        """Find the first value of another Python type."""
        right = (self.python_type, NoneType) if self.admits_none else (self.python_type,)
        return next(value for value in values if type(value) not in right)


class IntegerType(ScalarType):
    """A signed integer of a fixed width."""

    __slots__ = ("_code", "_largest", "_smallest")

    limits_keys = True

    def __init__(self, name: str, bits: int, java_hash_kind: str) -> None:
        super().__init__(name, int, java_hash_kind=java_hash_kind)
        self._code = {8: "b", 16: "h", 32: "i", 64: "q"}[bits]
        self._smallest = -(1 << (bits - 1))
        self._largest = (1 << (bits - 1)) - 1

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        if values:
            if set(map(type, values)) != self._only:
                raise WrongValue(self.first_wrong(values), self.name)
            try:
                # It checks the limits in half the time of min() and max().
                array(self._code, values)
            except OverflowError:
                smallest = min(values)
                wrong = smallest if smallest < self._smallest else max(values)
                raise self._outside(wrong) from None
        return None

    def encoder(self, allow_pickle: bool = False) -> Callable[[Any], bytes]:
        smallest, largest = self._smallest, self._largest

        def encode(value: Any) -> bytes:
            if type(value) is not int:
                raise WrongValue(value, self.name)
            if not smallest <= value <= largest:
                raise self._outside(value)
            return ENCODE(value)

        return encode

    def converter(self) -> Packer:
        convert_type = super().converter()
        assert convert_type is not None
        smallest, largest = self.limits

        def convert(value: Any) -> Any:
            number = convert_type(value)
            if not smallest <= number <= largest:
                raise self._outside(value)
            return number

        return convert

    def identify(self, key: Any) -> Any:
        if type(key) is not int:
            raise self.wrong_key(key)
        if not self._smallest <= key <= self._largest:
            wider = "BIG_INT" if self.name == "LONG" else "LONG"
            raise self.wrong_key(
                key, f"it holds {self._smallest} to {self._largest}: declare Types.{wider}()"
            )
        return key

    @property
    def limits(self) -> tuple[int, int]:
        """Return the smallest and the largest integer of the type."""
        return self._smallest, self._largest

    def _outside(self, value: int) -> WrongValue:
        return WrongValue(value, self.name, f"it holds {self._smallest} to {self._largest}")


class FloatType(ScalarType):
    """A float."""

    __slots__ = ()

    def __init__(self, name: str, java_hash_kind: str) -> None:
        super().__init__(name, float, java_hash_kind=java_hash_kind)

    def converter(self) -> Packer | None:
        """Take numbers of all kinds; FLOAT rounds to the nearest float of 32 bits, as PyFlink does."""
        convert_type = super().converter()
        if self.name != "FLOAT" or convert_type is None:
            return convert_type

        def convert(value: Any) -> Any:
            number = convert_type(value)
            try:
                (rounded,) = UNPACK_FLOAT(PACK_FLOAT(number))
            except OverflowError:
                raise WrongValue(value, self.name, "it is beyond the floats of 32 bits") from None
            return number if rounded == number else rounded

        return convert

    def identify(self, key: Any) -> Any:
        if type(key) is not float:
            raise self.wrong_key(key)
        return float_identity(key)

    def java_hash(self, key: Any) -> int:
        """Compute the hash code with -0.0 as 0.0, whose key group it shares."""
        return super().java_hash(key + 0.0 if type(key) is float else key)


class BigIntegerType(ScalarType):
    """An integer of any size."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("BIG_INT", int, wire_type=bytes, java_hash_kind="bigint")

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        super().prepare(values, allow_pickle)
        return _pack_integer

    def unpacker(self, allow_pickle: bool = False) -> Packer | None:
        return _unpack_integer


def _pack_integer(value: int | None) -> bytes | None:
    return None if value is None else value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _unpack_integer(data: bytes | None) -> int | None:
    return None if data is None else int.from_bytes(data, "big", signed=True)


class CharType(ScalarType):
    """One character."""

    __slots__ = ()

    limits_keys = True

    def __init__(self) -> None:
        super().__init__("CHAR", str, java_hash_kind="char")

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        super().prepare(values, allow_pickle)
        for value in values:
            if len(value) != 1:
                raise WrongValue(value, self.name, "it holds one character")
        return None

    def identify(self, key: Any) -> Any:
        if type(key) is not str or len(key) != 1:
            raise self.wrong_key(key)
        return key

    def converter(self) -> Packer:
        return _checked_by(self, super().converter())


class TimestampType(ScalarType):
    """A date and time without a zone."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("SQL_TIMESTAMP", datetime, java_hash_kind="timestamp")

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        super().prepare(values, allow_pickle)
        for value in values:
            if value is not None and value.tzinfo is not None:
                raise WrongValue(
                    value, self.name, "it holds times without a zone: convert to UTC and drop it"
                )
        return None

    def identify(self, key: Any) -> Any:
        if type(key) is not datetime or key.tzinfo is not None:
            raise self.wrong_key(key, "convert it to UTC and drop the zone")
        return key.replace(fold=0) if key.fold else key

    def converter(self) -> Packer:
        return _checked_by(self, super().converter())


def _checked_by(kind: ScalarType, convert_type: Packer | None) -> Packer:
    """Return a converter that applies the check of ``prepare`` to each value that has the right class."""
    assert convert_type is not None

    def convert(value: Any) -> Any:
        result = convert_type(value)
        kind.prepare((result,))
        return result

    return convert


class AnyType(NamedType):
    """Values and keys of any class."""

    __slots__ = ()

    def copy_table(self, table: dict[Any, Any]) -> dict[Any, Any]:
        if dynamic.SCALARS.issuperset(map(type, table.values())):
            return table.copy()
        return super().copy_table(table)

    def check_key_type(self) -> None:
        """Accept the type: which key is refused depends on its class."""

    def plain_keys(self) -> tuple[type, ...]:
        return PLAIN

    def identify(self, key: Any) -> Any:
        return identity_of(key)

    def java_hash(self, key: Any) -> int:
        return hash_dynamic(key)


class PickledType(AnyType):
    """Any object: plain values describe themselves, and opaque ones are pickled where the job allows it.

    Its wire form is read by the unpacker alone, because what it may read depends on that permission.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(
            "PICKLED_BYTE_ARRAY",
            python_type=object,
            wire_type=msgspec.Raw,
            immutable=False,
            contains_pickle=True,
            admits_none=True,
        )

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        if dynamic.is_plain(values) and bytes not in map(type, values):
            return None

        def pack(value: Any) -> Any:
            try:
                return dynamic.pack_any(value, allow_pickle)
            except dynamic.NotDescribable:
                raise
            except Exception as error:
                raise WrongValue(value, self.name, f"pickle refuses it: {error}") from error

        return pack

    def unpacker(self, allow_pickle: bool = False) -> Packer | None:
        return dynamic.unpack_with_pickle if allow_pickle else dynamic.unpack_any

    def copy(self, value: Any) -> Any:
        return copying.deepcopy(value)


class DynamicType(AnyType):
    """Self-describing values: the type of state for which the user declared none."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("DYNAMIC", python_type=Any, wire_type=Any, immutable=False, admits_none=True)

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        return None if dynamic.is_plain(values) else dynamic.pack

    copy = staticmethod(dynamic.copy)

    def encoder(self, allow_pickle: bool = False) -> Callable[[Any], bytes]:
        pack = dynamic.pack

        def encode(value: Any) -> bytes:
            kind = type(value)
            # Most values are texts, and numbers of no great size; the rest is put into its wire form first.
            if kind is str or (kind is int and -0x80000000 <= value <= 0x7FFFFFFF):
                return ENCODE(value)
            return ENCODE(pack(value))

        return encode

    def copy_column(self, values: list[Any]) -> list[Any]:
        return values if dynamic.SCALARS.issuperset(map(type, values)) else super().copy_column(values)


SCALAR_TYPES: tuple[TypeInformation, ...] = (
    ScalarType("STRING", str, java_hash_kind="string"),
    ScalarType("BOOLEAN", bool, java_hash_kind="bool"),
    IntegerType("BYTE", 8, "byte"),
    IntegerType("SHORT", 16, "short"),
    IntegerType("INT", 32, "int"),
    IntegerType("LONG", 64, "long"),
    BigIntegerType(),
    FloatType("FLOAT", "float"),
    FloatType("DOUBLE", "double"),
    CharType(),
    ScalarType("BIG_DEC", Decimal, java_hash_kind="decimal"),
    ScalarType("SQL_DATE", date, java_hash_kind="date"),
    ScalarType("SQL_TIME", time, java_hash_kind="time"),
    TimestampType(),
    ScalarType("BYTES", bytes, java_hash_kind="bytes"),
    ScalarType("VOID", NoneType),
    PickledType(),
    DynamicType(),
)
_BY_NAME: dict[str, TypeInformation] = {kind.name: kind for kind in SCALAR_TYPES}


def scalar_type(name: str) -> TypeInformation:
    """Return the type of a name, as in "STRING"; raises ValueError for an unknown one."""
    found = _BY_NAME.get(name)
    if found is None:
        raise ValueError(f"unknown type {name!r} in a stored description")
    return found


def key_rule_of(key_type: TypeInformation | None) -> KeyRule:
    """Return how operators identify keys of a declared type, or of none."""
    return (scalar_type("DYNAMIC") if key_type is None else key_type).key_rule()
