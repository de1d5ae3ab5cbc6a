"""The inputs and outputs of a program on trial, as its file describes them.

The rules this module lives by:

- A kind has fields of its own (INPUT_FIELDS, OUTPUT_FIELDS). A field of another kind, or one that is missing,
  is one line that names the field and the kinds that take it.
- Several inputs have names, and so have several outputs. A split of the oracle belongs to the one input whose
  pattern matches its name. A row begins with the name of its output, as those of a job with several sinks do.
- A file that an input or output names stands beside the program's file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from onceproof.harness.model.columns import OrderedBy, is_tolerance
from onceproof.harness.model.fault_kinds import ServerName

InputKind: TypeAlias = Literal[
    "files", "new_files", "kafka", "stdin", "socket", "http", "postgres", "sql", "s3"
]
OutputKind: TypeAlias = Literal[
    "files", "kafka", "postgres", "stdout", "command", "parquet", "s3", "delta", "iceberg"
]
Format: TypeAlias = Literal["json", "csv", "text", "avro", "protobuf", "bytes"]
Promise: TypeAlias = Literal["exactly_once", "at_least_once"]

Milliseconds: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=60_000)]
_Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z]\w*)?$")]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What feeds the program."""

    kind: InputKind
    name: _Name = ""
    """Of one among several: ``{input.NAME}``."""
    splits: str = ""
    """A pattern for the names of the splits that it carries; "": all, of a named input those that begin with
    its name."""
    format: Format = "json"
    pace_ms: Milliseconds = 5
    """From one record to the next; 0: all records are there before the program starts."""
    timestamp: str = "timestamp"
    """The field with the event time in milliseconds; "": there is none."""
    records: _Count = 5
    """New files and S3: how many a file or an object holds."""
    topic: str = ""
    """Kafka: its name; "": a new one in each trial."""
    key: str = ""
    """Kafka: the column that is the key of a message."""
    headers: dict[str, str] = {}
    """Kafka and HTTP: by name, texts in which ``{COLUMN}`` stands for the record's value."""
    schema: str = ""
    """Avro: the file with the schema."""
    descriptor: str = ""
    """Protobuf: the file that protoc has written with --descriptor_set_out and --include_imports."""
    message: str = ""
    """Protobuf: the full name of the message's type."""
    connects: Literal["program", "harness"] = "program"
    """Socket and HTTP: whether the program calls the harness, or the harness the program, which listens."""
    path: str = "/"
    """HTTP: where the program takes what is posted."""
    url: str = ""
    """SQL: of the database, as SQLAlchemy has it."""
    table: str = ""
    """PostgreSQL and SQL: the table, behind its schema and a dot if that is not the usual one."""
    create: tuple[str, ...] = ()
    """PostgreSQL and SQL: statements that make the table, before the first start."""


