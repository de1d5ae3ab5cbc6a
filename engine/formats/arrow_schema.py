"""The schemas of Arrow, and so of Parquet, for the types of rows and the schemas of Avro.

Each column may be null, as each field of a row may be None. A field of an Avro record may be null only where
its schema says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.formats.avro_schema import AvroSchema
from onceproof.engine.types import TypeInformation
from onceproof.engine.types.composite import ListType, MapType
from onceproof.engine.types.row import RowType

if TYPE_CHECKING:
    import pyarrow

AVRO_SCHEMA: Final = b"parquet.avro.schema"
"""Where Avro's readers of Parquet look for the schema."""
_DECIMAL_DIGITS: Final = (38, 18)
_SCALARS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "STRING": lambda arrow: arrow.string(),
    "CHAR": lambda arrow: arrow.string(),
    "BOOLEAN": lambda arrow: arrow.bool_(),
    "BYTE": lambda arrow: arrow.int8(),
    "SHORT": lambda arrow: arrow.int16(),
    "INT": lambda arrow: arrow.int32(),
    "LONG": lambda arrow: arrow.int64(),
    "FLOAT": lambda arrow: arrow.float32(),
    "DOUBLE": lambda arrow: arrow.float64(),
    "BIG_DEC": lambda arrow: arrow.decimal128(*_DECIMAL_DIGITS),
    "BYTES": lambda arrow: arrow.binary(),
    "SQL_DATE": lambda arrow: arrow.date32(),
    "SQL_TIME": lambda arrow: arrow.time64("us"),
    "SQL_TIMESTAMP": lambda arrow: arrow.timestamp("us"),
}
_AVRO_SCALARS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "null": lambda arrow: arrow.null(),
    "boolean": lambda arrow: arrow.bool_(),
    "int": lambda arrow: arrow.int32(),
    "long": lambda arrow: arrow.int64(),
    "float": lambda arrow: arrow.float32(),
    "double": lambda arrow: arrow.float64(),
    "bytes": lambda arrow: arrow.binary(),
    "string": lambda arrow: arrow.string(),
    "enum": lambda arrow: arrow.string(),
}
_AVRO_TIMES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "date": lambda arrow: arrow.date32(),
    "time-millis": lambda arrow: arrow.time32("ms"),
    "time-micros": lambda arrow: arrow.time64("us"),
    "timestamp-millis": lambda arrow: arrow.timestamp("ms", tz="UTC"),
    "timestamp-micros": lambda arrow: arrow.timestamp("us", tz="UTC"),
    "local-timestamp-millis": lambda arrow: arrow.timestamp("ms"),
    "local-timestamp-micros": lambda arrow: arrow.timestamp("us"),
}


def arrow_schema_of_rows(row_type: TypeInformation) -> pyarrow.Schema:
    """Return the schema of rows with names. Raises TypeError for another type, or one that Arrow lacks."""
    import pyarrow

    if not isinstance(row_type, RowType) or row_type.names is None:
        raise TypeError(
            f"{row_type!r} is not a row with names: give DataTypes.ROW([DataTypes.FIELD(...)]), or"
            " Types.ROW_NAMED"
        )
    pairs = zip(row_type.names, row_type.fields, strict=True)
    return pyarrow.schema([(name, _of_type(kind, f"column {name!r}")) for name, kind in pairs])


def _of_type(kind: TypeInformation, what: str) -> Any:
    import pyarrow

    if kind.name in _SCALARS:
        return _SCALARS[kind.name](pyarrow)
    if isinstance(kind, ListType):
        return pyarrow.list_(_of_type(kind.element, what))
    if isinstance(kind, MapType):
        return pyarrow.map_(_of_type(kind.key, what), _of_type(kind.value, what))
    if isinstance(kind, RowType) and kind.names is not None:
        pairs = zip(kind.names, kind.fields, strict=True)
        return pyarrow.struct([(name, _of_type(field, f"{what}, field {name!r}")) for name, field in pairs])
    raise TypeError(f"{what} is {kind.name}, which Parquet does not carry: map it to text or numbers before")


def arrow_schema_of_avro(schema: AvroSchema) -> pyarrow.Schema:
    """Return the schema of a record of Avro. Raises TypeError for what is not a record, or Parquet lacks."""
    import pyarrow

    parsed = schema.parsed
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise TypeError(f"{schema} is not a record of Avro: Parquet has columns, so declare their names")
    named: dict[str, Any] = {}
    struct = _of_record(parsed, named, "the record")
    return pyarrow.schema(list(struct), metadata={AVRO_SCHEMA: str(schema).encode()})


def _of_record(record: dict[str, Any], named: dict[str, Any], what: str) -> Any:
    import pyarrow

    fields = []
    for field in record["fields"]:
        kind, nullable = _of_avro(field["type"], named, f"{what}, field {field['name']!r}")
        fields.append(pyarrow.field(field["name"], kind, nullable=nullable))
    made = named[record["name"]] = pyarrow.struct(fields)
    return made


def _of_avro(kind: Any, named: dict[str, Any], what: str) -> tuple[Any, bool]:
    """Return the type of a field, and whether it may be null."""
    import pyarrow

    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        if len(others) != 1:
            raise TypeError(f"{what} is a union of {len(others)} types, which Parquet does not carry")
        return _of_avro(others[0], named, what)[0], len(others) < len(kind)
    if isinstance(kind, str):
        if kind in _AVRO_SCALARS:
            return _AVRO_SCALARS[kind](pyarrow), kind == "null"
        if kind in named:
            return named[kind], False
        raise TypeError(f"{what} refers to {kind!r} before it is whole: Parquet carries no recursion")
    if isinstance(kind.get("type"), dict | list):
        return _of_avro(kind["type"], named, what)
    logical = kind.get("logicalType")
    if logical in _AVRO_TIMES:
        return _AVRO_TIMES[logical](pyarrow), False
    if logical == "decimal":
        return pyarrow.decimal128(kind["precision"], kind.get("scale", 0)), False
    match kind["type"]:
        case "record":
            return _of_record(kind, named, what), False
        case "array":
            element, nullable = _of_avro(kind["items"], named, f"{what}, element")
            return pyarrow.list_(pyarrow.field("element", element, nullable=nullable)), False
        case "map":
            value, nullable = _of_avro(kind["values"], named, f"{what}, value")
            return pyarrow.map_(pyarrow.string(), pyarrow.field("value", value, nullable=nullable)), False
        case "fixed":
            made = named[kind["name"]] = pyarrow.binary(kind["size"])
            return made, False
        case "enum":
            made = named[kind["name"]] = pyarrow.string()
            return made, False
        case other if other in _AVRO_SCALARS:
            return _AVRO_SCALARS[other](pyarrow), other == "null"
    raise TypeError(f"{what} is {kind['type']!r}, which Parquet does not carry")
