"""The composite types: tuples, lists and maps. A column of them is checked field by field.

None is a field, an element or a key where its type admits None. Values of maps, and elements of BASIC_ARRAY
and OBJECT_ARRAY, may always be None, because Flink's serializers mark them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import chain, repeat
from operator import is_, itemgetter
from typing import Any, Final

from onceproof.engine.java_hashes import hash_fields
from onceproof.engine.key_identity import Distinct
from onceproof.engine.types.information import Packer, TypeInformation, WrongValue, interned

_SEQUENCES: Final = (tuple, list)
_WITHOUT_NONE: Final = ("LIST", "PRIMITIVE_ARRAY")
"""The lists whose elements cannot be None where they leave an operator."""


def converted(
    items: Iterable[Any], converters: Iterable[Packer | None], place_of: Callable[[int], str]
) -> list[Any]:
    """Return the items, each converted by its converter; WrongValue says at which place it was raised."""
    results: list[Any] = []
    try:
        for item, convert in zip(items, converters, strict=False):
            results.append(item if convert is None else convert(item))
    except WrongValue as error:
        error.path.append(place_of(len(results)))
        raise
    return results


def are_same(items: Iterable[Any], others: Iterable[Any]) -> bool:
    """Return whether two collections of equal length hold the same objects."""
    return all(map(is_, items, others))


def or_none(convert: Packer | None) -> Packer | None:
    """Return a converter that lets None pass."""
    return None if convert is None else lambda value: None if value is None else convert(value)


def prepared(kind: TypeInformation, values: Collection[Any], allow_pickle: bool) -> Packer | None:
    """Return ``kind.prepare`` of a column of which values may be None.

    Most columns hold no None, so they are looked at a second time only where the type refuses one.
    """
    try:
        pack = kind.prepare(values, allow_pickle)
    except WrongValue:
        present = [value for value in values if value is not None]
        if len(present) == len(values):
            raise
        pack = kind.prepare(present, allow_pickle)
    return or_none(pack)


def wire_type_or_none(kind: TypeInformation) -> Any:
    """Return the wire type of values of a type that may be None."""
    return kind.wire_type if kind.admits_none else kind.wire_type | None


def field_at(place: int) -> str:
    """Return how messages call a field without a name."""
    return f"field {place}"


class TupleType(TypeInformation):
    """A tuple with a type for each field."""

    __slots__ = ("fields",)

    def __init__(self, fields: tuple[TypeInformation, ...]) -> None:
        super().__init__(
            f"TUPLE([{', '.join(field.name for field in fields)}])",
            descriptor=["TUPLE", [field.descriptor for field in fields]],
            python_type=tuple,
            wire_type=tuple[tuple(field.wire_type for field in fields)],  # type: ignore[misc]
            immutable=all(field.immutable for field in fields),
            contains_pickle=any(field.contains_pickle for field in fields),
            java_hash_kind="tuple",
        )
        self.fields = fields

    def __reduce__(self) -> tuple[Callable[..., TypeInformation], tuple[Any, ...]]:
        return tuple_type, (self.fields,)

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        if not values:
            return None
        arity = len(self.fields)
        if set(map(type, values)) != {tuple} or set(map(len, values)) != {arity}:
            for value in values:
                if type(value) is not tuple or len(value) != arity:
                    raise WrongValue(value, self.name)
        # Not zip(*values): an iterator for each value would have the garbage collector run all the time.
        packers = [
            field.prepare(list(map(itemgetter(place), values)), allow_pickle)
            for place, field in enumerate(self.fields)
        ]
        if not any(packers):
            return None
        return lambda value: tuple(
            [item if pack is None else pack(item) for item, pack in zip(value, packers, strict=True)]
        )

    def unpacker(self, allow_pickle: bool = False) -> Packer | None:
        unpackers = [field.unpacker(allow_pickle) for field in self.fields]
        if not any(unpackers):
            return None
        return lambda value: tuple(
            [item if unpack is None else unpack(item) for item, unpack in zip(value, unpackers, strict=True)]
        )

    def converter(self) -> Packer:
        """Take a tuple, a list or anything else with so many fields in order, as a Row."""
        converters = [field.converter() for field in self.fields]

        def convert(value: Any) -> Any:
            kind = type(value)
            is_sequence = isinstance(value, _SEQUENCES) or getattr(kind, "has_fields_in_order", False)
            if not is_sequence or len(value) != len(converters):
                hint = f"it has {len(value)} fields" if is_sequence else ""
                raise WrongValue(value, self.name, hint)
            items = converted(value, converters, field_at)
            return value if kind is tuple and are_same(items, value) else tuple(items)

        return convert

    def copy(self, value: Any) -> Any:
        if self.immutable:
            return value
        return tuple([field.copy(item) for field, item in zip(self.fields, value, strict=True)])

    def check_key_type(self) -> None:
        for field in self.fields:
            field.check_key_type()

    def identify(self, key: Any) -> Any:
        fields = self.fields
        if type(key) is not tuple or len(key) != len(fields):
            raise self.wrong_key(key)
        parts = [
            None if item is None and field.admits_none else field.identify(item)
            for field, item in zip(fields, key, strict=True)
        ]
        return key if are_same(parts, key) else Distinct((tuple, *parts))

    def java_hash(self, key: Any) -> int:
        if type(key) is not tuple or len(key) != len(self.fields):
            raise self.wrong_key(key)
        return hash_fields(key, [field.java_hash for field in self.fields])


class ListType(TypeInformation):
    """A list of values of one type (PyFlink's LIST and its arrays)."""

    __slots__ = ("element", "has_nulls", "kind")

    def __init__(self, name: str, element: TypeInformation) -> None:
        super().__init__(
            f"{name}({element.name})",
            descriptor=[name, element.descriptor],
            python_type=list,
            wire_type=list[element.wire_type if name in _WITHOUT_NONE else wire_type_or_none(element)],  # type: ignore[misc]
            immutable=False,
            contains_pickle=element.contains_pickle,
        )
        self.kind = name
        self.element = element
        self.has_nulls = name not in _WITHOUT_NONE

    def __reduce__(self) -> tuple[Callable[..., TypeInformation], tuple[Any, ...]]:
        return list_type, (self.kind, self.element)

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        for value in values:
            if type(value) is not list:
                raise WrongValue(value, self.name)
        elements = list(chain.from_iterable(values))
        prepare = partial(prepared, self.element) if self.has_nulls else self.element.prepare
        pack = prepare(elements, allow_pickle)
        return None if pack is None else lambda value: [pack(item) for item in value]

    def unpacker(self, allow_pickle: bool = False) -> Packer | None:
        unpack = self.element.unpacker(allow_pickle)
        if self.has_nulls:
            unpack = or_none(unpack)
        return None if unpack is None else lambda value: [unpack(item) for item in value]

    def converter(self) -> Packer:
        """Take a list or a tuple; elements of BASIC_ARRAY and OBJECT_ARRAY may be None, as in PyFlink."""
        convert_element = self.element.converter()
        if self.has_nulls:
            convert_element = or_none(convert_element)

        def convert(value: Any) -> Any:
            if not isinstance(value, _SEQUENCES):
                raise WrongValue(value, self.name)
            if convert_element is None:
                return value if type(value) is list else list(value)
            items = converted(value, repeat(convert_element), lambda place: f"element {place}")
            return value if type(value) is list and are_same(items, value) else items

        return convert

    def copy(self, value: Any) -> Any:
        if self.element.immutable:
            return list(value)
        copy = self.element.copy
        return [None if item is None else copy(item) for item in value]

    def copy_elements(self, table: dict[Any, Any]) -> dict[Any, Any]:
        if self.element.immutable:
            return table
        copy = self.element.copy_column
        return {entry: copy(elements) for entry, elements in table.items()}


class MapType(TypeInformation):
    """A dict with one type for its keys and one for its values."""

    __slots__ = ("key", "value")

    def __init__(self, key: TypeInformation, value: TypeInformation) -> None:
        super().__init__(
            f"MAP({key.name}, {value.name})",
            descriptor=["MAP", key.descriptor, value.descriptor],
            python_type=dict,
            wire_type=list[tuple[key.wire_type, wire_type_or_none(value)]],  # type: ignore[misc,name-defined]
            immutable=False,
            contains_pickle=key.contains_pickle or value.contains_pickle,
        )
        self.key = key
        self.value = value

    def __reduce__(self) -> tuple[Callable[..., TypeInformation], tuple[Any, ...]]:
        return map_type, (self.key, self.value)

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        for value in values:
            if type(value) is not dict:
                raise WrongValue(value, self.name)
        pack_key = self.key.prepare(list(chain.from_iterable(values)), allow_pickle)
        pack_value = prepared(
            self.value, list(chain.from_iterable(value.values() for value in values)), allow_pickle
        )
        if pack_key is None and pack_value is None:
            return lambda value: list(value.items())
        return lambda value: [
            (
                key if pack_key is None else pack_key(key),
                item if pack_value is None else pack_value(item),
            )
            for key, item in value.items()
        ]

    def unpacker(self, allow_pickle: bool = False) -> Packer | None:
        unpack_key, unpack_value = self.key.unpacker(allow_pickle), or_none(self.value.unpacker(allow_pickle))
        if unpack_key is None and unpack_value is None:
            return dict
        return lambda pairs: {
            (key if unpack_key is None else unpack_key(key)): (
                item if unpack_value is None else unpack_value(item)
            )
            for key, item in pairs
        }

    def converter(self) -> Packer:
        """Take a dict, whose values may be None, as in PyFlink."""
        convert_key, convert_value = self.key.converter(), or_none(self.value.converter())

        def convert(value: Any) -> Any:
            if not isinstance(value, dict):
                raise WrongValue(value, self.name)
            keys = converted(value, repeat(convert_key), lambda place: f"key {list(value)[place]!r}")
            items = converted(
                value.values(), repeat(convert_value), lambda place: f"value of {list(value)[place]!r}"
            )
            is_same = type(value) is dict and are_same(keys, value) and are_same(items, value.values())
            return value if is_same else dict(zip(keys, items, strict=True))

        return convert

    def copy(self, value: Any) -> Any:
        if self.value.immutable:
            return dict(value)
        copy = self.value.copy
        return {key: None if item is None else copy(item) for key, item in value.items()}

    def copy_elements(self, table: dict[Any, Any]) -> dict[Any, Any]:
        if self.value.immutable:
            return table
        copy = self.value.copy_column
        copied = {}
        for entry, values in table.items():
            column = list(values.values())
            items = copy(column)
            copied[entry] = values if items is column else dict(zip(values, items, strict=True))
        return copied


def tuple_type(fields: tuple[TypeInformation, ...]) -> TypeInformation:
    """Return the type of tuples with these fields."""
    return interned(TupleType, fields)


def list_type(kind: str, element: TypeInformation) -> TypeInformation:
    """Return the type of lists of these elements; ``kind`` is LIST or one of PyFlink's arrays."""
    return interned(ListType, kind, element)


def map_type(key: TypeInformation, value: TypeInformation) -> TypeInformation:
    """Return the type of dicts with these keys and values."""
    return interned(MapType, key, value)
