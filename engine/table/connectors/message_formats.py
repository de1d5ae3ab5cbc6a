"""The formats of messages that tables name in WITH: json, csv, avro and debezium-json.

Rules:

- A format makes changes of the bytes of a message, and bytes of a change. Its options begin with its name,
  below the prefix of the format's option: ``json.ignore-parse-errors``, ``value.json.ignore-parse-errors``.
- A message that is no row is a MalformedMessage, or nothing with ``ignore-parse-errors``. An empty message is
  none.
- A format is plain data that is sent to the processes of a job; readers and writers are made there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, TypeAlias

from msgspec import Struct

from onceproof.engine.formats.csv_row_schemas import CsvRowDeserializationSchema, CsvRowSerializationSchema
from onceproof.engine.formats.csv_schema import CsvForm, sign
from onceproof.engine.formats.json_rows import JsonRowDeserializationSchema, JsonRowSerializationSchema
from onceproof.engine.formats.message_schemas import MalformedMessage, shown
from onceproof.engine.table.connectors.message_types import TimeTexts, from_message, row_type_of, to_message
from onceproof.engine.table.connectors.registry import Options, WrongTable
from onceproof.engine.table.registration import registering
from onceproof.engine.table.types import LONGEST, Field, LogicalType
from onceproof.engine.table.values import ADDS, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Change, Row

RowReader: TypeAlias = Callable[[bytes], Row | None]
RowWriter: TypeAlias = Callable[[Row], bytes]


class MessageFormat:
    """How the changes of a table are written as messages.

    Args:
        row: the columns.
    """

    sends_changes: ClassVar[bool] = False
    """Whether it carries more than INSERTs."""

    def __init__(self, row: LogicalType) -> None:
        self.row = row

    @cached_property
    def read_row(self) -> RowReader:
        """The function from a message to a row; None: it is left out. It raises MalformedMessage."""
        raise NotImplementedError

    @cached_property
    def write_row(self) -> RowWriter:
        """The function from a row to a message."""
        raise NotImplementedError

    def changes(self, message: bytes) -> Sequence[Change]:
        """Return the changes of a message. Raises MalformedMessage."""
        row = self.read_row(message)
        return () if row is None else ((INSERT, row),)

    def message(self, change: Change) -> bytes:
        """Return the message of a change."""
        return self.write_row(change[1])

    def __getstate__(self) -> dict[str, Any]:
        made = {"read_row", "write_row"}
        return {name: value for name, value in vars(self).items() if name not in made}


MakeFormat: TypeAlias = Callable[[LogicalType, Options, str], MessageFormat]
FORMATS: Final[dict[str, MakeFormat]] = {}


def message_format(*names: str) -> Callable[[MakeFormat], MakeFormat]:
    """Register what makes a format of columns, options and the prefix of its options."""
    return registering(FORMATS, names)


def format_of(
    row: LogicalType, options: Options, key: str, others: Sequence[str] = ()
) -> MessageFormat | None:
    """Return the format that an option names; None: it is not set. Raises WrongTable.

    Args:
        key: the option, such as ``value.format``, below whose prefix the options of the format are.
        others: formats that the connector has besides.
    """
    name = options.text(key)
    if name is None:
        return None
    if name not in FORMATS:
        raise options.wrong_value(key, f"one of {', '.join(sorted([*FORMATS, *others]))} is needed")
    try:
        return FORMATS[name](row, options, f"{key.removesuffix('format')}{name}.")
    except WrongTable:
        raise
    except (TypeError, ValueError) as error:
        raise options.wrong(f"format {name}: {error}") from None


# ---- json


class JsonSettings(Struct, frozen=True):
    """The options of JSON."""

    fails_on_missing: bool
    ignores_errors: bool
    times: TimeTexts


def _json_settings(options: Options, prefix: str, *, of_rows: bool = True) -> JsonSettings:
    standard = options.choice(f"{prefix}timestamp-format.standard", "SQL", ("SQL", "ISO-8601"))
    options.choice(f"{prefix}map-null-key.mode", "FAIL", ("FAIL",))
    if options.flag(f"{prefix}encode.decimal-as-plain-number") or options.flag(
        f"{prefix}encode.ignore-null-fields"
    ):
        raise options.wrong(f"{prefix}encode.* is false here: leave it out")
    fails = of_rows and options.flag(f"{prefix}fail-on-missing-field")
    ignores = options.flag(f"{prefix}ignore-parse-errors")
    if fails and ignores:
        raise options.wrong(
            f"{prefix}fail-on-missing-field and {prefix}ignore-parse-errors shouldn't both be true"
        )
    return JsonSettings(fails, ignores, TimeTexts("T" if standard == "ISO-8601" else " "))


class JsonFormat(MessageFormat):
    """An object of JSON with a member for each column."""

    def __init__(self, row: LogicalType, settings: JsonSettings) -> None:
        super().__init__(row)
        self._settings = settings
        row_type_of(row)

    @cached_property
    def read_row(self) -> RowReader:
        settings = self._settings
        schema = JsonRowDeserializationSchema(
            row_type_of(self.row), settings.fails_on_missing, settings.ignores_errors
        )
        return _row_reader(self.row, schema.deserialize, settings.times, settings.ignores_errors)

    @cached_property
    def write_row(self) -> RowWriter:
        write, values = (
            JsonRowSerializationSchema(row_type_of(self.row)).serialize,
            to_message(self.row, self._settings.times),
        )
        return lambda row: write(values(row))


def _row_reader(
    row: LogicalType, read: Callable[[bytes], Any], times: TimeTexts, ignores_errors: bool
) -> RowReader:
    convert = from_message(row, times, ignores_errors=ignores_errors)

    def read_row(message: bytes) -> Row | None:
        if not message:
            return None
        try:
            row: Row | None = convert(read(message))
            return row
        except MalformedMessage:
            raise
        except ValueError as error:
            raise MalformedMessage(f"the message {shown(message)} is no row: {error}") from None

    return read_row


@message_format("json")
def json_format(row: LogicalType, options: Options, prefix: str) -> MessageFormat:
    """Make the format of objects."""
    return JsonFormat(row, _json_settings(options, prefix))


# ---- debezium-json


class DebeziumFormat(MessageFormat):
    """The envelope of Debezium: the row before and after a change.

    Flink writes an update as a deletion and an insertion, and reads one as -U and +U.
    """

    sends_changes = True

    def __init__(self, row: LogicalType, settings: JsonSettings, has_schema: bool) -> None:
        super().__init__(row)
        self._ignores_errors = settings.ignores_errors
        self._has_schema = has_schema
        text = LogicalType("VARCHAR", precision=LONGEST)
        fields = (Field("before", row), Field("after", row), Field("op", text))
        envelope = LogicalType("ROW", fields=fields)
        if has_schema:
            envelope = LogicalType("ROW", fields=(Field("payload", envelope),))
        self._envelope = JsonFormat(envelope, settings)

    def changes(self, message: bytes) -> Sequence[Change]:
        envelope = self._envelope.read_row(message)
        if envelope is not None and self._has_schema:
            (envelope,) = envelope
        if envelope is None:
            return ()
        before, after, op = envelope
        kinds = _OPERATIONS.get(op or "")
        found = [] if kinds is None else [(kind, after if ADDS[kind] else before) for kind in kinds]
        if kinds is not None and all(row is not None for _, row in found):
            return found
        if self._ignores_errors:
            return ()
        what = (
            f'unknown "op" value {op!r}'
            if kinds is None
            else (
                f'the "{"before" if before is None else "after"}" field of operation {op!r} is null;'
                " if it comes from PostgreSQL, set REPLICA IDENTITY of the table to FULL"
            )
        )
        raise MalformedMessage(f"the message {shown(message)} is no change of Debezium: {what}")

    def message(self, change: Change) -> bytes:
        kind, row = change
        envelope = (None, row, "c") if ADDS[kind] else (row, None, "d")
        return self._envelope.write_row(envelope)


_OPERATIONS: Final = {
    "c": (INSERT,),
    "r": (INSERT,),
    "u": (UPDATE_BEFORE, UPDATE_AFTER),
    "d": (DELETE,),
}


@message_format("debezium-json")
def debezium_format(row: LogicalType, options: Options, prefix: str) -> MessageFormat:
    """Make the format of Debezium's envelopes."""
    has_schema = options.flag(f"{prefix}schema-include")
    return DebeziumFormat(row, _json_settings(options, prefix, of_rows=False), has_schema)


