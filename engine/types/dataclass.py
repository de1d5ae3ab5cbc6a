"""Dataclasses as values of state: fields by name, each of which may be None.

The rules this module lives by:

- The annotation of a field decides its type.
- A snapshot holds the name of the class and the names and types of its fields. A class is never imported by
  such a name: a stored dataclass becomes an object only if the job declares the class.
- Reading and copying an object calls neither ``__init__`` nor ``__post_init__``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from datetime import date, datetime, time
from decimal import Decimal
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from onceproof.engine.java_hashes import InvalidKey, hash_fields
from onceproof.engine.key_identity import Distinct, distinguish, values_of
from onceproof.engine.types.composite import (
    are_same,
    converted,
    list_type,
    map_type,
    or_none,
    tuple_type,
    wire_type_or_none,
)
from onceproof.engine.types.information import Packer, TypeInformation, WrongValue, interned
from onceproof.engine.types.row import make_row
from onceproof.engine.types.scalars import scalar_type

_OF_ANNOTATION: Final[dict[Any, TypeInformation]] = {
    str: scalar_type("STRING"),
    int: scalar_type("LONG"),
    float: scalar_type("DOUBLE"),
    bool: scalar_type("BOOLEAN"),
    bytes: scalar_type("BYTES"),
    Decimal: scalar_type("BIG_DEC"),
    date: scalar_type("SQL_DATE"),
    time: scalar_type("SQL_TIME"),
    datetime: scalar_type("SQL_TIMESTAMP"),
    Any: scalar_type("DYNAMIC"),
    list: scalar_type("DYNAMIC"),
    dict: scalar_type("DYNAMIC"),
    tuple: scalar_type("DYNAMIC"),
}


class DataclassType(TypeInformation):
    """Objects of one dataclass. The type of a stored dataclass has no class, and its values are rows."""

    __slots__ = ("class_name", "fields", "names")

    def __init__(
        self,
        dataclass: type | None,
        class_name: str,
        names: tuple[str, ...],
        fields: tuple[TypeInformation, ...],
    ) -> None:
        shown = [f"{name}: {field.name}" for name, field in zip(names, fields, strict=True)]
        super().__init__(
            f"{class_name}({', '.join(shown)})",
            descriptor=["DATACLASS", class_name, list(names), [field.descriptor for field in fields]],
            python_type=dataclass,
            wire_type=tuple[tuple([wire_type_or_none(field) for field in fields])],  # type: ignore[misc]
            immutable=_is_frozen(dataclass) and all(field.immutable for field in fields),
            contains_pickle=any(field.contains_pickle for field in fields),
        )
        self.class_name = class_name
        self.names = names
        self.fields = fields
        if dataclass is not None:
            distinguish(dataclass, lambda identity: self.build(values_of(identity[1:])), None)

    def __reduce__(self) -> tuple[Callable[..., TypeInformation], tuple[Any, ...]]:
        if self.python_type is None:
            return stored_dataclass, (self.class_name, self.names, self.fields)
        return dataclass_type, (self.python_type,)

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        for value in values:
            if type(value) is not self.python_type:
                raise WrongValue(value, self.name)
        names = self.names
        packers: list[Packer | None] = []
        for name, field in zip(names, self.fields, strict=True):
            column = [item for item in [getattr(value, name) for value in values] if item is not None]
            packers.append(field.prepare(column, allow_pickle))
        if not any(packers):
            return lambda value: [getattr(value, name) for name in names]
        pairs = list(zip(names, packers, strict=True))
        return lambda value: [_packed(getattr(value, name), pack) for name, pack in pairs]

    def unpacker(self, allow_pickle: bool = False) -> Packer | None:
        unpackers = [field.unpacker(allow_pickle) for field in self.fields]
        return lambda items: self.build(
            [_packed(item, unpack) for item, unpack in zip(items, unpackers, strict=True)]
        )

    def converter(self) -> Packer:
        """Take objects of the class, any field of which may be None; a changed field makes a new object."""
        converters = [or_none(field.converter()) for field in self.fields]

        def place_of(place: int) -> str:
            return f"field {self.names[place]!r}"

        def convert(value: Any) -> Any:
            if type(value) is not self.python_type:
                raise WrongValue(value, self.name)
            items = [getattr(value, name) for name in self.names]
            results = converted(items, converters, place_of)
            return value if are_same(results, items) else self.build(results)

        return convert

    def build(self, values: list[Any]) -> Any:
        """Return an object with these values of its fields, in order."""
        dataclass = self.python_type
        if dataclass is None:
            return make_row(self.names, values)
        made = dataclass.__new__(dataclass)
        for name, value in zip(self.names, values, strict=True):
            object.__setattr__(made, name, value)
        return made

    def copy(self, value: Any) -> Any:
        if self.immutable:
            return value
        copied = []
        for name, field in zip(self.names, self.fields, strict=True):
            item = getattr(value, name)
            copied.append(item if item is None else field.copy(item))
        return self.build(copied)

    def check_key_type(self) -> None:
        if not _is_frozen(self.python_type):
            raise InvalidKey(
                f"{self.name} cannot be a key type: declare the class with @dataclass(frozen=True)"
            )
        for field in self.fields:
            field.check_key_type()

    def identify(self, key: Any) -> Any:
        """Identify a frozen object by its fields, whatever its class makes of equality."""
        if type(key) is not self.python_type:
            raise self.wrong_key(key)
        parts = []
        for name, field in zip(self.names, self.fields, strict=True):
            item = getattr(key, name)
            parts.append(None if item is None else field.identify(item))
        return Distinct((self.python_type, *parts))

    def java_hash(self, key: Any) -> int:
        """Compute the hash of a frozen object's fields, as that of a tuple (Flink: the POJO's hashCode)."""
        if type(key) is not self.python_type:
            raise self.wrong_key(key)
        self.check_key_type()
        return hash_fields(
            [getattr(key, name) for name in self.names], [field.java_hash for field in self.fields]
        )

    def default_of(self, name: str) -> Callable[[], Any] | None:
        """Return a function that makes the default of a field of the class, or None if it has none."""
        if self.python_type is None:
            return None
        for field in dataclasses.fields(self.python_type):
            if field.name == name:
                if field.default_factory is not dataclasses.MISSING:
                    return field.default_factory
                if field.default is not dataclasses.MISSING:
                    default = field.default
                    return lambda: default
        return None


def _packed(item: Any, pack: Packer | None) -> Any:
    return item if item is None or pack is None else pack(item)


def _is_frozen(dataclass: type | None) -> bool:
    parameters: Any = getattr(dataclass, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def dataclass_type(dataclass: Any) -> TypeInformation:
    """Return the type of a dataclass.

    Raises TypeError if it is not a dataclass, or if the annotation of a field has no type.
    """
    return _dataclass_type(dataclass, ())


def stored_dataclass(
    class_name: str, names: tuple[str, ...], fields: tuple[TypeInformation, ...]
) -> TypeInformation:
    """Return the type of a dataclass in a snapshot; its values are read as rows."""
    return interned(DataclassType, None, class_name, names, fields)


def _dataclass_type(dataclass: Any, within: tuple[Any, ...]) -> TypeInformation:
    if not isinstance(dataclass, type) or not dataclasses.is_dataclass(dataclass):
        raise TypeError(f"{dataclass!r} is not a dataclass: give a class that @dataclass has made")
    if dataclass in within:
        raise TypeError(f"dataclass {dataclass.__qualname__} holds itself, which has no typed form")
    hints = get_type_hints(dataclass)
    names, types = [], []
    for field in dataclasses.fields(dataclass):
        names.append(field.name)
        where = f"field {field.name!r} of {dataclass.__qualname__}"
        types.append(_type_of(hints[field.name], where, (*within, dataclass)))
    return interned(DataclassType, dataclass, dataclass.__qualname__, tuple(names), tuple(types))


def _type_of(annotation: Any, where: str, within: tuple[Any, ...]) -> TypeInformation:
    known = _OF_ANNOTATION.get(annotation) if annotation.__hash__ is not None else None
    if known is not None:
        return known
    if dataclasses.is_dataclass(annotation):
        return _dataclass_type(annotation, within)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is UnionType or origin is Union:
        # Every field may be None, so an optional one needs no type of its own.
        others = [argument for argument in arguments if argument is not NoneType]
        return _type_of(others[0], where, within) if len(others) == 1 else scalar_type("DYNAMIC")
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return scalar_type("DYNAMIC")
        return tuple_type(tuple([_type_of(argument, where, within) for argument in arguments]))
    if origin is list:
        return list_type("LIST", _type_of(arguments[0], where, within))
    if origin is dict:
        return map_type(_type_of(arguments[0], where, within), _type_of(arguments[1], where, within))
    raise TypeError(
        f"{where} is annotated {annotation!r}, which has no typed form: "
        "annotate it with plain types, lists, dicts, tuples or dataclasses"
    )
