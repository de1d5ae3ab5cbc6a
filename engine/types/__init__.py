"""The types of values, under PyFlink's names (``Types.STRING()``, ``Types.TUPLE([...])``).

A type decides how a value is checked, copied and written into a snapshot, and which key group a key falls
into. A snapshot records the description of every type it holds, and a restore compares it with what the
job declares. Pickle exists only as ``Types.PICKLED_BYTE_ARRAY()`` and is read back only on permission.
"""

from __future__ import annotations

from typing import Any

from engine.types.composite import ListType, MapType, TupleType
from engine.types.dynamic import NotDescribable
from engine.types.information import Descriptor, TypeInformation, WrongValue
from engine.types.row import Row, RowType
from engine.types.scalars import SCALAR_TYPES

__all__ = ["Descriptor", "NotDescribable", "Row", "TypeInformation", "Types", "WrongValue", "from_descriptor"]

_SCALARS: dict[str, TypeInformation] = {kind.name: kind for kind in SCALAR_TYPES}
_INTERNED: dict[str, TypeInformation] = {}


def from_descriptor(descriptor: Descriptor) -> TypeInformation:
    """Give the type that a snapshot's description names."""
    if isinstance(descriptor, str):
        scalar = _SCALARS.get(descriptor)
        if scalar is None:
            raise ValueError(f"unknown type {descriptor!r} in a stored description")
        return scalar
    known = _INTERNED.get(repr(descriptor))
    return _build(descriptor) if known is None else known


def _build(descriptor: list[Any]) -> TypeInformation:
    built: TypeInformation
    match descriptor:
        case ["TUPLE", list() as fields]:
            built = TupleType(tuple(from_descriptor(field) for field in fields), descriptor)
        case ["ROW", None, list() as fields]:
            built = RowType(None, tuple(from_descriptor(field) for field in fields), descriptor)
        case ["ROW", list() as names, list() as fields]:
            built = RowType(tuple(names), tuple(from_descriptor(field) for field in fields), descriptor)
        case [("LIST" | "BASIC_ARRAY" | "PRIMITIVE_ARRAY" | "OBJECT_ARRAY") as name, element]:
            built = ListType(name, from_descriptor(element), descriptor)
        case ["MAP", key, value]:
            built = MapType(from_descriptor(key), from_descriptor(value), descriptor)
        case _:
            raise ValueError(f"unknown type {descriptor!r} in a stored description")
    return _INTERNED.setdefault(repr(descriptor), built)


class Types:
    """The types, by PyFlink's names."""

    @staticmethod
    def STRING() -> TypeInformation:
        """Text."""
        return _SCALARS["STRING"]

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """True or False."""
        return _SCALARS["BOOLEAN"]

    @staticmethod
    def BYTE() -> TypeInformation:
        """A signed integer of 8 bits."""
        return _SCALARS["BYTE"]

    @staticmethod
    def SHORT() -> TypeInformation:
        """A signed integer of 16 bits."""
        return _SCALARS["SHORT"]

    @staticmethod
    def INT() -> TypeInformation:
        """A signed integer of 32 bits."""
        return _SCALARS["INT"]

    @staticmethod
    def LONG() -> TypeInformation:
        """A signed integer of 64 bits."""
        return _SCALARS["LONG"]

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """An integer of any size."""
        return _SCALARS["BIG_INT"]

    @staticmethod
    def FLOAT() -> TypeInformation:
        """A float; hashed as Java's 32-bit float, stored with all its 64 bits."""
        return _SCALARS["FLOAT"]

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """A float of 64 bits."""
        return _SCALARS["DOUBLE"]

    @staticmethod
    def CHAR() -> TypeInformation:
        """One character."""
        return _SCALARS["CHAR"]

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """A decimal.Decimal."""
        return _SCALARS["BIG_DEC"]

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """A datetime.date."""
        return _SCALARS["SQL_DATE"]

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """A datetime.time."""
        return _SCALARS["SQL_TIME"]

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """A datetime.datetime without a zone."""
        return _SCALARS["SQL_TIMESTAMP"]

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any object that pickle takes; restored only where the job allows pickled state."""
        return _SCALARS["PICKLED_BYTE_ARRAY"]

    @staticmethod
    def DYNAMIC() -> TypeInformation:
        """Self-describing plain values, tuples, lists and dicts; the default where none is declared."""
        return _SCALARS["DYNAMIC"]

    @staticmethod
    def TUPLE(field_types: list[TypeInformation]) -> TypeInformation:
        """A tuple with a type for each field."""
        return from_descriptor(["TUPLE", [field.descriptor for field in field_types]])

    @staticmethod
    def ROW(field_types: list[TypeInformation]) -> TypeInformation:
        """A Row with a type for each field; fields may be None."""
        return from_descriptor(["ROW", None, [field.descriptor for field in field_types]])

    @staticmethod
    def ROW_NAMED(field_names: list[str], field_types: list[TypeInformation]) -> TypeInformation:
        """A Row with a name and a type for each field; fields may be None."""
        return from_descriptor(["ROW", list(field_names), [field.descriptor for field in field_types]])

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """A list of values of one type."""
        return from_descriptor(["LIST", element_type_info.descriptor])

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        """A dict with one type for its keys and one for its values."""
        return from_descriptor(["MAP", key_type_info.descriptor, value_type_info.descriptor])

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of boxed values."""
        return from_descriptor(["BASIC_ARRAY", element_type.descriptor])

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of objects."""
        return from_descriptor(["OBJECT_ARRAY", element_type.descriptor])

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of numbers; of BYTE it is ``bytes``."""
        if element_type is _SCALARS["BYTE"]:
            return _SCALARS["BYTES"]
        return from_descriptor(["PRIMITIVE_ARRAY", element_type.descriptor])