# ---- csv


class CsvFormat(MessageFormat):
    """A record of CSV."""

    times: ClassVar[TimeTexts] = TimeTexts()

    def __init__(self, row: LogicalType, form: CsvForm, ignores_errors: bool) -> None:
        super().__init__(row)
        self.form, self.ignores_errors = form, ignores_errors
        CsvRowDeserializationSchema(row_type_of(row), form, ignores_errors)

    @cached_property
    def read_row(self) -> RowReader:
        schema = CsvRowDeserializationSchema(row_type_of(self.row), self.form, self.ignores_errors)
        return _row_reader(self.row, schema.deserialize, self.times, self.ignores_errors)

    @cached_property
    def write_row(self) -> RowWriter:
        write = CsvRowSerializationSchema(row_type_of(self.row), self.form).serialize
        values = to_message(self.row, self.times)
        return lambda row: write(values(row))


@message_format("csv")
def csv_format(row: LogicalType, options: Options, prefix: str) -> MessageFormat:
    """Make the format of records of CSV."""

    def one(key: str, default: str | None) -> str | None:
        found = options.text(f"{prefix}{key}", default)
        return None if found is None else sign(f"{prefix}{key}", found.replace("\\t", "\t"))

    quote = one("quote-character", '"')
    if not options.flag(f"{prefix}write-bigdecimal-in-scientific-notation", True):
        raise options.wrong(f"{prefix}write-bigdecimal-in-scientific-notation is true here: leave it out")
    form = CsvForm(
        column_separator=one("field-delimiter", ",") or ",",
        line_separator="",
        array_separator=options.text(f"{prefix}array-element-delimiter", ";") or "",
        quote=None if options.flag(f"{prefix}disable-quote-character") else quote,
        escape=one("escape-character", None),
        null_value=options.text(f"{prefix}null-literal"),
        allows_comments=options.flag(f"{prefix}allow-comments"),
    )
    return CsvFormat(row, form, options.flag(f"{prefix}ignore-parse-errors"))
