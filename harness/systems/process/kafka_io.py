"""The source and the sink of Kafka of a job under trial in a real process.

The rules this module lives by:

- Source and sink are the engine's. The source counts its records and the sink logs its commits, as the other
  ends do (`test_io.py`).
- A partition of the input topic is a split of the scenario. A row holds the timestamp of its record, because
  Kafka takes none before 1970 and reads 0 as "now".
- Readers of Kafka are not shown the transaction of a row. So each row that the sink writes has a header with
  the transactional id; `kafka_output.py` reads it.
- The topic of a sink is made by the first process that builds the job.
- The job reaches the broker through a proxy, the harness reaches it directly.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final

import msgspec

from onceproof.engine.connectors.kafka.broker_transactions import BrokerTransactions
from onceproof.engine.connectors.kafka.kafka_source import KafkaSource, split_of
from onceproof.engine.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition
from onceproof.engine.connectors.kafka.record_serializer import KafkaRecordSerializationSchema
from onceproof.engine.connectors.kafka.transaction_function import KafkaTransactionFunction
from onceproof.engine.connectors.kafka.transactions import ProducerRecord
from onceproof.engine.elements import Record
from onceproof.engine.formats.message_schemas import DeserializationSchema
from onceproof.engine.types import TypeInformation, Types
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.test_io import CountedReader, CountedSource, LoggedCommits
from onceproof.harness.systems.recording.event_log import EventLog

BATCH_ROWS: Final = 3
PARTITIONS: Final = 2
"""Of the topic of a sink."""
TRANSACTION: Final = "transaction"
"""The header with the transactional id."""
TIMEOUT_MS: Final = 600_000
"""No transaction times out: that would be a loss that the sink must report."""
_SECONDS_TO_MAKE_TOPIC: Final = 30.0
_SECONDS_BETWEEN_TRIES: Final = 0.05
_encode: Final = msgspec.json.Encoder().encode
_decoder: Final[msgspec.json.Decoder[InputRecord]] = msgspec.json.Decoder(InputRecord)


class HeaderSerializer(KafkaRecordSerializationSchema):
    """Makes rows with the transaction in a header."""

    def __init__(self, topic: str) -> None:
        self.topics = (topic,)
        self.transactional_id = ""
        """Of the transaction that is open."""

    def serialize(self, element: Any, timestamp_ms: int | None, subtask: int) -> ProducerRecord:
        headers = ((TRANSACTION, self.transactional_id.encode()),)
        return ProducerRecord(self.topics[0], _encode(element), headers=headers)


class LoggingKafkaSink(KafkaTransactionFunction):
    """The engine's exactly-once sink, which logs its commits."""

    batch_rows = BATCH_ROWS

    def __init__(self, topics: TrialTopics, topic: str, commits: LoggedCommits) -> None:
        self._header = HeaderSerializer(topic)
        connect = partial(BrokerTransactions, {"bootstrap.servers": topics.servers_of_job})
        super().__init__(connect, self._header, topics.prefix, TIMEOUT_MS)
        self._topics = topics
        self._commits = commits

    def __deepcopy__(self, memo: object) -> LoggingKafkaSink:
        return LoggingKafkaSink(self._topics, self._header.topics[0], self._commits)

    def begin_transaction(self) -> list[Any]:
        """Begin a transaction; the rows from now on belong to it."""
        transaction = super().begin_transaction()
        self._header.transactional_id = transaction[0]
        return transaction

    def pending_transactions(self) -> list[str]:
        """Return the ids of the pending transactions that have rows."""
        return [name for name, _, _, rows, *_ in super().pending_transactions() if rows]

    def commit(self, transaction: list[Any]) -> None:
        """Commit and log. Raises InjectedError if a fault strikes."""
        name, _, _, rows, *_ = transaction
        if rows:
            commit = super().commit
            self._commits.make(self.get_runtime_context(), name, rows, lambda: commit(transaction))


class InputRecordSchema(DeserializationSchema):
    """A message is a record with its timestamp."""

    def deserialize(self, message: bytes) -> InputRecord:
        return _decoder.decode(message)

    def get_produced_type(self) -> TypeInformation:
        return Types.PICKLED_BYTE_ARRAY()


class PartitionOfRecords(CountedReader):
    """Reads and counts the records of a partition, with their own timestamps."""

    def read(self, limit: int) -> list[Record]:
        return [(value, timestamp) for (timestamp, value), _ in super().read(limit)]


class TopicOfRecords(CountedSource):
    """The input topic of a scenario as its source."""

    reader_class = PartitionOfRecords


def make_kafka_source(topics: TrialTopics, log: EventLog, *, is_bounded: bool) -> TopicOfRecords:
    """Return the source of the scenario's splits; it stops behind their records, also if they come later."""
    places = {
        split: KafkaTopicPartition(topics.input_topic, number) for number, split in enumerate(topics.lengths)
    }
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(topics.servers_of_job)
        .set_topics(topics.input_topic)
        .set_group_id(topics.prefix)
        .set_property("partition.discovery.interval.ms", 0)
        .set_value_only_deserializer(InputRecordSchema())
    )
    if is_bounded:
        ends = {place: topics.lengths[split] for split, place in places.items()}
        builder.set_bounded(KafkaOffsetsInitializer.offsets(ends))
    names = {split: split_of(place) for split, place in places.items()}
    return TopicOfRecords(builder.build(), log, names, is_bounded=is_bounded)


def make_kafka_sink(topics: TrialTopics, name: str, commits: LoggedCommits) -> LoggingKafkaSink:
    """Return a new sink into a topic, which is made if it does not exist."""
    topic = topics.output_topic(name)
    make_topics(topics.servers, {topic: PARTITIONS})
    return LoggingKafkaSink(topics, topic, commits)


def make_topics(servers: str, partitions: dict[str, int]) -> None:
    """Make topics that do not exist, and return when the broker shows all their partitions.

    A producer drops a row for a partition that it is not shown yet. While the broker is away it is asked
    again. Raises KafkaException.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    deadline = time.monotonic() + _SECONDS_TO_MAKE_TOPIC
    # Rows of a scenario are as old as its timestamps; none may expire.
    settings = {"retention.ms": "-1"}
    while True:
        try:
            known = admin.list_topics(timeout=_SECONDS_TO_MAKE_TOPIC).topics
            wanted = [
                NewTopic(topic, number, 1, config=settings)
                for topic, number in partitions.items()
                if topic not in known
            ]
            if not wanted and all(len(known[name].partitions) >= partitions[name] for name in partitions):
                return
            for made in (admin.create_topics(wanted) if wanted else {}).values():
                made.result(_SECONDS_TO_MAKE_TOPIC)
        except KafkaException as error:
            # Another process of the job may have made it; or the broker was killed, and registers again.
            made_before = error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
            if not made_before and time.monotonic() > deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)
