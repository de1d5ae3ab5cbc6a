"""The source and the sink of Kafka of a job under trial in a real process, and the readers of its topics.

Rules:

- Source and sink are the engine's. The source counts its records and the sink logs its commits
  (`file_io.py`).
- A partition of the input topic is a split of the scenario. A row holds the timestamp of its record, because
  Kafka takes none before 1970 and reads 0 as "now".
- The topic of a sink is made by the first process that builds the job.
- The job reaches the broker through a proxy, the harness reaches it directly.
- Readers of Kafka are not shown the transaction of a row, so each row that the sink writes has it in a
  header. A row without one was written by no sink who may: its transaction is one that no checkpoint lists.
- Whether a transaction is committed, its coordinator says. So `KafkaOutput` reads all rows, also those that
  readers of committed rows have to wait for because a dead process has left a transaction open before them.
  At the end nothing is open: then a reader of committed rows must see just what the coordinator calls
  committed.
- `KafkaWatch` sees a row when no transaction before it is open. So rows may come late, and never early.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from onceproof.engine.connectors.kafka import wire_protocol as wire
from onceproof.engine.connectors.kafka.broker_transactions import BrokerTransactions
from onceproof.engine.connectors.kafka.kafka_source import KafkaSource, split_of
from onceproof.engine.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition
from onceproof.engine.connectors.kafka.record_schemas import KafkaRecordSerializationSchema
from onceproof.engine.connectors.kafka.transaction_function import KafkaTransactionFunction
from onceproof.engine.connectors.kafka.transactions import ProducerRecord, TransactionalId
from onceproof.engine.connectors.kafka.wire_protocol import Address, BrokerConnection
from onceproof.engine.elements import Record
from onceproof.engine.formats.message_schemas import DeserializationSchema
from onceproof.engine.types import TypeInformation, Types
from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.systems.process.file_io import CountedReader, CountedSource, LoggedCommits
from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.kafka_clients import reader_settings
from onceproof.harness.systems.process.visible_outputs import ServerWatch
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message


BATCH_ROWS: Final = 3
PARTITIONS: Final = 2
"""Of the topic of a sink."""
TRANSACTION: Final = "transaction"
"""The header with the transactional id."""
TIMEOUT_MS: Final = 600_000
"""No transaction times out: that would be a loss that the sink must report."""
_SECONDS_TO_MAKE_TOPIC: Final = 120.0
_SECONDS_BETWEEN_MAKES: Final = 0.05
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
    again. Raises KafkaException, TimeoutError.
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
        except (KafkaException, TimeoutError) as error:
            # Another process of the job may have made it; or the broker was killed, and registers again.
            made_before = error.args and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
            if not made_before and time.monotonic() > deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_MAKES)


Answer = TypeVar("Answer")

_COMMITTED: Final = ("PrepareCommit", wire.COMPLETE_COMMIT)
_BEING_WRITTEN: Final = frozenset({"PrepareCommit", "PrepareAbort"})
"""The states of transactions that are decided, while the markers of the decision are on their way."""
_SECONDS_TO_ANSWER: Final = 30.0
_SECONDS_BETWEEN_TRIES: Final = 0.02


def transaction_of(message: Message, topics: TrialTopics) -> str:
    """Return the transactional id in the headers of a row; without one the name of what is in none."""
    headers: Any = message.headers() or ()
    found = dict(headers).get(TRANSACTION)
    return topics.unlisted if found is None else str(found, "utf-8")


class KafkaOutput:
    """The committed transactions in the topics of a scenario (`visible_outputs.Output`)."""

    def __init__(self, topics: TrialTopics) -> None:
        self._topics = topics
        self._unlisted = topics.unlisted
        self._rows: dict[str, list[Row]] = {}
        """By transactional id, in the order in which they were read."""
        self._states: dict[str, str] = {}
        self._offsets: dict[tuple[str, int], int] = {}
        self._consumer: Consumer | None = None

    def owns(self, name: str) -> bool:
        """Return whether a name is that of a transaction in these topics."""
        return name.startswith(f"{self._topics.prefix}-")

    def names(self) -> list[str]:
        """Return the ids of the committed transactions, and a name for rows that are in none."""
        self._look()
        return [name for name in self._rows if self._is_visible(name)]

    def identity(self, name: str) -> Hashable | None:
        """Return the rows as text; None if the transaction is not visible."""
        if not self._is_visible(name):
            self._look()
        return repr(self._rows[name]) if self._is_visible(name) else None

    def rows(self, name: str) -> list[Row]:
        """Return the rows of a transaction, partition by partition."""
        return self._rows.get(name, [])

    def writer(self, name: str) -> tuple[int, int, str]:
        """Return the writer in an id; (0, 0, "unknown") for rows that are in no transaction of a sink."""
        writer = TransactionalId.parse(name)
        return (0, 0, "unknown") if writer is None else (writer.subtask, writer.epoch, writer.attempt)

    def waits(self, name: str) -> bool:
        """Return False: the sink writes rows before the commit."""
        return False

    def unfinished(self) -> list[str]:
        """Return the ids of the transactions that are open and have rows, and those seen otherwise.

        Where nothing is open, a reader of committed rows must see what the coordinator calls committed. A
        transaction of which it sees other rows is not ended either, whatever the coordinator says.
        """
        error, listed = self._ask(
            lambda broker: broker.list_transactions((wire.ONGOING,)), lambda answer: answer[0] == wire.NONE
        )
        assert error == wire.NONE, wire.error_name(error)
        found = sorted(each.transactional_id for each in listed if self.owns(each.transactional_id))
        return found or self._seen_otherwise()

    def close(self) -> None:
        """Close the connection."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    # ---- internal

    def _is_visible(self, name: str) -> bool:
        return name in self._rows and (name == self._unlisted or self._states.get(name) in _COMMITTED)

    def _look(self) -> None:
        """Read the rows that have come, and ask what became of their transactions."""
        if self._consumer is None:
            self._consumer = self._new_consumer("read_uncommitted")
        self._read(self._consumer, self._offsets, self._rows)
        names = [name for name in self._rows if name != self._unlisted]

        def ask(broker: BrokerConnection) -> list[wire.TransactionDescription]:
            return broker.describe_transactions(names)

        def is_answer(found: Sequence[wire.TransactionDescription]) -> bool:
            return all(each.error in (wire.NONE, wire.TRANSACTIONAL_ID_NOT_FOUND) for each in found)

        if names:
            self._states = {each.transactional_id: each.state for each in self._ask(ask, is_answer)}

    def _seen_otherwise(self) -> list[str]:
        """Return the transactions of which a reader of committed rows sees other rows, or none."""
        self._wait_for_markers()
        expected = {name: self._rows[name] for name in self._rows if self._is_visible(name)}
        consumer = self._new_consumer("read_committed")
        seen: dict[str, list[Row]] = {}
        try:
            self._read(consumer, {}, seen)
        finally:
            consumer.close()
        return sorted(name for name in {*seen, *expected} if seen.get(name) != expected.get(name))

    def _wait_for_markers(self) -> None:
        """Wait until each decision stands in the topics: the coordinator answers before that."""
        deadline = time.monotonic() + _SECONDS_TO_ANSWER
        self._look()
        while not _BEING_WRITTEN.isdisjoint(self._states.values()) and time.monotonic() < deadline:
            time.sleep(_SECONDS_BETWEEN_TRIES)
            self._look()

    def _new_consumer(self, isolation: str) -> Consumer:
        from confluent_kafka import Consumer

        return Consumer(
            {
                **reader_settings(self._topics.servers, f"{self._topics.prefix}-outside"),
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 10,
            }
        )

    def _read(
        self, consumer: Consumer, offsets: dict[tuple[str, int], int], rows: dict[str, list[Row]]
    ) -> None:
        """Add the rows from ``offsets`` to the end of each partition, and move ``offsets`` on."""
        from confluent_kafka import KafkaError, TopicPartition

        deadline = time.monotonic() + _SECONDS_TO_ANSWER
        listed = consumer.list_topics(timeout=_SECONDS_TO_ANSWER).topics
        places = [
            (name, number)
            for name in sorted(listed)
            if self._topics.is_output(name)
            for number in sorted(listed[name].partitions)
        ]
        found: dict[tuple[str, int], list[Any]] = {place: [] for place in places}
        reading = set(places)
        consumer.assign([TopicPartition(*place, offsets.get(place, 0)) for place in places])
        while reading:
            assert time.monotonic() < deadline, f"the end of {sorted(reading)} does not come"
            message = consumer.poll(1)
            if message is None:
                continue
            place = message.topic() or "", message.partition() or 0
            error = message.error()
            if error is None:
                found[place].append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                reading.discard(place)
                offsets[place] = message.offset() or 0
        consumer.unassign()
        for place in places:
            for message in found[place]:
                name = transaction_of(message, self._topics)
                rows.setdefault(name, []).append(as_tuple(msgspec.json.decode(message.value())))

    def _ask(
        self,
        question: Callable[[BrokerConnection], Answer],
        is_answer: Callable[[Answer], bool] = lambda answer: True,
    ) -> Answer:
        """Return the answer of the broker; ask again while it is being started."""
        deadline = time.monotonic() + _SECONDS_TO_ANSWER
        host, _, port = self._topics.servers.rpartition(":")
        while True:
            try:
                with BrokerConnection(Address(host, int(port))) as broker:
                    answer = question(broker)
                if is_answer(answer) or time.monotonic() > deadline:
                    return answer
            except OSError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_SECONDS_BETWEEN_TRIES)


