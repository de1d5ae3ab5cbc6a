"""Values of rows from JSON and to it, as Flink reads and writes them.

The rules this module lives by:

- A text becomes one document, whose parts the type of the row picks and converts. What does not match is a
  ValueError that says where.
- A document nested deeper than ``MOST_LEVELS`` is refused, so that none from outside exhausts the stack.
- Where a type has a decimal in it, all fractions of a document are read as decimals, as in Flink.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from datetime import datetime, time
from decimal import Context, Decimal
from json.encoder import encode_basestring
from typing import Any, Final

from onceproof.engine.formats import java_texts
from onceproof.engine.formats.message_schemas import shown
from onceproof.engine.types import TypeInformation
from onceproof.engine.types.composite import ListType, MapType
from onceproof.engine.types.row import RowType, make_row
from onceproof.engine.types.scalars import IntegerType

MOST_LEVELS: Final = 200
LONGEST_DECIMAL: Final = 1000
"""Characters of a number with a fraction or an exponent, as in Flink's parser."""

_ANY_NONE: Final = frozenset(("BASIC_ARRAY", "OBJECT_ARRAY"))
"""The lists whose elements may be None."""
_TOKENS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{\]}]', re.DOTALL)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_TIME: Final = re.compile(r"(\d{2}:\d{2}:\d{2})Z", re.ASCII)
_TIMESTAMP: Final = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})(?:\.(\d{0,9}))?Z", re.ASCII)
_EXACT: Final = Context(prec=LONGEST_DECIMAL)
_MISSING: Final = object()


class _Misfit(ValueError):
    """A value does not match its type; ``path`` says where it is, the innermost place first."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.path: list[str] = []

    def __str__(self) -> str:
        where = ", ".join(reversed(self.path))
        return f"{where}: {self.args[0]}" if where else str(self.args[0])


# ---- documents


def document_of(message: bytes, with_decimals: bool) -> Any:
    """Return the one document of a message. Raises ValueError."""
    text = message.decode(json.detect_encoding(message)).removeprefix("\ufeff")
    if text.count("[") + text.count("{") > MOST_LEVELS:
        _check_levels(text)
    document = json.loads(
        text, parse_float=_decimal if with_decimals else float, parse_constant=_refused_constant
    )
    if _SURROGATE.search(text):
        json.dumps(document, ensure_ascii=False, default=str).encode()
    return document


def _check_levels(text: str) -> None:
    levels = 0
    for match in _TOKENS.finditer(text):
        token = match[0]
        if token in "[{":
            levels += 1
            if levels > MOST_LEVELS:
                raise ValueError(f"it is nested deeper than {MOST_LEVELS} levels")
        elif token in "]}":
            levels -= 1


def _decimal(token: str) -> Decimal:
    if len(token) > LONGEST_DECIMAL:
        raise ValueError(f"a number is longer than {LONGEST_DECIMAL} characters")
    value = java_texts.decimal_of(token)
    return value.normalize(_EXACT) if value else Decimal(0)


def _refused_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON: write it as text")


def _scalar_text(value: Any) -> str:
    """Return a scalar as text; "" for what is none, as in Flink's parser."""
    if isinstance(value, str):
        return value
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, float):
        return java_texts.double_text(value)
    return "" if isinstance(value, dict | list) else str(value)


