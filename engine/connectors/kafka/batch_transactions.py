"""The write-ahead sink: rows wait in checkpoints, and go to Kafka with their checkpoint in one transaction.

It serves clusters whose brokers take no requests of our own: older than 4.0, or behind TLS or SASL. All it
needs is the client library. The rules this module lives by, beside those of `write_ahead.py`:

- A batch is one transaction, which is begun and committed in one go. In it stands an offset of a consumer
  group of the batch's own, which nothing reads by: it records that the batch was written. Rows and record
  become visible together, so a batch that comes again after a crash is recognised.
- The transactional id is that of the writing subtask. A process that sends a batch takes the id first, which
  ends what a dead process has begun under it, and only then asks whether the batch is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.connectors.kafka.broker_transactions import FLUSH_TIMEOUT_S, REQUEST_TIMEOUT_S
from onceproof.engine.connectors.kafka.kafka_errors import no_broker
from onceproof.engine.connectors.kafka.record_schemas import KafkaRecordSerializationSchema
from onceproof.engine.connectors.kafka.row_producer import RowProducer
from onceproof.engine.connectors.kafka.transactions import ProducerRecord
from onceproof.engine.connectors.write_ahead import (
    CheckpointCommitter,
    GenericWriteAheadSink,
    PendingBatch,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_FIRST_PARTITION: Final = 0


class GroupOffsetCommitter(CheckpointCommitter):
    """Reads which batches were written from the offsets of their consumer groups.

    Args:
        properties: of librdkafka.
        prefix: the beginning of all ids.
    """

    def __init__(self, properties: Mapping[str, Any], prefix: str) -> None:
        self._properties = properties
        self._prefix = prefix

    def id_of(self, subtask: int, checkpoint_id: int | None = None) -> str:
        """Return the transactional id of a subtask, or the group of one of its batches."""
        end = "" if checkpoint_id is None else f"-{checkpoint_id}"
        return f"{self._prefix}-{self.operator_id}-{subtask}{end}"

    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        """Do nothing: the record is part of the batch's transaction."""

    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        """Ask for the offset of the batch's group. Raises KafkaUnavailable."""
        return self.is_recorded(self.consumer(subtask_idx, checkpoint_id))

    def consumer(self, subtask: int, checkpoint_id: int) -> Consumer:
        """Return a member of the group of a batch."""
        from confluent_kafka import Consumer

        kept = {name: value for name, value in self._properties.items() if name in _CLUSTER}
        return Consumer({**kept, "group.id": self.id_of(subtask, checkpoint_id), "enable.auto.commit": False})

    def is_recorded(self, consumer: Consumer, topic: str | None = None) -> bool:
        """Return whether the group has an offset of any topic."""
        from confluent_kafka import KafkaException, TopicPartition

        try:
            topics = [topic] if topic else list(consumer.list_topics(timeout=REQUEST_TIMEOUT_S).topics)
            places = [TopicPartition(name, _FIRST_PARTITION) for name in topics]
            found = consumer.committed(places, timeout=REQUEST_TIMEOUT_S)
        except KafkaException as error:
            raise no_broker(str(self._properties["bootstrap.servers"]), error.args[0].str()) from error
        return any(place.offset >= 0 for place in found)


# Properties of the cluster and of how to reach it; the others are of producers only.
_CLUSTER: Final = frozenset(
    {
        *("bootstrap.servers", "client.id", "security.protocol", "sasl.mechanism", "sasl.mechanisms"),
        *("sasl.username", "sasl.password", "ssl.ca.location", "ssl.certificate.location"),
        *("ssl.key.location", "ssl.key.password", "socket.timeout.ms"),
    }
)


class WriteAheadKafkaFunction(GenericWriteAheadSink):
    """Sends the batches of one subtask.

    Args:
        properties: of librdkafka's producer.
        serializer: makes rows out of values.
        prefix: the beginning of all ids.
        timeout_ms: the broker's timeout of each transaction, in milliseconds.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        serializer: KafkaRecordSerializationSchema,
        prefix: str,
        timeout_ms: int,
    ) -> None:
        self._committer_of_groups = GroupOffsetCommitter(properties, prefix)
        super().__init__(self._committer_of_groups)
        self._properties = {**properties, "transaction.timeout.ms": timeout_ms}
        self._serializer = serializer

    def invoke(self, value: Any, context: Any) -> None:
        """Keep the row of a value in plain data."""
        subtask = self.get_runtime_context().get_index_of_this_subtask()
        record = self._serializer.serialize(value, context.timestamp(), subtask)
        if record is not None:
            super().invoke([*record[:5], [list(header) for header in record.headers]], context)

    def invoke_batch(self, values: list[Any]) -> bool:
        """Take rows one by one, because each has its time."""
        return False

    def send_batch(self, batch: PendingBatch) -> bool:
        """Write a batch and the record of it in one transaction. Raises what `RowProducer` raises."""
        from confluent_kafka import TopicPartition

        committer = self._committer_of_groups
        rows = [_row_of(*kept) for kept in batch.values]
        name = committer.id_of(batch.subtask)
        producer = RowProducer({**self._properties, "transactional.id": name})
        consumer = committer.consumer(batch.subtask, batch.checkpoint_id)
        try:
            producer.begin_transaction(REQUEST_TIMEOUT_S)
            # A process that has lost the job may have sent it; it cannot any more.
            if committer.is_recorded(consumer, rows[0].topic):
                return True
            producer.produce(rows)
            producer.flush(FLUSH_TIMEOUT_S)
            place = TopicPartition(rows[0].topic, _FIRST_PARTITION, batch.checkpoint_id)
            producer.send_offsets([place], consumer.consumer_group_metadata(), REQUEST_TIMEOUT_S)
            producer.commit(REQUEST_TIMEOUT_S)
        finally:
            consumer.close()
            producer.close()
        return True


def _row_of(
    topic: str,
    value: bytes | None,
    key: bytes | None,
    partition: int,
    timestamp_ms: int,
    headers: Sequence[tuple[str, bytes | None]],
) -> ProducerRecord:
    """Return a row out of the plain data of a checkpoint."""
    pairs = tuple((name, content) for name, content in headers)
    return ProducerRecord(topic, value, key, partition, timestamp_ms, pairs)