class Output(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the rows of the program appear."""

    kind: OutputKind
    name: _Name = ""
    """Of one among several: ``{output.NAME}``, and the first cell of its rows."""
    promise: Promise | None = None
    """None: that of the file."""
    format: Format = "json"
    pattern: str = "**/*"
    """Files, Parquet and S3: which ones hold rows, below ``{output}``; hidden names (``.``, ``_``) do not."""
    columns: tuple[str, ...] = ()
    """Which fields of a row are compared, in this order; none: those of the oracle's ``row_schema``."""
    tolerance: dict[str, float] = {}
    """See ``FamilyOptions``."""
    ordered_by: OrderedBy | None = None
    """See ``FamilyOptions``."""
    topic: str = ""
    """Kafka: its name; "": a new one in each trial."""
    key: str = ""
    """Kafka: the column that is in the key of a message."""
    schema: str = ""
    """Avro: the file with the schema."""
    descriptor: str = ""
    """Protobuf: the file that protoc has written with --descriptor_set_out and --include_imports."""
    message: str = ""
    """Protobuf: the full name of the message's type."""
    table: str = ""
    """PostgreSQL: the table, with its schema and a dot before it if it is in another than the usual. Iceberg:
    its name in the catalog."""
    create: tuple[str, ...] = ()
    """PostgreSQL: statements that make the tables, before the first start."""
    command: tuple[str, ...] = ()
    """Command: prints the visible rows as lines of JSON, and ends."""
    catalog: dict[str, str] = {}
    """Iceberg: ``name`` and properties of the catalog, as in pyiceberg; none: ``{output}`` is the table."""


_Fields: TypeAlias = Mapping[str, tuple[str, ...]]
INPUT_FIELDS: Final[_Fields] = {
    "records": ("new_files", "s3"),
    "topic": ("kafka",),
    "key": ("kafka",),
    "headers": ("kafka", "http"),
    "connects": ("socket", "http"),
    "path": ("http",),
    "url": ("sql",),
    "table": ("postgres", "sql"),
    "create": ("postgres", "sql"),
}
"""By field, the kinds that take it."""
OUTPUT_FIELDS: Final[_Fields] = {
    "topic": ("kafka",),
    "key": ("kafka",),
    "pattern": ("files", "parquet", "s3"),
    "table": ("postgres", "iceberg"),
    "create": ("postgres",),
    "command": ("command",),
    "catalog": ("iceberg",),
}
_NEEDED: Final[_Fields] = {"url": ("sql",), "table": ("postgres", "sql"), "command": ("command",)}
_OF_FORMATS: Final[_Fields] = {"schema": ("avro",), "descriptor": ("protobuf",), "message": ("protobuf",)}
_OF_MESSAGES: Final = ("avro", "protobuf", "bytes")
"""Formats that have no lines: a message of Kafka is one record."""
BYTES_MARK: Final = "bytes_written"
"""Passed with each byte that comes into the folder of a trial."""
OPEN_MARK: Final = "transaction_open"
"""Passed as a transaction begins to write: to the output topic, or to the database of an output."""
COMMITTING_MARK: Final = "transaction_committing"
"""Passed as the broker writes down that such a transaction is to be committed, or the program asks for it."""
PREPARED_MARK: Final = "transaction_prepared"
"""Passed as the database has prepared such a transaction, which stays until a second command commits it."""
TRANSACTION_MARKS: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka": (OPEN_MARK, COMMITTING_MARK),
    "postgres": (OPEN_MARK, COMMITTING_MARK, PREPARED_MARK),
}
"""By the kind of an output, the marks of its transactions."""
OF_TRANSACTIONS: Final = (OPEN_MARK, COMMITTING_MARK, PREPARED_MARK)
HARNESS_MARKS: Final = (BYTES_MARK, *OF_TRANSACTIONS)
"""Marks that the harness sees by itself."""
CALLED_BY_HARNESS: Final = ("socket", "http")
SERVER_KINDS: Final[tuple[ServerName, ...]] = ("postgres", "kafka", "s3")


def splits_of(inputs: Sequence[Input], splits: Sequence[str]) -> list[list[str]]:
    """Return for each input the splits that it carries. Raises ValueError for one that has not one input."""
    patterns = [each.splits or (f"{each.name}*" if each.name else "*") for each in inputs]
    carried: list[list[str]] = [[] for _ in inputs]
    for split in splits:
        matching = [number for number, pattern in enumerate(patterns) if fnmatchcase(split, pattern)]
        if len(matching) != 1:
            which = " and ".join([patterns[number] for number in matching]) or "none of " + ", ".join(
                patterns
            )
            raise ValueError(f"split {split!r} matches {which}; it must match the 'splits' of one input")
        carried[matching[0]].append(split)
    return carried


def contradictions(place: str, end: Input | Output) -> Iterator[str]:
    """Yield what is wrong with an input or output whose fields have the right types."""
    values: dict[str, Any] = msgspec.structs.asdict(end)
    defaults = {
        field.name: field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        for field in msgspec.structs.fields(end)
    }
    of_kinds = INPUT_FIELDS if isinstance(end, Input) else OUTPUT_FIELDS
    for fields, what, own in ((of_kinds, "kind", end.kind), (_OF_FORMATS, "format", end.format)):
        for name, takers in fields.items():
            belongs = f"{place}.{name} belongs to the {what} {' or '.join(map(repr, takers))}"
            if values[name] != defaults[name] and own not in takers:
                yield f"{belongs}, not to {own!r}"
            is_needed = own in (takers if what == "format" else _NEEDED.get(name, ()))
            if is_needed and not values[name]:
                yield f"{belongs}, which needs it"
    if end.format in _OF_MESSAGES and end.kind != "kafka":
        yield f"{place}.format: {end.format!r} belongs to the kind 'kafka', not to {end.kind!r}"
    if isinstance(end, Output):
        if end.pattern.startswith("/") or ".." in Path(end.pattern).parts:
            yield f"{place}.pattern: {end.pattern!r} leaves {{output}}; write it relative to that folder"
        for column, amount in end.tolerance.items():
            if not is_tolerance(amount):
                yield f"{place}.tolerance.{column}: {amount} is not above 0 and below 1"
        if end.kind == "iceberg" and bool(end.catalog) != bool(end.table):
            yield f"{place}: catalog and table belong together: one is missing"