def _compact(value: Any) -> str:
    """Return a part of a document as JSON without blanks; ``MOST_LEVELS`` bounds the recursion."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        members = [f"{encode_basestring(name)}:{_compact(member)}" for name, member in value.items()]
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join([_compact(element) for element in value])}]"
    return _scalar_text(value)


# ---- from documents to values

_Convert = Callable[[Any], Any]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return _compact(value) if isinstance(value, dict | list) else _scalar_text(value)


def _character(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 1:
        raise ValueError(value)
    return value


def _boolean(value: Any) -> bool:
    return java_texts.boolean_of(java_texts.trimmed(_scalar_text(value)))


def _integer_converter(kind: IntegerType) -> _Convert:
    smallest, largest = kind.limits
    # Flink takes the whole part of a number for these two only.
    takes_fractions = kind.name in ("INT", "LONG")

    def convert(value: Any) -> int:
        if takes_fractions and isinstance(value, float | Decimal) and smallest <= value <= largest:
            # As Java, which reads Long.MAX_VALUE + 1.0 as Long.MAX_VALUE.
            return min(int(value), largest)
        number = value
        if type(value) is not int:
            number = java_texts.integer_of(java_texts.trimmed(_scalar_text(value)))
        if not smallest <= number <= largest:
            raise ValueError(number)
        return int(number)

    return convert


def _big_integer(value: Any) -> int:
    return value if type(value) is int else java_texts.integer_of(java_texts.trimmed(_scalar_text(value)))


def _double(value: Any) -> float:
    if type(value) is float:
        return value
    return java_texts.double_of(java_texts.trimmed(_scalar_text(value)))


def _float(value: Any) -> float:
    return java_texts.rounded_to_float(_double(value))


def _big_decimal(value: Any) -> Decimal:
    if isinstance(value, Decimal):
        return value
    return java_texts.decimal_of(java_texts.trimmed(_scalar_text(value)))


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError(value)
    return java_texts.bytes_of(value)


def _time(value: Any) -> time:
    match = _TIME.fullmatch(_scalar_text(value))
    if match is None:
        raise ValueError(value)
    return time.fromisoformat(match[1])


def _timestamp(value: Any) -> datetime:
    match = _TIMESTAMP.fullmatch(_scalar_text(value))
    if match is None:
        raise ValueError(value)
    microseconds = (match[3] or "")[:6].ljust(6, "0")
    return datetime.fromisoformat(f"{match[1]} {match[2]}.{microseconds}")


_READ: Final[dict[str, _Convert]] = {
    "STRING": _text,
    "CHAR": _character,
    "BOOLEAN": _boolean,
    "BIG_INT": _big_integer,
    "FLOAT": _float,
    "DOUBLE": _double,
    "BIG_DEC": _big_decimal,
    "BYTES": _bytes,
    "SQL_DATE": lambda value: java_texts.date_of(_scalar_text(value)),
    "SQL_TIME": _time,
    "SQL_TIMESTAMP": _timestamp,
    "VOID": lambda value: None,
    "DYNAMIC": lambda value: value,
}


class JsonReader:
    """Makes the converters from documents to values of a type."""

    def __init__(self, fails_on_missing: bool, ignores_errors: bool) -> None:
        self._fails_on_missing = fails_on_missing
        self._ignores_errors = ignores_errors

    def nullable(self, kind: TypeInformation, what: str) -> _Convert:
        """Return the converter of a type for documents that may be null."""
        convert, ignores, name = self._converter(kind, what), self._ignores_errors, kind.name

        def convert_or_none(value: Any) -> Any:
            if value is None:
                return None
            try:
                return convert(value)
            except _Misfit:
                if ignores:
                    return None
                raise
            except ValueError:
                if ignores:
                    return None
                raise _Misfit(f"{shown(value)} is no {name}") from None

        return convert_or_none

    def _converter(self, kind: TypeInformation, what: str) -> _Convert:
        if isinstance(kind, IntegerType):
            return _integer_converter(kind)
        if kind.name in _READ:
            return _READ[kind.name]
        if isinstance(kind, RowType):
            return self._row_converter(kind, what)
        if isinstance(kind, ListType):
            return self._list_converter(kind, what)
        if isinstance(kind, MapType):
            return self._map_converter(kind, what)
        raise _not_in_json(what, kind)

    def _row_converter(self, kind: RowType, what: str) -> _Convert:
        fails, names = self._fails_on_missing, kind.names
        fields = [
            (name, self.nullable(field, f"field {name!r} of {what}"))
            for name, field in zip(member_names(kind), kind.fields, strict=True)
        ]

        def convert(value: Any) -> Any:
            if not isinstance(value, dict):
                raise _Misfit(f"{shown(value)} is not an object")
            items: list[Any] = []
            for name, convert_field in fields:
                member = value.get(name, _MISSING)
                if member is _MISSING:
                    if fails:
                        raise _Misfit(f"there is no field {name!r}")
                    items.append(None)
                    continue
                try:
                    items.append(convert_field(member))
                except _Misfit as error:
                    error.path.append(f"field {name!r}")
                    raise
            return make_row(names, items)

        return convert

    def _list_converter(self, kind: ListType, what: str) -> _Convert:
        convert_element = self.nullable(kind.element, f"an element of {what}")
        may_be_none = kind.kind in _ANY_NONE

        def convert(value: Any) -> Any:
            if not isinstance(value, list):
                raise _Misfit(f"{shown(value)} is not an array")
            elements = list(map(convert_element, value))
            if not may_be_none and None in elements:
                raise _Misfit("an element is null: declare OBJECT_ARRAY")
            return elements

        return convert

    def _map_converter(self, kind: MapType, what: str) -> _Convert:
        convert_key = self.nullable(kind.key, f"a key of {what}")
        convert_item = self.nullable(kind.value, f"a value of {what}")

        def convert(value: Any) -> Any:
            if not isinstance(value, dict):
                raise _Misfit(f"{shown(value)} is not an object")
            converted = {convert_key(name): convert_item(member) for name, member in value.items()}
            if None in converted:
                raise _Misfit("a key cannot be read")
            return converted

        return convert


def member_names(kind: RowType) -> tuple[str, ...]:
    """Return the names of a row's fields as Flink has them: f0, f1 and so on where it has none."""
    return kind.names or tuple(f"f{place}" for place in range(len(kind.fields)))


