"""Rows: tuples whose fields may be None and may have names (PyFlink: Row)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec.msgpack import Ext, encode

from onceproof.engine.flink_names import missing_member
from onceproof.engine.java_hashes import hash_as, hash_fields, hash_row, signed
from onceproof.engine.key_identity import Distinct, distinguish, identity_of, values_of
from onceproof.engine.types.composite import are_same, converted, field_at, or_none, wire_type_or_none
from onceproof.engine.types.dynamic import ROW
from onceproof.engine.types.fitting import fields_check
from onceproof.engine.types.information import Packer, TypeInformation, WrongValue, interned
from onceproof.engine.types.objects import describe
from onceproof.engine.types.row_kind import RowKind

ROW_HASHED: Final[list[bool]] = []
"""Holds something once a row has been hashed: a tuple whose hash was asked for may hold a row."""


class Row:
    """A tuple whose fields may be None and may have names (PyFlink: Row).

    ``Row(1, "a")`` has fields by position, ``Row(id=1, name="a")`` by position and by name.

    Raises:
        ValueError: fields are given both by position and by name.
    """

    __slots__ = ("_kind", "_names", "_values")

    has_fields_in_order = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("a row takes fields by position or by name, not both")
        self._values: list[Any] = list(kwargs.values()) if kwargs else list(args)
        self._names: tuple[str, ...] | None = tuple(kwargs) if kwargs else None
        self._kind = 0

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Return a row that is a change of a kind."""
        row = Row(*args, **kwargs)
        row._kind = row_kind.value
        return row

    def get_row_kind(self) -> RowKind:
        """Return which kind of change the row is; INSERT, unless it was set."""
        return RowKind(self._kind)

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set which kind of change the row is."""
        self._kind = row_kind.value

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the fields, in order."""
        if len(field_names) != len(self._values):
            raise ValueError(f"{len(field_names)} names for a row of {len(self._values)} fields")
        self._names = tuple(field_names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Return the values of the fields of these names."""
        return [self[name] for name in names]

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return name -> value; ``recursive`` converts rows within the row as well.

        Raises:
            TypeError: the row has no names.
        """
        if self._names is None:
            raise TypeError("a row without names cannot become a dict")
        return {
            name: value.as_dict(True) if recursive and isinstance(value, Row) else value
            for name, value in zip(self._names, self._values, strict=True)
        }

    def _place(self, key: int | str) -> int:
        if isinstance(key, int):
            return key
        if self._names is None or key not in self._names:
            known = "none" if self._names is None else ", ".join(self._names)
            raise KeyError(f"the row has no field {key!r}: its names are {known}")
        return self._names.index(key)

    def __getitem__(self, key: int | str) -> Any:
        return self._values[self._place(key)]

    def __setitem__(self, key: int | str, value: Any) -> None:
        self._values[self._place(key)] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(missing_member(Row, name, error.args[0])) from None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        same = self._values == other._values and self._names == other._names
        return same and self._kind == other._kind

    def __hash__(self) -> int:
        if not ROW_HASHED:
            ROW_HASHED.append(True)
        return hash(tuple(self._values))

    def __repr__(self) -> str:
        if self._names is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        fields = zip(self._names, self._values, strict=True)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in fields)})"

    def __copy__(self) -> Row:
        return make_row(self._names, self._values, self._kind)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        kind = (self._kind,) if self._kind else ()
        return make_row, (self._names, self._values, *kind)


def make_row(names: tuple[str, ...] | None, values: Collection[Any], kind: int = 0) -> Row:
    """Return a row of these values; ``names`` None: by position only; ``kind``: as in RowKind."""
    row = Row.__new__(Row)
    row._values = list(values)
    row._names = names
    row._kind = kind
    return row


def row_like(row: Row, values: Collection[Any]) -> Row:
    """Return a row of other values with the field names and the kind of ``row``."""
    return make_row(row._names, values, row._kind)


def _described(row: Row) -> list[Any]:
    names = row._names
    kind = [row._kind] if row._kind else []
    return [*kind, None if names is None else list(names), *row._values]


def _of_description(parts: list[Any]) -> Row:
    kind = parts.pop(0) if isinstance(parts[0], int) else 0
    names, *values = parts
    row = make_row(None, values, kind)
    if names is not None:
        row.set_field_names(names)
    return row


def _identity(row: Row) -> Distinct:
    return Distinct((Row, row._names, *map(identity_of, row._values)))


describe(Row, ROW, _described, _of_description)
distinguish(Row, lambda parts: make_row(parts[1], values_of(parts[2:])), _identity)
hash_as(Row, lambda row: hash_row(row._values))


_SEQUENCES: Final = (tuple, list, Row)


