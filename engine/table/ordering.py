"""How rows are compared: in what order, when they are equal, and by what they are found in a map.

Rules:

- NULL comes first in ascending order and last in descending order, unless the plan says otherwise. NaN is the
  greatest number. An order is a function from a row to a key that Python sorts.
- Two results are equal if ``==`` says so for each column: NaN equals nothing, and 0.0 equals -0.0 (Flink:
  EqualiserCodeGenerator).
- A map that counts values finds a FLOAT or DOUBLE by its bits: NaN is one value, 0.0 and -0.0 are two. Such a
  key is plain data, unlike ``values.identity``.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

from msgspec import Struct

from onceproof.engine.table.types import FLOATS, Field, LogicalType
from onceproof.engine.table.values import Row

SortKey: TypeAlias = Callable[[Row], Any]
Codec: TypeAlias = Callable[[Any], Any]

_NEGATED: Final = frozenset(
    {"TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"}
    | {"INTERVAL_MONTHS", "INTERVAL_MS"}
)
"""The types whose values are ints, so that their negation reverses their order."""


class SortField(Struct, frozen=True):
    """A column of an order."""

    index: int
    ascending: bool
    nulls_last: bool


def read_order(data: Mapping[str, Any]) -> tuple[SortField, ...]:
    """Read a sort specification of a plan."""
    return tuple(
        [SortField(each["index"], each["isAscending"], each["nullIsLast"]) for each in data["fields"]]
    )


class Reversed:
    """A value in reverse order."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and bool(other.value == self.value)

    __hash__ = None  # type: ignore[assignment]


def float_order(value: float) -> tuple[bool, float]:
    """Return what orders a float: NaN is the greatest."""
    return (False, value) if value == value else (True, 0.0)


def value_order(kind: LogicalType, ascending: bool = True) -> Codec:
    """Return the function from a value (not NULL) of a type to what orders it."""
    root = kind.root
    if root in FLOATS:
        return float_order if ascending else lambda value: Reversed(float_order(value))
    if ascending:
        return lambda value: value
    return operator.neg if root in _NEGATED else Reversed


def sort_key(fields: Sequence[SortField], types: Sequence[LogicalType]) -> SortKey:
    """Return the function from a row to a key; sorted by it, rows of these types are in order.

    Args:
        fields: the order; their indices are places in the row.
        types: the types of all columns of the row.
    """
    parts = [_part(field, types[field.index]) for field in fields]
    if len(parts) == 1:
        return parts[0]
    return lambda row: tuple([part(row) for part in parts])


def _part(field: SortField, kind: LogicalType) -> SortKey:
    index, order = field.index, value_order(kind, field.ascending)
    null, present = ((1,), 0) if field.nulls_last else ((0,), 1)

    def part(row: Row) -> Any:
        value = row[index]
        return null if value is None else (present, order(value))

    return part


def row_equality(types: Iterable[LogicalType]) -> Callable[[Row, Row], bool]:
    """Return whether two rows of these types have the same content."""
    if not any(kind.root in FLOATS for kind in types):
        return operator.eq
    return lambda first, second: all(map(operator.eq, first, second))


def fields_of(fields: Sequence[int]) -> Callable[[Row], Row]:
    """Return the function from a row to the row of some of its columns."""
    if len(fields) > 1:
        return itemgetter(*fields)
    if not fields:
        return lambda row: ()
    (field,) = fields
    return lambda row: (row[field],)


def _same(value: Any) -> Any:
    return value


def key_codec(kind: LogicalType) -> tuple[Codec, Codec]:
    """Return the functions from a value of a type to a key of a map, and back; NULL stays None."""
    match kind.root:
        case "FLOAT" | "DOUBLE":
            return _float_key, _float_value
        case "ROW" | "STRUCTURED":
            codecs = [key_codec(each) for each in kind.types]
            if all(encode is _same for encode, _ in codecs):
                return _same, _same
            encodes, decodes = zip(*codecs, strict=True)
            return _apply_each(encodes), _apply_each(decodes)
        case "ARRAY":
            encode, decode = key_codec(kind.element)
            return (encode, decode) if encode is _same else (_apply_all(encode), _apply_all(decode))
        case "MAP":
            pair = row_codec(kind.arguments)
            return (_apply_all(pair[0]), _apply_all(pair[1])) if pair[0] is not _same else pair
        case "MULTISET":
            return key_codec(LogicalType("MAP", arguments=(*kind.arguments, LogicalType("INT"))))
    return _same, _same


def row_codec(types: Iterable[LogicalType]) -> tuple[Codec, Codec]:
    """Return the functions from a row of these types to a key of a map, and back."""
    return key_codec(LogicalType("ROW", fields=tuple([Field("", kind) for kind in types])))


def _float_key(value: float | None) -> bytes | None:
    if value is None:
        return None
    return struct.pack(">d", value if value == value else float("nan"))


def _float_value(key: bytes | None) -> float | None:
    return None if key is None else struct.unpack(">d", key)[0]


def _apply_each(codecs: Sequence[Codec]) -> Codec:
    return lambda row: (
        None if row is None else tuple([codec(each) for codec, each in zip(codecs, row, strict=True)])
    )


def _apply_all(codec: Codec) -> Codec:
    return lambda values: None if values is None else tuple(map(codec, values))