_SECONDS_TO_READ: Final = 0.1
_SECONDS_BETWEEN_LOOKS: Final = 0.1
_SECONDS_TO_LIST: Final = 1.0
_MOST_ROWS: Final = 100


class KafkaWatch(ServerWatch):
    """Reads the topics of a scenario's sinks.

    Args:
        topics: of the scenario; those of sinks may be made later.
    """

    def __init__(self, topics: TrialTopics) -> None:
        super().__init__()
        self._topics = topics
        self._seen: set[str] = set()

    def watch(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(reader_settings(self._topics.servers, f"{self._topics.prefix}-watch"))
        try:
            while not self._assign(consumer):
                if self.ends.wait(_SECONDS_BETWEEN_LOOKS):
                    return
            while not self.ends.is_set():
                self._look(consumer)
        finally:
            consumer.close()

    def _assign(self, consumer: Consumer) -> bool:
        """Begin to read all partitions; return whether there is a topic. A job has one sink into Kafka."""
        from confluent_kafka import KafkaException, TopicPartition

        try:
            listed = consumer.list_topics(timeout=_SECONDS_TO_LIST).topics
        except KafkaException:
            return False
        places = [
            TopicPartition(name, number, 0)
            for name, metadata in listed.items()
            if self._topics.is_output(name)
            for number in metadata.partitions
        ]
        if places:
            consumer.assign(places)
        return bool(places)

    def _look(self, consumer: Consumer) -> None:
        for message in consumer.consume(_MOST_ROWS, _SECONDS_TO_READ):
            if message.error() is not None:
                continue
            name = transaction_of(message, self._topics)
            if name not in self._seen:
                self._seen.add(name)
                self.note(event_log.ROWS_SEEN, name)
