"""From a row of Kafka to values of a stream (Flink: KafkaRecordDeserializationSchema).

A schema for values only sees the value, and a row without a value (a tombstone) stands for nothing. A
deserializer of your own sees the whole row: topic, partition, offset, time, key, value and headers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

from onceproof.engine.formats.message_schemas import DeserializationSchema
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
