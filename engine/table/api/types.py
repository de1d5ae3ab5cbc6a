# ruff: noqa: N802 - PyFlink's names
"""The types of columns under PyFlink's names, and what they are for streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from onceproof.engine.graph import InvalidJob
from onceproof.engine.table.python_values import SCALARS
from onceproof.engine.table.types import LONGEST, Field, LogicalType, parse_type
from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.types.composite import ListType, MapType, TupleType
from onceproof.engine.types.row import RowType


class DataType:
    """The type of a column (PyFlink: DataType)."""

    def __init__(self, logical: LogicalType) -> None:
        self.logical = logical

    def not_null(self) -> DataType:
        """Return the type without NULL."""
        return DataType(self.logical.as_nullable(False))

    def nullable(self) -> DataType:
        """Return the type with NULL."""
        return DataType(self.logical.as_nullable())

    def field_names(self) -> list[str]:
        """Return the names of the fields of a ROW."""
        return self.logical.names

    def of_streams(self) -> TypeInformation:
        """Return the type of streams for values of this one. Raises InvalidJob if there is none."""
        return _to_stream(self.logical)

    def __str__(self) -> str:
        return str(self.logical)

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return self.logical == other.logical if isinstance(other, DataType) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.logical)


class DataField(NamedTuple):
    """A field of a ROW."""

    name: str
    type: DataType


def _simple(root: str) -> Callable[..., DataType]:
    def make(nullable: bool = True) -> DataType:
        return DataType(LogicalType(root, nullable))

    return make


def _precise(root: str, default: int | None) -> Callable[..., DataType]:
    def make(precision: int | None = default, nullable: bool = True) -> DataType:
        if precision is None:
            raise TypeError(f"{root} needs a length")
        return DataType(LogicalType(root, nullable, precision=precision))

    return make


class DataTypes:
    """The types of columns (PyFlink: DataTypes)."""

    BOOLEAN = staticmethod(_simple("BOOLEAN"))
    TINYINT = staticmethod(_simple("TINYINT"))
    SMALLINT = staticmethod(_simple("SMALLINT"))
    INT = staticmethod(_simple("INT"))
    BIGINT = staticmethod(_simple("BIGINT"))
    FLOAT = staticmethod(_simple("FLOAT"))
    DOUBLE = staticmethod(_simple("DOUBLE"))
    DATE = staticmethod(_simple("DATE"))
    NULL = staticmethod(_simple("NULL"))
    CHAR = staticmethod(_precise("CHAR", None))
    VARCHAR = staticmethod(_precise("VARCHAR", None))
    BINARY = staticmethod(_precise("BINARY", None))
    VARBINARY = staticmethod(_precise("VARBINARY", None))
    TIME = staticmethod(_precise("TIME", 0))
    TIMESTAMP = staticmethod(_precise("TIMESTAMP", 6))
    TIMESTAMP_LTZ = staticmethod(_precise("TIMESTAMP_LTZ", 6))
    TIMESTAMP_WITH_LOCAL_TIME_ZONE = TIMESTAMP_LTZ

    @staticmethod
    def STRING(nullable: bool = True) -> DataType:
        """Text."""
        return DataType(LogicalType("VARCHAR", nullable, precision=LONGEST))

    @staticmethod
    def BYTES(nullable: bool = True) -> DataType:
        """Bytes."""
        return DataType(LogicalType("VARBINARY", nullable, precision=LONGEST))

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DataType:
        """Decimals with so many digits, ``scale`` of them behind the point."""
        return DataType(LogicalType("DECIMAL", nullable, precision=precision, scale=scale))

    @staticmethod
    def ARRAY(element_type: DataType, nullable: bool = True) -> DataType:
        """Lists of values of one type."""
        return DataType(LogicalType("ARRAY", nullable, arguments=(logical_of(element_type),)))

    LIST_VIEW = ARRAY

    @staticmethod
    def MULTISET(element_type: DataType, nullable: bool = True) -> DataType:
        """Values of one type with their counts."""
        return DataType(LogicalType("MULTISET", nullable, arguments=(logical_of(element_type),)))

    @staticmethod
    def MAP(key_type: DataType, value_type: DataType, nullable: bool = True) -> DataType:
        """Dicts with one type for keys and one for values."""
        arguments = (logical_of(key_type), logical_of(value_type))
        return DataType(LogicalType("MAP", nullable, arguments=arguments))

    MAP_VIEW = MAP

    @staticmethod
    def FIELD(name: str, data_type: DataType, description: str | None = None) -> DataField:
        """A field of a ROW; its description is not kept."""
        return DataField(name, data_type)

    @staticmethod
    def ROW(row_fields: Sequence[DataField] = (), nullable: bool = True) -> DataType:
        """Rows with these fields."""
        fields = tuple([Field(name, logical_of(kind)) for name, kind in row_fields])
        return DataType(LogicalType("ROW", nullable, fields=fields))

    @staticmethod
    def SECOND(precision: int = 6) -> DataType:
        """A resolution of INTERVAL."""
        return DataType(parse_type(f"INTERVAL SECOND({precision})"))

    @staticmethod
    def INTERVAL(upper_resolution: DataType, lower_resolution: DataType | None = None) -> DataType:
        """Spans of time."""
        return upper_resolution


def logical_of(kind: Any) -> LogicalType:
    """Return the logical type of a DataType, its text, or a type of streams. Raises InvalidJob."""
    if isinstance(kind, DataType):
        return kind.logical
    if isinstance(kind, str):
        return parse_type(kind)
    if isinstance(kind, TypeInformation):
        return _of_stream(kind)
    raise InvalidJob(f"{kind!r} is not a type of columns: give one of DataTypes, such as DataTypes.INT()")


_STREAM_TYPES: Final[Mapping[str, str]] = {
    "BOOLEAN": "BOOLEAN",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INT": "INT",
    "LONG": "BIGINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "STRING": "STRING",
    "CHAR": "CHAR(1)",
    "BIG_INT": "DECIMAL(38, 0)",
    "BIG_DEC": "DECIMAL(38, 18)",
    "SQL_DATE": "DATE",
    "SQL_TIME": "TIME(0)",
    "SQL_TIMESTAMP": "TIMESTAMP(9)",
    "INSTANT": "TIMESTAMP_LTZ(9)",
    "BYTES": "BYTES",
}
"""Flink: TypeInfoDataTypeConverter."""


def _of_stream(kind: TypeInformation) -> LogicalType:
    if isinstance(kind, RowType | TupleType):
        names = getattr(kind, "names", None) or [f"f{place}" for place in range(len(kind.fields))]
        fields = zip(names, kind.fields, strict=True)
        return LogicalType("ROW", fields=tuple([Field(name, _of_stream(field)) for name, field in fields]))
    if isinstance(kind, ListType):
        return LogicalType("ARRAY", arguments=(_of_stream(kind.element),))
    if isinstance(kind, MapType):
        return LogicalType("MAP", arguments=(_of_stream(kind.key), _of_stream(kind.value)))
    text = _STREAM_TYPES.get(kind.name)
    if text is None:
        raise InvalidJob(f"values of type {kind.name} cannot be columns: declare the type of the stream")
    return parse_type(text)


_TO_STREAM: Final[Mapping[str, Callable[[], TypeInformation]]] = {
    **SCALARS,
    "TIME": Types.SQL_TIME,
    "TIMESTAMP": Types.SQL_TIMESTAMP,
}


def _to_stream(kind: LogicalType) -> TypeInformation:
    match kind.root:
        case "ROW":
            return Types.ROW_NAMED(kind.names, [_to_stream(each) for each in kind.types])
        case "ARRAY":
            return Types.LIST(_to_stream(kind.arguments[0]))
        case "MAP":
            return Types.MAP(*[_to_stream(each) for each in kind.arguments])
    if kind.root not in _TO_STREAM:
        raise InvalidJob(f"{kind} is a type of columns, and streams have none for it")
    return _TO_STREAM[kind.root]()


def columns_of(kind: TypeInformation) -> LogicalType:
    """Return the ROW of the columns of a stream: its fields, or one column ``f0``. Raises InvalidJob."""
    found = _of_stream(kind)
    return found if found.root == "ROW" else LogicalType("ROW", fields=(Field("f0", found),))
