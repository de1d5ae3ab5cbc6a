"""The logical types of plans, read from their text or JSON and printed as Flink prints them.

A type is one struct with a ``root``, by which everything dispatches; the other fields are set where the
root has them. ``values.py`` says which Python values a type has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NoReturn

from msgspec import Struct
from msgspec.structs import replace

LONGEST: Final = 2147483647
"""The length of STRING and BYTES."""

INTEGERS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
"""The bits of each type of integers."""
TEXTS: Final = frozenset({"CHAR", "VARCHAR"})
BINARIES: Final = frozenset({"BINARY", "VARBINARY"})
TIMESTAMPS: Final = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ"})
FLOATS: Final = frozenset({"FLOAT", "DOUBLE"})
NUMBERS: Final = frozenset({*INTEGERS, *FLOATS, "DECIMAL"})

ROWTIME: Final = "ROWTIME"
PROCTIME: Final = "PROCTIME"


class InvalidType(ValueError):
    """A type that cannot be read; the message is one line with its text."""


class Field(Struct, frozen=True):
    """A field of a row or a structured type."""

    name: str
    type: LogicalType


class LogicalType(Struct, frozen=True, omit_defaults=True):
    """A type of SQL (Flink: LogicalType)."""

    root: str
    """BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, CHAR, VARCHAR, BINARY, VARBINARY,
    DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ, TIMESTAMP_TZ, INTERVAL_MONTHS, INTERVAL_MS, ARRAY, MULTISET, MAP,
    ROW, STRUCTURED, RAW, NULL, SYMBOL, VARIANT, DESCRIPTOR or BITMAP."""
    nullable: bool = True
    precision: int = 0
    """Of DECIMAL, TIME and timestamps; the length of texts and binaries."""
    scale: int = 0
    attribute: str = ""
    """ROWTIME or PROCTIME where a timestamp is a time attribute."""
    arguments: tuple[LogicalType, ...] = ()
    """The element of ARRAY and MULTISET; key and value of MAP."""
    fields: tuple[Field, ...] = ()
    """Of ROW and STRUCTURED."""
    text: str = ""
    """The resolution of an interval; the class of STRUCTURED, RAW and SYMBOL."""

    @property
    def element(self) -> LogicalType:
        """The type of the elements of an ARRAY or MULTISET."""
        return self.arguments[0]

    @property
    def names(self) -> list[str]:
        """The names of the fields."""
        return [field.name for field in self.fields]

    @property
    def types(self) -> list[LogicalType]:
        """The types of the fields."""
        return [field.type for field in self.fields]

    def as_nullable(self, nullable: bool = True) -> LogicalType:
        """Return the same type with or without NOT NULL."""
        return self if self.nullable is nullable else replace(self, nullable=nullable)

    def __str__(self) -> str:
        """Print the type as Flink's ``asSummaryString`` does."""
        return f"{_body(self)}{'' if self.nullable else ' NOT NULL'}"


def _body(kind: LogicalType) -> str:
    match kind.root:
        case "CHAR" | "BINARY" | "TIME":
            return f"{kind.root}({kind.precision})"
        case "VARCHAR" | "VARBINARY":
            short = {"VARCHAR": "STRING", "VARBINARY": "BYTES"}[kind.root]
            return short if kind.precision == LONGEST else f"{kind.root}({kind.precision})"
        case "DECIMAL":
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            mark = f" *{kind.attribute}*" if kind.attribute else ""
            return f"{kind.root}({kind.precision}){mark}"
        case "TIMESTAMP_TZ":
            return f"TIMESTAMP({kind.precision}) WITH TIME ZONE"
        case "INTERVAL_MONTHS" | "INTERVAL_MS":
            return f"INTERVAL {kind.text}"
        case "ARRAY" | "MULTISET" | "MAP":
            return f"{kind.root}<{', '.join(map(str, kind.arguments))}>"
        case "ROW":
            return f"ROW<{', '.join(f'`{field.name}` {field.type}' for field in kind.fields)}>"
        case "STRUCTURED":
            return f"*{kind.text}<{', '.join(f'`{field.name}` {field.type}' for field in kind.fields)}>*"
        case "RAW":
            return f"RAW('{kind.text}', ...)"
    return kind.root


