"""The older names of source and sink (PyFlink: FlinkKafkaConsumer, FlinkKafkaProducer); deprecated.

They are the same source and sink with the options that the older classes had. The pool of producers of the
older sink has no meaning here: each checkpoint has a producer of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Self
from warnings import warn

from onceproof.engine.connectors.kafka.kafka_sink import KafkaSink
from onceproof.engine.connectors.kafka.kafka_source import KafkaSource
from onceproof.engine.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
)
from onceproof.engine.connectors.kafka.record_schemas import SchemaSerializer
from onceproof.engine.connectors.sink import DeliveryGuarantee
from onceproof.engine.formats.message_schemas import DeserializationSchema, SerializationSchema
from onceproof.engine.types import TypeInformation


class Semantic(Enum):
    """What a FlinkKafkaProducer promises (PyFlink: Semantic)."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


_GUARANTEES = {
    Semantic.EXACTLY_ONCE: DeliveryGuarantee.EXACTLY_ONCE,
    Semantic.AT_LEAST_ONCE: DeliveryGuarantee.AT_LEAST_ONCE,
    Semantic.NONE: DeliveryGuarantee.NONE,
}


class FlinkKafkaConsumerBase(KafkaSource):
    """The options of the older source (PyFlink: FlinkKafkaConsumerBase)."""

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> Self:
        """Set whether completed checkpoints commit their offsets to the group."""
        self._commits = self.hears_of_checkpoints = commit_on_checkpoints and self._has_group
        return self

    def set_start_from_earliest(self) -> Self:
        """Begin with the first rows."""
        self._starting = KafkaOffsetsInitializer.earliest()
        return self

    def set_start_from_latest(self) -> Self:
        """Begin behind the last rows."""
        self._starting = KafkaOffsetsInitializer.latest()
        return self

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> Self:
        """Begin with the first row of a time in milliseconds or later."""
        self._starting = KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp)
        return self

    def set_start_from_group_offsets(self) -> Self:
        """Begin at the offsets of the group, the default; without one, where auto.offset.reset says."""
        self._starting = KafkaOffsetsInitializer.committed_offsets(self._reset)
        return self

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> Self:
        """Go on with all partitions of the restored state; here it is always so."""
        return self

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the values."""
        return self._deserializer.get_produced_type()

    _reset = KafkaOffsetResetStrategy.LATEST


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """Reads topics (PyFlink: FlinkKafkaConsumer). Use KafkaSource instead.

    Args:
        topics: one topic or several.
        deserialization_schema: makes values of the values of rows.
        properties: of the consumer, with ``bootstrap.servers`` and mostly ``group.id``.
    """

    def __init__(
        self,
        topics: str | Sequence[str],
        deserialization_schema: DeserializationSchema,
        properties: Mapping[str, Any],
    ) -> None:
        warn("FlinkKafkaConsumer is deprecated: use KafkaSource", DeprecationWarning, stacklevel=2)
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        super().__init__(properties, names, deserialization_schema)
        if str(properties.get("auto.offset.reset", "latest")).lower() == "earliest":
            self._reset = KafkaOffsetResetStrategy.EARLIEST
        if self._has_group:
            self.set_start_from_group_offsets()
        else:
            self._starting = (
                KafkaOffsetsInitializer.earliest()
                if self._reset is KafkaOffsetResetStrategy.EARLIEST
                else KafkaOffsetsInitializer.latest()
            )


class FlinkKafkaProducerBase:
    """The options of the older sink (PyFlink: FlinkKafkaProducerBase)."""

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, Any],
        semantic: Semantic,
    ) -> None:
        self._topic = topic
        self._schema = serialization_schema
        self._properties = dict(producer_config)
        self._semantic = semantic
        self._logs_failures_only = False
        self._flushes = True
        self._writes_timestamps = False
        self._ignores_timeouts = False

    def set_log_failures_only(self, log_failures_only: bool) -> Self:
        """Set whether rows that are not delivered are only logged; not with EXACTLY_ONCE."""
        self._logs_failures_only = log_failures_only
        return self

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> Self:
        """Set whether a checkpoint waits for its rows; without that, AT_LEAST_ONCE promises nothing."""
        self._flushes = flush_on_checkpoint
        return self

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> Self:
        """Set whether rows get the event time of their records instead of the time of writing."""
        self._writes_timestamps = write_timestamp_to_kafka
        return self

    def as_sink(self) -> KafkaSink:
        """Return the sink with these options; ``add_sink`` calls it."""
        guarantee = _GUARANTEES[self._semantic]
        if guarantee is DeliveryGuarantee.AT_LEAST_ONCE and not self._flushes:
            guarantee = DeliveryGuarantee.NONE
        serializer = SchemaSerializer(
            self._topic, self._schema.serialize, writes_timestamps=self._writes_timestamps
        )
        return KafkaSink(
            self._properties,
            serializer,
            guarantee,
            ignores_timeouts=self._ignores_timeouts,
            logs_failures_only=self._logs_failures_only,
        )


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """Writes to a topic (PyFlink: FlinkKafkaProducer). Use KafkaSink instead.

    Args:
        topic: where to write.
        serialization_schema: makes the values of rows.
        producer_config: of the producer, with ``bootstrap.servers``.
        kafka_producer_pool_size: means nothing here.
        semantic: what the sink promises.
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, Any],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        warn("FlinkKafkaProducer is deprecated: use KafkaSink", DeprecationWarning, stacklevel=2)
        super().__init__(topic, serialization_schema, producer_config, semantic)

    def ignore_failures_after_transaction_timeout(self) -> Self:
        """Let a restore log rows whose transaction has timed out, and go on without them."""
        self._ignores_timeouts = True
        return self
