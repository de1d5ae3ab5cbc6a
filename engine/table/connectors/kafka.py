"""The connectors ``kafka`` and ``upsert-kafka``.

Rules, from Flink's KafkaDynamicTableFactory and UpsertKafkaDynamicTableFactory:

- The value of a row is written in ``format`` (or ``value.format``), its key in ``key.format`` with the
  columns of ``key.fields``. Of a column that both hold, the key's counts when it is read.
- ``upsert-kafka`` keeps the last row of each primary key: the key of a row is that of the table, an empty
  value deletes it. A source sends +U and -D, which the planner turns into a changelog.
- A sink with ``sink.delivery-guarantee`` exactly-once commits with its checkpoints, in transactions whose ids
  begin with ``sink.transactional-id-prefix``.
- Metadata are columns behind the others: topic, partition, offset, timestamp, timestamp-type and headers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.configuration.parsing import parse_duration_ms
from onceproof.engine.connectors.kafka.kafka_errors import UnusableSetting
from onceproof.engine.connectors.kafka.kafka_sink import KafkaSink
from onceproof.engine.connectors.kafka.kafka_source import DISCOVERY, KafkaSource
from onceproof.engine.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from onceproof.engine.connectors.kafka.record_schemas import (
    ConsumerRecord,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
)
from onceproof.engine.connectors.kafka.transactions import ProducerRecord
from onceproof.engine.connectors.sink import DeliveryGuarantee
from onceproof.engine.formats.message_schemas import MalformedMessage
from onceproof.engine.table.connectors.message_formats import MessageFormat, format_of
from onceproof.engine.table.connectors.registry import Options, sink, source
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import ADDS, DELETE, NANOS_PER_MS, UPDATE_AFTER, Change, Row
from onceproof.engine.types import TypeInformation, Types

UPSERT: Final = "upsert-kafka"
SERVERS: Final = "bootstrap.servers"
PROPERTIES: Final = "properties."
GROUP: Final = "group.id"

_READ: Final[Mapping[str, Callable[[ConsumerRecord], Any]]] = {
    "topic": lambda record: record.topic,
    "partition": lambda record: record.partition,
    "offset": lambda record: record.offset,
    "timestamp": lambda record: record.timestamp_ms * NANOS_PER_MS,
    "timestamp-type": lambda record: "CreateTime",
    "headers": lambda record: tuple(dict(record.headers).items()),
}
_WRITTEN: Final = ("headers", "timestamp")


class Parts(Struct, frozen=True):
    """How the columns of a table are laid out in keys and values."""

    columns: LogicalType
    value: MessageFormat
    value_columns: tuple[int, ...]
    key: MessageFormat | None
    key_columns: tuple[int, ...]


def _parts(end: TableEnd, options: Options) -> Parts:
    row = end.columns
    is_upsert = end.options["connector"] == UPSERT
    key_columns = end.primary_key
    if not is_upsert:
        fields = [name.strip() for name in (options.text("key.fields") or "").split(";") if name.strip()]
        unknown = [name for name in fields if name not in row.names]
        if unknown:
            raise options.wrong_value("key.fields", f"the table has no column {unknown[0]!r}")
        key_columns = tuple([row.names.index(name) for name in fields])
        has_format = options.text("key.format") is not None
        if has_format != bool(fields):
            raise options.wrong("key.format and key.fields belong together: set both, or none")
    elif not key_columns:
        raise options.wrong(f"{UPSERT} tables require to define a PRIMARY KEY: it is the key of the rows")
    prefix = options.text("key.fields-prefix", "") or ""
    excepts = options.choice("value.fields-include", "ALL", ("ALL", "EXCEPT_KEY")) == "EXCEPT_KEY"
    if prefix and not excepts:
        raise options.wrong("a key.fields-prefix needs value.fields-include to be EXCEPT_KEY")
    wrong = [row.names[each] for each in key_columns if not row.names[each].startswith(prefix)]
    if wrong:
        raise options.wrong_value("key.fields-prefix", f"column {wrong[0]!r} does not begin with it")
    value_columns = tuple([each for each in range(len(row.fields)) if not (excepts and each in key_columns)])
    formats = ["value.format"]
    if is_upsert:
        options.required("key.format")
        options.required("value.format")
    else:
        formats = [key for key in ("format", "value.format") if options.text(key) is not None]
        if len(formats) != 1:
            raise options.wrong("one of 'format' and 'value.format' is required")
    value = format_of(_columns(row, value_columns), options, formats[0])
    key = format_of(_columns(row, key_columns, len(prefix)), options, "key.format")
    assert value is not None
    if is_upsert and (value.sends_changes or (key is not None and key.sends_changes)):
        raise options.wrong(f"{UPSERT} takes formats of single rows, such as json, csv and avro")
    return Parts(row, value, value_columns, key, key_columns)


def _columns(row: LogicalType, places: Sequence[int], cut: int = 0) -> LogicalType:
    """Return a row of some columns, whose names lose some characters at their beginning."""
    fields = [replace(row.fields[each], name=row.fields[each].name[cut:]) for each in places]
    return LogicalType("ROW", nullable=False, fields=tuple(fields))


# ---- sources


class ChangesOfRecords(KafkaRecordDeserializationSchema):
    """Makes changes of rows of Kafka."""

    def __init__(self, parts: Parts, metadata: Sequence[str], is_upsert: bool) -> None:
        self._parts, self._metadata, self._is_upsert = parts, metadata, is_upsert

    def get_produced_type(self) -> TypeInformation:
        """Return DYNAMIC: a change is plain data."""
        return Types.DYNAMIC()

    @cached_property
    def _read_metadata(self) -> list[Callable[[ConsumerRecord], Any]]:
        return [_READ[key] for key in self._metadata]

    def deserialize(self, record: ConsumerRecord) -> Iterable[Change]:
        """Return the changes of a row. Raises MalformedMessage."""
        parts, key = self._parts, ()
        if parts.key is not None:
            key = parts.key.read_row(record.key or b"") or ()
            if self._is_upsert and not key:
                raise MalformedMessage("a row of upsert-kafka has no key")
        beside = tuple([read(record) for read in self._read_metadata])
        if not record.value:
            return ((DELETE, self._row((), key) + beside),) if self._is_upsert else ()
        return [
            (UPDATE_AFTER if self._is_upsert else kind, self._row(row, key) + beside)
            for kind, row in parts.value.changes(record.value)
        ]

    def _row(self, value: Row, key: Row) -> Row:
        parts = self._parts
        if not parts.key_columns and len(value) == len(parts.columns.fields):
            return value
        row: list[Any] = [None] * len(parts.columns.fields)
        for place, each in zip(parts.value_columns, value, strict=False):
            row[place] = each
        for place, each in zip(parts.key_columns, key, strict=False):
            row[place] = each
        return tuple(row)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_read_metadata"}


@source("kafka", UPSERT)
def kafka_source(end: TableEnd, options: Options) -> KafkaSource:
    """Read topics."""
    is_upsert = end.options["connector"] == UPSERT
    properties = _properties(options)
    wanted = _topics(options)
    starting = KafkaOffsetsInitializer.earliest()
    if not is_upsert:
        starting = _offsets(options, "scan.startup", "group-offsets", properties)
    stopping = None
    bounded = options.text("scan.bounded.mode", "unbounded")
    if bounded != "unbounded":
        stopping = _offsets(options, "scan.bounded", "", properties)
    properties[DISCOVERY] = options.read(
        "scan.topic-partition-discovery.interval", parse_duration_ms, 300_000
    )
    options.ignored("sink.delivery-guarantee", "sink.transactional-id-prefix", "sink.partitioner", *_BUFFERS)
    options.ignored("sink.parallelism", "scan.parallelism")
    for key in end.metadata:
        if key not in _READ:
            raise options.wrong(f"kafka has no metadata {key!r}; it has {', '.join(_READ)}")
    schema = ChangesOfRecords(_parts(end, options), end.metadata, is_upsert)
    try:
        return KafkaSource(properties, wanted, schema, starting, stopping, is_bounded=stopping is not None)
    except UnusableSetting as error:
        raise options.wrong(str(error)) from None


_BUFFERS: Final = ("sink.buffer-flush.max-rows", "sink.buffer-flush.interval")


def _properties(options: Options) -> dict[str, Any]:
    options.required(f"{PROPERTIES}{SERVERS}")
    return {
        key: value for key, value in options.below(PROPERTIES).items() if not key.endswith(".deserializer")
    }


def _topics(options: Options) -> Sequence[str] | re.Pattern[str]:
    topic, pattern = options.text("topic"), options.text("topic-pattern")
    if (topic is None) == (pattern is None):
        raise options.wrong("one of 'topic' and 'topic-pattern' is required")
    if pattern is None:
        return [each.strip() for each in (topic or "").split(";") if each.strip()]
    try:
        return re.compile(pattern)
    except re.error as error:
        raise options.wrong_value("topic-pattern", str(error)) from None


def _offsets(
    options: Options, prefix: str, default: str, properties: Mapping[str, Any]
) -> KafkaOffsetsInitializer:
    """Return where to begin, or to end, by the options of a prefix."""
    is_start = prefix == "scan.startup"
    words = ("earliest-offset", "latest-offset") if is_start else ("latest-offset",)
    mode = options.choice(
        f"{prefix}.mode", default, (*words, "group-offsets", "timestamp", "specific-offsets")
    )
    if mode == "group-offsets":
        if GROUP not in properties:
            raise options.wrong(f"{prefix}.mode group-offsets needs the option '{PROPERTIES}{GROUP}'")
        reset = str(properties.get("auto.offset.reset", "none")).upper()
        if reset not in KafkaOffsetResetStrategy.__members__:
            raise options.wrong_value(f"{PROPERTIES}auto.offset.reset", "earliest, latest or none is needed")
        return KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy[reset])
    if mode == "timestamp":
        options.required(f"{prefix}.timestamp-millis")
        return KafkaOffsetsInitializer.timestamp(options.number(f"{prefix}.timestamp-millis", 0))
    if mode == "specific-offsets":
        return KafkaOffsetsInitializer.offsets(_specific(options, f"{prefix}.specific-offsets"))
    return (
        KafkaOffsetsInitializer.earliest() if mode == "earliest-offset" else KafkaOffsetsInitializer.latest()
    )


_SPECIFIC: Final = re.compile(r"partition:(\d+),offset:(\d+)")


def _specific(options: Options, key: str) -> dict[KafkaTopicPartition, int]:
    topic = options.text("topic") or ""
    if ";" in topic or not topic:
        raise options.wrong(f"{key} need one topic")
    found = {}
    for part in options.required(key).split(";"):
        match = _SPECIFIC.fullmatch(part.replace(" ", ""))
        if match is None:
            raise options.wrong_value(
                key, "a text such as partition:0,offset:42;partition:1,offset:300 is needed"
            )
        found[KafkaTopicPartition(topic, int(match[1]))] = int(match[2])
    return found


# ---- sinks


class RecordsOfChanges(KafkaRecordSerializationSchema):
    """Makes rows of Kafka of changes."""

    def __init__(self, topic: str, parts: Parts, metadata: Sequence[str], is_upsert: bool) -> None:
        self.topics = (topic,)
        self._parts, self._metadata, self._is_upsert = parts, tuple(metadata), is_upsert

    def serialize(self, element: Change, timestamp_ms: int | None, subtask: int) -> ProducerRecord:
        """Return the row of a change."""
        parts = self._parts
        kind, row = element
        beside = dict(zip(self._metadata, row[len(parts.columns.fields) :], strict=True))
        key = None
        if parts.key is not None:
            key = parts.key.write_row(tuple([row[place] for place in parts.key_columns]))
        value = None
        if not self._is_upsert or ADDS[kind]:
            values = tuple([row[place] for place in parts.value_columns])
            value = parts.value.message((kind, values))
        at = beside.get("timestamp")
        return ProducerRecord(
            self.topics[0],
            value,
            key,
            timestamp_ms=0 if at is None else max(0, at // NANOS_PER_MS),
            headers=tuple(beside.get("headers") or ()),
        )


@sink("kafka", UPSERT)
def kafka_sink(end: TableEnd, options: Options) -> KafkaSink:
    """Write rows into a topic."""
    is_upsert = end.options["connector"] == UPSERT
    properties = _properties(options)
    topics = _topics(options)
    if isinstance(topics, re.Pattern) or len(topics) != 1:
        raise options.wrong("a sink writes into one topic: give one in 'topic'")
    words = [each.value for each in DeliveryGuarantee]
    guarantee = DeliveryGuarantee(options.choice("sink.delivery-guarantee", "at-least-once", words))
    prefix = options.text("sink.transactional-id-prefix")
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE and not prefix:
        raise options.wrong("sink.delivery-guarantee exactly-once needs sink.transactional-id-prefix")
    if options.choice("sink.partitioner", "default", ("default", "fixed", "round-robin")) != "default":
        raise options.wrong_value("sink.partitioner", "only default is here: by the key of the row")
    for key in end.metadata:
        if key not in _WRITTEN:
            raise options.wrong(f"kafka writes no metadata {key!r}: declare the column VIRTUAL")
    options.below("scan.")
    options.ignored(*_BUFFERS)
    parts = _parts(end, options)
    builder = KafkaSink.builder().set_bootstrap_servers(properties[SERVERS])
    try:
        for name, value in properties.items():
            if name not in (GROUP, "auto.offset.reset"):
                builder.set_property(name, value)
        if prefix:
            builder.set_transactional_id_prefix(prefix)
        builder.set_delivery_guarantee(guarantee)
        return builder.set_record_serializer(
            RecordsOfChanges(topics[0], parts, end.metadata, is_upsert)
        ).build()
    except UnusableSetting as error:
        raise options.wrong(str(error)) from None
