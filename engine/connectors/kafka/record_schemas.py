"""Between rows of Kafka and values of a stream (PyFlink: KafkaRecordSerializationSchema).

A value becomes the row of one topic: a fixed one, or the one that a selector chooses. Key and value have
schemas of their own (`engine/formats`); without a key schema the row has no key. The event time of the record
becomes the row's timestamp, as in Flink; a record without one gets the time of writing.

A deserializer for values only sees the value, and a row without a value (a tombstone) stands for nothing. A
deserializer of your own sees the whole row: topic, partition, offset, time, key, value and headers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

from onceproof.engine.connectors.kafka.kafka_errors import UnusableSetting
from onceproof.engine.connectors.kafka.transactions import ProducerRecord
from onceproof.engine.formats.message_schemas import DeserializationSchema, SerializationSchema
from onceproof.engine.types import TypeInformation


class ConsumerRecord(NamedTuple):
    """A row of Kafka (Kafka: ConsumerRecord)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class KafkaRecordDeserializationSchema(ABC):
    """Makes values of whole rows (Flink: KafkaRecordDeserializationSchema)."""

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Return a deserializer that sees the values of rows only."""
        return _ValueOnly(deserialization_schema)

    @abstractmethod
    def deserialize(self, record: ConsumerRecord) -> Iterable[Any]:
        """Return the values of a row, in order. Raises MalformedMessage."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Return the type of the values."""


class _ValueOnly(KafkaRecordDeserializationSchema):
    def __init__(self, schema: DeserializationSchema) -> None:
        self._schema = schema

    def deserialize(self, record: ConsumerRecord) -> Iterable[Any]:
        return () if record.value is None else self._schema.deserialize_all(record.value)

    def get_produced_type(self) -> TypeInformation:
        return self._schema.get_produced_type()


_new_tuple = tuple.__new__
Headers = tuple[tuple[str, bytes | None], ...]


class KafkaTopicSelector(ABC):
    """Chooses the topic of a value (PyFlink: KafkaTopicSelector)."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic of a value."""


class KafkaRecordSerializationSchema(ABC):
    """Makes rows of Kafka out of values (PyFlink: KafkaRecordSerializationSchema).

    `builder` makes one of schemas; one of your own defines `serialize`.
    """

    topics: tuple[str, ...] = ()
    """The topics that are known before the first value: the sink checks that they exist."""

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Return a builder."""
        return KafkaRecordSerializationSchemaBuilder()

    @abstractmethod
    def serialize(self, element: Any, timestamp_ms: int | None, subtask: int) -> ProducerRecord | None:
        """Return the row of a value, or None to write none.

        Args:
            element: the value.
            timestamp_ms: the event time of its record, or None.
            subtask: the writing subtask, for partitioners that keep to one.
        """


class SchemaSerializer(KafkaRecordSerializationSchema):
    """What the builder builds."""

    def __init__(
        self,
        topic: str | Callable[[Any], str],
        value: Callable[[Any], bytes],
        key: Callable[[Any], bytes] | None = None,
        headers: Callable[[Any], Headers] | None = None,
        *,
        writes_timestamps: bool = True,
    ) -> None:
        self._topic = topic
        self._value = value
        self._key = key
        self._headers = headers
        self._writes_timestamps = writes_timestamps
        if isinstance(topic, str):
            self.topics = (topic,)

    def serialize(self, element: Any, timestamp_ms: int | None, subtask: int) -> ProducerRecord:
        topic, key, headers = self._topic, self._key, self._headers
        # Kafka takes no time before the epoch; 0 asks for the time of writing.
        if timestamp_ms is None or timestamp_ms < 0 or not self._writes_timestamps:
            timestamp_ms = 0
        # Made as a tuple: the constructor with its names costs twice as much as the schema (0.3 of 1 us).
        return _new_tuple(
            ProducerRecord,
            (
                topic if isinstance(topic, str) else topic(element),
                self._value(element),
                None if key is None else key(element),
                -1,
                timestamp_ms,
                () if headers is None else headers(element),
            ),
        )


class KafkaRecordSerializationSchemaBuilder:
    """Builds a serializer of a topic and schemas (PyFlink: KafkaRecordSerializationSchemaBuilder)."""

    def __init__(self) -> None:
        self._topic: str | Callable[[Any], str] | None = None
        self._key: SerializationSchema | None = None
        self._value: SerializationSchema | None = None
        self._headers: Callable[[Any], Headers] | None = None

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the serializer. Raises UnusableSetting without a topic or a value schema."""
        if self._topic is None:
            raise UnusableSetting(
                "the record serializer of a Kafka sink has no topic: call set_topic or set_topic_selector"
            )
        if self._value is None:
            raise UnusableSetting(
                "the record serializer of a Kafka sink has no schema for values:"
                " call set_value_serialization_schema(SimpleStringSchema()), or with another schema"
            )
        key = None if self._key is None else self._key.serialize
        return SchemaSerializer(self._topic, self._value.serialize, key, self._headers)

    def set_topic(self, topic: str) -> Self:
        """Write all values to one topic."""
        self._topic = topic
        return self

    def set_topic_selector(self, topic_selector: Callable[[Any], str] | KafkaTopicSelector) -> Self:
        """Write each value to the topic that a function or selector returns.

        Raises:
            TypeError: it is neither.
        """
        if isinstance(topic_selector, KafkaTopicSelector):
            self._topic = topic_selector.apply
        elif callable(topic_selector):
            self._topic = topic_selector
        else:
            raise TypeError("topic_selector must be KafkaTopicSelector or a callable")
        return self

    def set_key_serialization_schema(self, key_serialization_schema: SerializationSchema) -> Self:
        """Give each row a key."""
        self._key = key_serialization_schema
        return self

    def set_value_serialization_schema(self, value_serialization_schema: SerializationSchema) -> Self:
        """Make the values of rows by this schema."""
        self._value = value_serialization_schema
        return self

    def set_header_provider(self, header_provider: Callable[[Any], Headers]) -> Self:
        """Give each row the headers that a function returns (Flink: HeaderProvider)."""
        self._headers = header_provider
        return self