class RowType(TypeInformation):
    """A row with a type for each field, any of which may be None."""

    __slots__ = ("_plain_wire", "fields", "names")

    def __init__(self, names: tuple[str, ...] | None, fields: tuple[TypeInformation, ...]) -> None:
        if names is not None and len(names) != len(fields):
            raise ValueError(f"{len(names)} names for {len(fields)} types of a row")
        shown = (
            [field.name for field in fields]
            if names is None
            else [f"{name}: {field.name}" for name, field in zip(names, fields, strict=True)]
        )
        super().__init__(
            f"ROW({', '.join(shown)})",
            descriptor=[
                "ROW",
                None if names is None else list(names),
                [field.descriptor for field in fields],
            ],
            python_type=Row,
            wire_type=tuple[tuple(wire_type_or_none(field) for field in fields)],  # type: ignore[misc]
            immutable=False,
            contains_pickle=any(field.contains_pickle for field in fields),
            java_hash_kind="row",
        )
        self._plain_wire = self.wire_type
        # A row of another kind than INSERT is an extension, whose code is the kind.
        self.wire_type = self.wire_type | msgspec.msgpack.Ext
        self.fields = fields
        self.names = names

    def __reduce__(self) -> tuple[Callable[..., TypeInformation], tuple[Any, ...]]:
        return row_type, (self.names, self.fields)

    def prepare(self, values: Collection[Any], allow_pickle: bool = False) -> Packer | None:
        for value in values:
            if type(value) is not Row or len(value) != len(self.fields) or value._names != self.names:
                raise WrongValue(value, self.name)
        packers: list[Packer | None] = [None] * len(self.fields)
        for place, field in enumerate(self.fields):
            column = [row._values[place] for row in values if row._values[place] is not None]
            packers[place] = field.prepare(column, allow_pickle)
        pack_fields: Packer = list
        if any(packers):
            pack_fields = lambda row: [  # noqa: E731
                item if pack is None or item is None else pack(item)
                for item, pack in zip(row, packers, strict=True)
            ]
        if not any(row._kind for row in values):
            return pack_fields
        return lambda row: Ext(row._kind, encode(pack_fields(row))) if row._kind else pack_fields(row)

    def unpacker(self, allow_pickle: bool = False) -> Packer | None:
        names = self.names
        unpackers = [field.unpacker(allow_pickle) for field in self.fields]
        unpack_fields: Packer = list
        if any(unpackers):
            unpack_fields = lambda fields: [  # noqa: E731
                item if unpack is None or item is None else unpack(item)
                for item, unpack in zip(fields, unpackers, strict=True)
            ]
        decode = msgspec.msgpack.Decoder(self._plain_wire).decode

        def unpack_row(wire: Any) -> Row:
            if type(wire) is Ext:
                return make_row(names, unpack_fields(decode(wire.data)), wire.code)
            return make_row(names, unpack_fields(wire))

        return unpack_row

    def converter(self) -> Packer:
        """Take a row, tuple or list with so many fields, or what has fields by name, as PyFlink does.

        Of a dict, an object, or a row with names the fields of this type are taken by name.
        """
        names, count, fields_of = self.names, len(self.fields), self._fields_of
        converters = [or_none(field.converter()) for field in self.fields]
        place_of = field_at if names is None else lambda place: f"field {names[place]!r}"
        fit = fields_check(self.fields)

        def convert(value: Any) -> Any:
            is_row = type(value) is Row
            if is_row and value._names == names and len(value._values) == count:
                items = value._values
                if fit is not None and fit(items):
                    return value
            else:
                is_row = False
                items = fields_of(value)
                if fit is not None and fit(items):
                    return make_row(names, items, getattr(value, "_kind", 0))
            results = converted(items, converters, place_of)
            if is_row and are_same(results, items):
                return value
            return make_row(names, results, getattr(value, "_kind", 0))

        return convert

    def _fields_of(self, value: Any) -> Sequence[Any]:
        """Return the fields of a value in the order of this type."""
        count, names = len(self.fields), self.names
        own = value._names if isinstance(value, Row) else None
        if own is not None and names is not None and own != names:
            missing = [name for name in names if name not in own]
            if missing:
                raise WrongValue(value, self.name, f"it has no field {missing[0]!r}")
            return [value[name] for name in names]
        if isinstance(value, _SEQUENCES):
            if len(value) != count:
                raise WrongValue(value, self.name, f"it has {len(value)} fields")
            return value._values if isinstance(value, Row) else value
        if names is None:
            raise WrongValue(value, self.name)
        if isinstance(value, dict):
            found = value
        elif isinstance(value, type):
            raise WrongValue(value, self.name)
        elif dataclasses.is_dataclass(value):
            found = {name: getattr(value, name) for name in names if hasattr(value, name)}
        else:
            found = getattr(value, "__dict__", {})
        if not any(name in found for name in names):
            raise WrongValue(value, self.name, "it has none of the fields")
        return [found.get(name) for name in names]

    def copy(self, value: Any) -> Any:
        return make_row(
            value._names,
            [
                item if item is None else field.copy(item)
                for field, item in zip(self.fields, value, strict=False)
            ],
            value._kind,
        )

    def check_key_type(self) -> None:
        for field in self.fields:
            field.check_key_type()

    def identify(self, key: Any) -> Any:
        """Identify a row by the fields; without names of its own it gets those of the type."""
        fields = self.fields
        if type(key) is not Row or len(key) != len(fields) or key._names not in (None, self.names):
            raise self.wrong_key(key)
        parts = [
            None if item is None else field.identify(item)
            for field, item in zip(fields, key._values, strict=True)
        ]
        return Distinct((Row, self.names, *parts))

    def java_hash(self, key: Any) -> int:
        """Compute ``Row.hashCode`` of a row by position: the hash of its fields as an array."""
        if type(key) is not Row or len(key) != len(self.fields):
            raise self.wrong_key(key)
        code = hash_fields(key._values, [field.java_hash for field in self.fields])
        return signed((code + 31 ** len(self.fields)) * 961)


def row_type(names: tuple[str, ...] | None, fields: tuple[TypeInformation, ...]) -> TypeInformation:
    """Return the type of rows with these fields; ``names`` None: by position only."""
    return interned(RowType, names, fields)