def _not_in_json(what: str, kind: TypeInformation) -> TypeError:
    return TypeError(
        f"{what} is {kind.name}, which JSON does not carry: declare a row, a list, a map or a scalar"
    )


def has_decimals(kind: TypeInformation) -> bool:
    """Return whether a type has a decimal in it; then Flink reads every fraction of a message as one."""
    parts: Iterable[TypeInformation] = ()
    if isinstance(kind, RowType):
        parts = kind.fields
    elif isinstance(kind, ListType):
        parts = (kind.element,)
    elif isinstance(kind, MapType):
        parts = (kind.key, kind.value)
    return kind.name == "BIG_DEC" or any(map(has_decimals, parts))


# ---- from values to documents

_Write = Callable[[Any], str]


def _quoted(value: float, text: str) -> str:
    return text if value - value == 0 else f'"{text}"'


_WRITE: Final[dict[str, _Write]] = {
    "STRING": encode_basestring,
    "CHAR": encode_basestring,
    "BOOLEAN": lambda value: "true" if value else "false",
    "BYTE": str,
    "SHORT": str,
    "INT": str,
    "LONG": str,
    "BIG_INT": str,
    "FLOAT": lambda value: _quoted(value, java_texts.float_text(value)),
    "DOUBLE": lambda value: _quoted(value, java_texts.double_text(value)),
    "BIG_DEC": java_texts.decimal_text,
    "BYTES": lambda value: f'"{b64encode(value).decode()}"',
    "SQL_DATE": lambda value: f'"{value.isoformat()}"',
    "SQL_TIME": lambda value: f'"{value.isoformat("seconds")}Z"',
    "SQL_TIMESTAMP": lambda value: f'"{value.isoformat("T", "seconds")}{java_texts.fraction_text(value)}Z"',
    "VOID": lambda value: "null",
    "DYNAMIC": lambda value: _compact(value),
}


def _writer(kind: TypeInformation, what: str) -> _Write:
    """Return the function from a value of a type, or None, to its JSON."""
    if isinstance(kind, RowType):
        write = row_writer(kind, what)
    elif isinstance(kind, ListType):
        write_element = _writer(kind.element, f"an element of {what}")
        write = lambda value: f"[{','.join(map(write_element, value))}]"  # noqa: E731
    elif isinstance(kind, MapType):
        write = _map_writer(kind, what)
    elif kind.name in _WRITE:
        write = _WRITE[kind.name]
    else:
        raise _not_in_json(what, kind)
    return lambda value: "null" if value is None else write(value)


def row_writer(kind: RowType, what: str) -> _Write:
    """Return the function from a row of a type to its JSON. Raises TypeError for what JSON does not carry."""
    fields = [
        (f"{encode_basestring(name)}:", _writer(field, f"field {name!r} of {what}"))
        for name, field in zip(member_names(kind), kind.fields, strict=True)
    ]

    def write(value: Any) -> str:
        members = [f"{name}{field(item)}" for (name, field), item in zip(fields, value, strict=True)]
        return f"{{{','.join(members)}}}"

    return write


def _map_writer(kind: MapType, what: str) -> _Write:
    write_key, write_item = _writer(kind.key, f"a key of {what}"), _writer(kind.value, f"a value of {what}")

    def write(value: Any) -> str:
        members = []
        for key, item in value.items():
            name = write_key(key)
            quoted = name if name.startswith('"') else encode_basestring(name)
            members.append(f"{quoted}:{write_item(item)}")
        return f"{{{','.join(members)}}}"

    return write
