"""Reads one partition (Flink: KafkaPartitionSplitReader).

The rules this module lives by:

- The position is the next offset to read, the offset to stop at, and the id of the topic. It comes from
  checkpoints; the offsets of the consumer group are written as a courtesy to those who watch the lag, and
  never read for a restore.
- An offset that is gone (the topic's retention has deleted it) is an error: to read on from elsewhere would
  lose rows without a word. So is a topic that was created again (`topic_ids.py`).
- Offsets have gaps: markers of transactions take some, and so do rows of aborted ones. The end of the
  partition is known by librdkafka's end-of-partition event, not by counting.
- A read takes what librdkafka's own threads have fetched, and does not wait. Only the first one does, until
  the brokers have answered for the first time: a task that lives for a few reads would find nothing. All
  readers of a task fetch meanwhile, so they wait together. Where there was nothing, the next read comes soon
  at first, then less often.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from onceproof.engine.connectors.kafka.kafka_errors import (
    KafkaUnavailable,
    UnusableSetting,
    missing_topic,
    no_broker,
    refused_property,
)
from onceproof.engine.connectors.kafka.offsets import KafkaTopicPartition
from onceproof.engine.connectors.kafka.record_schemas import (
    ConsumerRecord,
    KafkaRecordDeserializationSchema,
)
from onceproof.engine.connectors.kafka.topic_ids import TopicWatch
from onceproof.engine.connectors.source import SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.formats.message_schemas import DeserializationSchema, MalformedMessage

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

NO_STOP: Final = -1
REQUEST_TIMEOUT_S: Final = 10.0
_FIRST_ANSWER_S: Final = 0.5
_PAUSE_S: Final = 0.02
_LARGEST_READ: Final = 100_000
"""Rows; librdkafka takes no more than a million."""
_SHORTEST_RETRY_MS: Final = 2
_LONGEST_RETRY_MS: Final = 50
_DEFAULTS: Final[dict[str, Any]] = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    # A new row is fetched at once, not half a second later.
    "fetch.wait.max.ms": 100,
    # As the Java client: librdkafka would look for a broker that was away every ten seconds only.
    "reconnect.backoff.max.ms": 1000,
    "log_level": 2,
}


class OffsetGone(UnrecoverableError):
    """The rows that a job is to read next do not exist any more. The message is one line."""


class ReaderPosition(NamedTuple):
    """The next offset to read, and the one to stop before; NO_STOP: the partition has no end."""

    offset: int
    stop: int = NO_STOP
    topic_id: str = ""
    """Of the topic that has these offsets; "": its brokers have no ids."""


class ClusterOffsets:
    """The offsets of one partition, asked by a consumer (see `offsets.PartitionOffsets`)."""

    def __init__(self, consumer: Consumer, place: KafkaTopicPartition, servers: str) -> None:
        self.name = f"{place.topic}-{place.partition} at {servers}"
        self._consumer = consumer
        self._place = place
        self._servers = servers

    def earliest(self) -> int:
        """Return the first offset that is still there."""
        return self.range()[0]

    def latest(self) -> int:
        """Return the offset behind the last committed row."""
        return self.range()[1]

    def at(self, timestamp_ms: int) -> int | None:
        """Return the offset of the first row of a time or later."""
        from confluent_kafka import TopicPartition

        asked = [TopicPartition(*self._place, timestamp_ms)]
        [found] = self._ask(lambda: self._consumer.offsets_for_times(asked, timeout=REQUEST_TIMEOUT_S))
        return found.offset if found.offset >= 0 else None

    def committed(self) -> int | None:
        """Return the offset of the consumer group."""
        from confluent_kafka import TopicPartition

        asked = [TopicPartition(*self._place)]
        [found] = self._ask(lambda: self._consumer.committed(asked, timeout=REQUEST_TIMEOUT_S))
        return found.offset if found.offset >= 0 else None

    def range(self) -> tuple[int, int]:
        """Return the first offset that is still there, and the one behind the last committed row."""
        from confluent_kafka import TopicPartition

        place = TopicPartition(*self._place)
        found = self._ask(lambda: self._consumer.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT_S))
        if found is None:
            raise no_broker(self._servers, f"no offsets of {self.name}")
        low, high = found
        return low, high

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Ask again while the leader of the partition is being chosen, as for a topic that was just made."""
        from confluent_kafka import KafkaError, KafkaException

        no_leader = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            try:
                return question()
            except KafkaException as error:
                said: KafkaError = error.args[0]
                if said.code() not in no_leader or time.monotonic() > deadline:
                    raise self._explained(said) from error
            time.sleep(_PAUSE_S)

    def _explained(self, said: KafkaError) -> Exception:
        from confluent_kafka import KafkaError

        if said.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            return missing_topic(self._place.topic, self._servers)
        return no_broker(self._servers, said.str())


