"""The types of values, under PyFlink's names (``Types.STRING()``, ``Types.TUPLE([...])``).

A type decides how a value is checked, copied and written into a snapshot, and which key group a key belongs
to. A snapshot records the descriptor of every type it holds, and a restore compares it with the type that the
job declares. Pickle exists only within ``Types.PICKLED_BYTE_ARRAY()``, for values without a form of
their own, and only if the job allows it.
"""

from __future__ import annotations

from onceproof.engine.flink_names import AnswersForFlink
from onceproof.engine.types.composite import list_type, map_type, tuple_type
from onceproof.engine.types.dataclass import dataclass_type, stored_dataclass
from onceproof.engine.types.dynamic import NotDescribable, PickleForbidden
from onceproof.engine.types.information import Descriptor, TypeInformation, WrongValue
from onceproof.engine.types.row import Row, row_type
from onceproof.engine.types.scalars import scalar_type
from onceproof.engine.types.wrapped import nullable, with_last_access

__all__ = [
    "Descriptor",
    "NotDescribable",
    "PickleForbidden",
    "Row",
    "TypeInformation",
    "Types",
    "WrongValue",
    "from_descriptor",
]


def from_descriptor(descriptor: Descriptor) -> TypeInformation:
    """Return the type of a descriptor read from a snapshot. No class is ever imported by a stored name.

    Raises ValueError for a description of no type, or of one that is nested too deeply.
    """
    try:
        return _described(descriptor)
    except RecursionError:
        raise ValueError("a type in a stored description is nested too deeply") from None
    except TypeError as error:
        raise ValueError(f"unknown type in a stored description: {error}") from None


def _described(descriptor: Descriptor) -> TypeInformation:
    if isinstance(descriptor, str):
        return scalar_type(descriptor)
    match descriptor:
        case ["TUPLE", list() as fields]:
            return tuple_type(_all(fields))
        case ["ROW", None, list() as fields]:
            return row_type(None, _all(fields))
        case ["ROW", list() as names, list() as fields]:
            return row_type(tuple(names), _all(fields))
        case [("LIST" | "BASIC_ARRAY" | "PRIMITIVE_ARRAY" | "OBJECT_ARRAY") as name, element]:
            return list_type(name, _described(element))
        case ["MAP", key, value]:
            return map_type(_described(key), _described(value))
        case ["DATACLASS", str() as name, list() as names, list() as fields]:
            return stored_dataclass(name, tuple(names), _all(fields))
        case ["NULLABLE", inner]:
            return nullable(_described(inner))
        case ["TTL", inner]:
            return with_last_access(_described(inner))
    raise ValueError(f"unknown type {descriptor!r} in a stored description")


def _all(descriptors: list[Descriptor]) -> tuple[TypeInformation, ...]:
    return tuple(map(_described, descriptors))


class Types(metaclass=AnswersForFlink):
    """The types of values, by PyFlink's names (PyFlink: Types)."""

    @staticmethod
    def STRING() -> TypeInformation:
        """Text: ``str``."""
        return scalar_type("STRING")

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """True or False."""
        return scalar_type("BOOLEAN")

    @staticmethod
    def BYTE() -> TypeInformation:
        """A signed integer of 8 bits."""
        return scalar_type("BYTE")

    @staticmethod
    def SHORT() -> TypeInformation:
        """A signed integer of 16 bits."""
        return scalar_type("SHORT")

    @staticmethod
    def INT() -> TypeInformation:
        """A signed integer of 32 bits."""
        return scalar_type("INT")

    @staticmethod
    def LONG() -> TypeInformation:
        """A signed integer of 64 bits."""
        return scalar_type("LONG")

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """An integer of any size."""
        return scalar_type("BIG_INT")

    @staticmethod
    def FLOAT() -> TypeInformation:
        """A float; hashed as Java's 32-bit float, stored with all its 64 bits."""
        return scalar_type("FLOAT")

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """A float of 64 bits."""
        return scalar_type("DOUBLE")

    @staticmethod
    def CHAR() -> TypeInformation:
        """One character."""
        return scalar_type("CHAR")

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """A decimal.Decimal."""
        return scalar_type("BIG_DEC")

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """A datetime.date."""
        return scalar_type("SQL_DATE")

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """A datetime.time."""
        return scalar_type("SQL_TIME")

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """A datetime.datetime without a zone."""
        return scalar_type("SQL_TIMESTAMP")

    @staticmethod
    def VOID() -> TypeInformation:
        """None and nothing else, as the key of a state with one entry (Flink's Java API: Types.VOID)."""
        return scalar_type("VOID")

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any value: plain ones describe themselves; others need ``pipeline.allow-pickled-state``."""
        return scalar_type("PICKLED_BYTE_ARRAY")

    @staticmethod
    def DYNAMIC() -> TypeInformation:
        """Self-describing values; the default of a stream without a type.

        PyFlink's default is PICKLED_BYTE_ARRAY; a snapshot of ours holds no pickle by default.
        """
        return scalar_type("DYNAMIC")

    @staticmethod
    def TUPLE(field_types: list[TypeInformation]) -> TypeInformation:
        """A tuple with a type for each field."""
        return tuple_type(tuple(field_types))

    @staticmethod
    def ROW(field_types: list[TypeInformation]) -> TypeInformation:
        """A Row with a type for each field; fields may be None."""
        return row_type(None, tuple(field_types))

    @staticmethod
    def ROW_NAMED(field_names: list[str], field_types: list[TypeInformation]) -> TypeInformation:
        """A Row with a name and a type for each field; fields may be None."""
        return row_type(tuple(field_names), tuple(field_types))

    @staticmethod
    def DATACLASS(dataclass: type) -> TypeInformation:
        """Objects of a dataclass; the annotation of a field decides its type, and every field may be None.

        Raises:
            TypeError: ``dataclass`` is not one, or the annotation of a field has no type.
        """
        return dataclass_type(dataclass)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """A list of values of one type."""
        return list_type("LIST", element_type_info)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        """A dict with one type for its keys and one for its values."""
        return map_type(key_type_info, value_type_info)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of boxed values."""
        return list_type("BASIC_ARRAY", element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of objects."""
        return list_type("OBJECT_ARRAY", element_type)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """A list of numbers; of BYTE it is ``bytes``."""
        if element_type is scalar_type("BYTE"):
            return scalar_type("BYTES")
        return list_type("PRIMITIVE_ARRAY", element_type)