# ---- text

_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^']|'')*'|\w+|[<>(),])")
_ALIASES: Final = {
    "STRING": ("VARCHAR", LONGEST),
    "BYTES": ("VARBINARY", LONGEST),
    "INTEGER": ("INT", 0),
    "DEC": ("DECIMAL", 10),
    "NUMERIC": ("DECIMAL", 10),
}
_DEFAULTS: Final = {"CHAR": 1, "VARCHAR": 1, "BINARY": 1, "VARBINARY": 1, "DECIMAL": 10, "TIMESTAMP": 6}
_DEFAULTS_LTZ: Final = {"TIMESTAMP_LTZ": 6}
_PRECISE: Final = frozenset({*_DEFAULTS, *_DEFAULTS_LTZ, "TIME"})
_MONTHS: Final = frozenset({"YEAR", "MONTH"})


class _Reader:
    """Reads one type from its text, by recursive descent."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        place = 0
        while place < len(text.rstrip()):
            match = _TOKEN.match(text, place)
            if match is None:
                self.fail()
            self.tokens.append(match[1])
            place = match.end()
        self.place = 0

    def fail(self) -> NoReturn:
        raise InvalidType(f"{self.text!r} is no type")

    def peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        if not token:
            self.fail()
        self.place += 1
        return token

    def take(self, *words: str) -> bool:
        """Take these words if they come next."""
        if tuple(self.tokens[self.place : self.place + len(words)]) != words:
            return False
        self.place += len(words)
        return True

    def expect(self, token: str) -> None:
        if not self.take(token):
            self.fail()

    def numbers(self) -> list[int]:
        """Take numbers in parentheses, if they come next."""
        found: list[int] = []
        if self.take("("):
            while not self.take(")"):
                token = self.next()
                if not token.isdigit():
                    self.fail()
                found.append(int(token))
                self.take(",")
        return found

    def read(self) -> LogicalType:
        kind = self.body()
        if self.take("NOT", "NULL"):
            return replace(kind, nullable=False)
        self.take("NULL")
        return kind

    def body(self) -> LogicalType:
        name = self.next().upper()
        if name in ("ARRAY", "MULTISET", "MAP"):
            return LogicalType(name, arguments=tuple(self.inside()))
        if name == "ROW":
            return LogicalType("ROW", fields=tuple(self.row_fields()))
        if name == "STRUCTURED":
            return self.structured()
        if name == "INTERVAL":
            return self.interval()
        if name == "RAW":
            return self.raw()
        if name == "DOUBLE":
            self.take("PRECISION")
        name, length = _ALIASES.get(name, (name, 0))
        numbers = self.numbers() if name in _PRECISE else []
        precision = numbers[0] if numbers else length or _DEFAULTS.get(name, _DEFAULTS_LTZ.get(name, 0))
        if name == "TIMESTAMP" and self.take("WITH", "LOCAL", "TIME", "ZONE"):
            name = "TIMESTAMP_LTZ"
        elif name == "TIMESTAMP" and self.take("WITH", "TIME", "ZONE"):
            name = "TIMESTAMP_TZ"
        else:
            self.take("WITHOUT", "TIME", "ZONE")
        if name not in KNOWN:
            self.fail()
        return LogicalType(name, precision=precision, scale=numbers[1] if len(numbers) > 1 else 0)

    def inside(self) -> list[LogicalType]:
        self.expect("<")
        found = [self.read()]
        while self.take(","):
            found.append(self.read())
        self.expect(">")
        return found

    def row_fields(self) -> list[Field]:
        end = ">" if self.take("<") else ")"
        if end == ")":
            self.expect("(")
        fields: list[Field] = []
        while not self.take(end):
            name = self.next()
            fields.append(Field(_unquoted(name), self.read()))
            if self.peek().startswith("'"):
                self.next()
            self.take(",")
        return fields

    def structured(self) -> LogicalType:
        self.expect("<")
        name = self.next().strip("'")
        self.take(",")
        fields: list[Field] = []
        while not self.take(">"):
            fields.append(Field(_unquoted(self.next()), self.read()))
            self.take(",")
        return LogicalType("STRUCTURED", fields=tuple(fields), text=name)

    def interval(self) -> LogicalType:
        begin = self.place
        unit = self.next().upper()
        self.numbers()
        if self.take("TO"):
            self.next()
            self.numbers()
        text = ""
        for token in self.tokens[begin : self.place]:
            text += token if token in "()" or text.endswith("(") else f" {token}"
        return LogicalType("INTERVAL_MONTHS" if unit in _MONTHS else "INTERVAL_MS", text=text.strip())

    def raw(self) -> LogicalType:
        self.expect("(")
        name = self.next()
        while not self.take(")"):
            self.next()
        return LogicalType("RAW", text=name.strip("'"))


KNOWN: Final = frozenset(
    {"BOOLEAN", *NUMBERS, *TEXTS, *BINARIES, *TIMESTAMPS, "TIMESTAMP_TZ", "DATE", "TIME", "NULL"}
    | {"SYMBOL", "VARIANT", "DESCRIPTOR", "BITMAP"}
)


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


@lru_cache(4096)
def parse_type(text: str) -> LogicalType:
    """Read a type from its text: a plan repeats few, once for each column. Raises InvalidType."""
    reader = _Reader(text)
    kind = reader.read()
    if reader.peek():
        reader.fail()
    return kind


# ---- JSON

_LONG_NAMES: Final = {
    "TIMESTAMP_WITHOUT_TIME_ZONE": "TIMESTAMP",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "TIMESTAMP_LTZ",
    "TIMESTAMP_WITH_TIME_ZONE": "TIMESTAMP_TZ",
    "STRUCTURED_TYPE": "STRUCTURED",
}


def read_type(data: Any) -> LogicalType:
    """Read a type as plans have it: a text, or an object where the text would lose something.

    Raises:
        InvalidType: it is no type.
    """
    if isinstance(data, str):
        return parse_type(data)
    if not isinstance(data, Mapping):
        raise InvalidType(f"{data!r} is no type")
    if "logicalType" in data:
        return read_type(data["logicalType"])
    if "type" not in data:
        raise InvalidType(f"{data!r} is no type")
    root: str = _LONG_NAMES.get(data["type"]) or data["type"]
    nullable = data.get("nullable", True)
    match root:
        case "ROW":
            fields = [Field(each["name"], read_type(each["fieldType"])) for each in data["fields"]]
            return LogicalType("ROW", nullable, fields=tuple(fields))
        case "STRUCTURED":
            fields = [Field(each["name"], read_type(each["attributeType"])) for each in data["attributes"]]
            name = data.get("implementationClass") or data.get("className") or ""
            return LogicalType("STRUCTURED", nullable, fields=tuple(fields), text=name)
        case "ARRAY" | "MULTISET":
            return LogicalType(root, nullable, arguments=(read_type(data["elementType"]),))
        case "MAP":
            return LogicalType(
                "MAP", nullable, arguments=(read_type(data["keyType"]), read_type(data["valueType"]))
            )
        case "DISTINCT_TYPE":
            return read_type(data["sourceType"])
        case "RAW" | "SYMBOL":
            return LogicalType(root, nullable, text=data.get("class", ""))
    precision = data.get("precision", data.get("length", 0))
    kind = data.get("kind", "")
    return LogicalType(root, nullable, precision=precision, attribute="" if kind == "REGULAR" else kind)