class PartitionReader(SplitReader):
    """Reads a partition from a position on.

    Args:
        consumer: assigned to nothing yet.
        place: the partition.
        position: where to begin and to stop.
        deserializer: makes values of rows.
        servers: for messages.
        commits: whether completed checkpoints commit their offset to the group.
        watch: compares the id of the topic; None: the brokers have no ids.
    """

    def __init__(
        self,
        consumer: Consumer,
        place: KafkaTopicPartition,
        position: ReaderPosition,
        deserializer: DeserializationSchema | KafkaRecordDeserializationSchema,
        servers: str,
        *,
        commits: bool,
        watch: TopicWatch | None = None,
    ) -> None:
        from confluent_kafka import TopicPartition

        self._consumer = consumer
        self._place = place
        self._next, self._stop, self._topic_id = position
        self._watch = watch
        self._servers = servers
        self._known = ClusterOffsets(consumer, place, servers)
        self._commits = commits
        self._retry_ms = _SHORTEST_RETRY_MS
        self._values = values_of(deserializer)
        self._is_new = True
        self._has_ended = self._stop != NO_STOP and self._next >= self._stop
        self._read_out_at: float | None = None
        """When the last row was read, until the topic is known to have been the same then."""
        if not self._has_ended:
            consumer.assign([TopicPartition(*place, self._next)])

    def read(self, limit: int) -> list[Record]:
        """Return rows that have been fetched.

        Raises OffsetGone, TopicReplaced, KafkaUnavailable or MalformedMessage.
        """
        if self._has_ended or limit < 1:
            return []
        if self._read_out_at is not None:
            self._confirm_end(self._read_out_at)
            return []
        if self._watch is not None:
            self._watch.look(self._next)
        limit = min(limit, _LARGEST_READ)
        messages = self._first_messages(limit) if self._is_new else self._consumer.consume(limit, 0)
        records: list[Record] = []
        values_of_message = self._values
        stop = self._stop
        # One pass for each row; the calls of the library cost most of it.
        for message in messages:
            error = message.error()
            if error is not None:
                self._take_event(error, message)
                continue
            offset: Any = message.offset()
            if stop != NO_STOP and offset >= stop:
                self._next = stop
                break
            timestamp = message.timestamp()[1]
            try:
                for value in values_of_message(message):
                    records.append((value, timestamp))
            except MalformedMessage as malformed:
                place = f"{self._place.topic}, partition {self._place.partition}, offset {offset}"
                raise MalformedMessage(f"{place}: {malformed}") from malformed
            self._next = offset + 1
        if stop != NO_STOP and self._next >= stop:
            self._read_out_at = time.monotonic()
            self._confirm_end(self._read_out_at)
        if records:
            self._retry_ms = _SHORTEST_RETRY_MS
        elif not messages:
            self._retry_ms = min(2 * self._retry_ms, _LONGEST_RETRY_MS)
        return records

    @property
    def position(self) -> tuple[int, int, str]:
        """The next offset, where to stop, and the id of the topic."""
        return self._next, self._stop, self._topic_id

    @property
    def exhausted(self) -> bool:
        """Whether the reader has come to the offset where it stops."""
        return self._has_ended

    @property
    def pending_records(self) -> int | None:
        """The offsets up to the end of the partition, as the client last heard of it (Flink: records-lag).

        Marks of transactions take offsets as well, so there may be fewer rows.
        """
        if self._has_ended:
            return 0
        from confluent_kafka import TopicPartition

        _, end = self._consumer.get_watermark_offsets(TopicPartition(*self._place), cached=True)
        if end < 0:
            return None
        return max(0, (end if self._stop == NO_STOP else min(end, self._stop)) - self._next)

    @property
    def retry_ms(self) -> int:
        """Short after rows, longer the longer there are none."""
        return self._retry_ms

    def checkpoint_complete(self, position: Any) -> None:
        """Commit the offset to the group, without waiting and without a second try."""
        if self._commits:
            from confluent_kafka import TopicPartition

            self._consumer.commit(offsets=[TopicPartition(*self._place, position[0])], asynchronous=True)

    def close(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
        self._consumer.close()

    def _confirm_end(self, read_out_at: float) -> None:
        """End as soon as the topic is known to have been the same one until its last row was read."""
        if self._watch is None or self._watch.is_confirmed(read_out_at, self._next):
            self._has_ended = True

    def _first_messages(self, limit: int) -> list[Message]:
        """Wait for the first message or event, and return it with what has come beside it."""
        self._is_new = False
        first = self._consumer.poll(_FIRST_ANSWER_S)
        return [] if first is None else [first, *self._consumer.consume(limit - 1, 0)]

    def _take_event(self, error: KafkaError, message: Message) -> None:
        from confluent_kafka import KafkaError

        name = f"{self._place.topic}-{self._place.partition} at {self._servers}"
        match error.code():
            case KafkaError._PARTITION_EOF:
                self._next = max(self._next, message.offset() or 0)
            case KafkaError._AUTO_OFFSET_RESET | KafkaError.OFFSET_OUT_OF_RANGE:
                raise self._offset_gone(name)
            case KafkaError.UNKNOWN_TOPIC_OR_PART | KafkaError._UNKNOWN_PARTITION:
                raise missing_topic(self._place.topic, self._servers)
            case _:
                raise KafkaUnavailable(f"{name} cannot be read: {error.str()}")

    def _offset_gone(self, name: str) -> OffsetGone:
        """Return the error for an offset that the brokers do not have. Raises TopicReplaced."""
        if self._watch is not None:
            self._watch.require_same(self._next)
        low, high = self._known.range()
        if self._next < low:
            return OffsetGone(
                f"offset {self._next} of {name} does not exist any more: the topic's retention has deleted"
                f" offsets {self._next} to {low - 1}, {low - self._next} that the job has not read; begin the"
                " job without state, or keep rows for longer"
            )
        return OffsetGone(
            f"offset {self._next} of {name} does not exist any more: the partition ends at {high} now, so its"
            " brokers have lost rows that the job has read; begin the job without state"
        )


def values_of(
    deserializer: DeserializationSchema | KafkaRecordDeserializationSchema,
) -> Callable[[Message], Sequence[Any]]:
    """Return what makes the values of a message."""
    if isinstance(deserializer, KafkaRecordDeserializationSchema):
        whole = deserializer.deserialize
        return lambda message: list(whole(record_of(message)))
    if type(deserializer).deserialize_all is not DeserializationSchema.deserialize_all:
        several = deserializer.deserialize_all

        def values_of_message(message: Message) -> Sequence[Any]:
            data = message.value()
            return () if data is None else several(data)

        return values_of_message
    one = deserializer.deserialize

    def value_of(message: Message) -> Sequence[Any]:
        data = message.value()
        value = None if data is None else one(data)
        return () if value is None else (value,)

    return value_of


def record_of(message: Message) -> ConsumerRecord:
    """Return a message as plain data."""
    headers: Any = message.headers()
    return ConsumerRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(headers or ()),
    )


def client_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a source's clients: those given, and defaults."""
    return {**_DEFAULTS, **properties}


def make_consumer(properties: Mapping[str, Any]) -> Consumer:
    """Return a consumer of librdkafka. Raises UnusableSetting."""
    from confluent_kafka import Consumer, KafkaException

    try:
        return Consumer(client_properties(properties))
    except KafkaException as error:
        raise refused_property(error.args[0], properties) from error
    except (TypeError, ValueError) as error:
        raise UnusableSetting(f"the properties of a Kafka source cannot be used: {error}") from error
