"""Writes rows to Kafka by librdkafka, with or without a transaction.

The rules this module lives by:

- Rows are handed over one by one and sent by librdkafka's own threads. A row that cannot be delivered is
  noticed by its delivery report; the next call raises.
- ``flush`` returns when each row was acknowledged by all in-sync replicas, or raises.
- Rows keep their order in a partition: the producer is idempotent.
- Another client can take the place of librdkafka's. Then writing and its errors do not need the library.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from onceproof.engine.connectors.kafka.kafka_errors import (
    ClientError,
    KafkaUnavailable,
    MissingTopic,
    RejectedRow,
    client_exception,
    missing_topic,
    no_broker,
    refused_property,
)
from onceproof.engine.connectors.kafka.transactions import ProducerRecord

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

_DEFAULTS: Final[dict[str, Any]] = {
    # As the Java client: a key is in one partition, whichever client writes it.
    "partitioner": "murmur2_random",
    "linger.ms": 5,
    "enable.idempotence": True,
    # As the Java client: librdkafka would look for a broker that was away every ten seconds only.
    "reconnect.backoff.max.ms": 1000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 262_144,
    # Delivery reports of rows that were delivered would cost a call of Python each.
    "delivery.report.only.error": True,
}
_FULL_QUEUE_S: Final = 60.0
_POLL_S: Final = 0.05
_INIT_S: Final = 0.25

# What librdkafka logs becomes errors here; its own lines are for those who ask for them.
_logger = logging.getLogger("onceproof.kafka.client")
_logger.addHandler(logging.NullHandler())


class RowProducer:
    """One producer of librdkafka.

    Args:
        properties: of librdkafka.
        make_client: makes another client out of the settings, with the methods of librdkafka's.

    Raises:
        UnusableSetting: librdkafka does not know a property or its value.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        make_client: Callable[[Mapping[str, Any]], Producer] | None = None,
    ) -> None:
        self._servers = str(properties.get("bootstrap.servers"))
        self._failure: tuple[KafkaError, str, bytes | None] | None = None
        """Why the first row was not delivered, with its topic and value."""
        self._producer: Producer | None = None
        settings = {**_DEFAULTS, **properties, "on_delivery": self._report}
        if make_client is not None:
            self._producer = make_client(settings)
            return
        from confluent_kafka import KafkaException, Producer

        try:
            self._producer = Producer(settings, logger=_logger)
        except KafkaException as error:
            raise refused_property(error.args[0], properties) from error

    def begin_transaction(self, timeout_s: float, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Take the transactional id and begin. Raises KafkaUnavailable and UnusableSetting.

        ``is_wanted`` is asked now and then while the brokers do not answer; if it says no, this raises.
        """
        from confluent_kafka import KafkaException

        producer = self._running()
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                try:
                    # A call that times out goes on in the library, and the next one resumes it.
                    producer.init_transactions(min(_INIT_S, timeout_s))
                    break
                except KafkaException as error:
                    may_come = error.args[0].retriable()
                    if not may_come or time.monotonic() > deadline or not is_wanted():
                        raise
            producer.begin_transaction()
        except KafkaException as error:
            raise self._explained(error, "the transaction cannot begin") from error

    def produce(self, records: Sequence[ProducerRecord]) -> None:
        """Hand rows over, and wait where the queue is full. Raises what `flush` raises."""
        client_error = client_exception()
        producer = self._running()
        produce = producer.produce
        place, deadline = 0, 0.0
        while place < len(records):
            try:
                # One call a row: librdkafka's batch call is slower (280k against 390k rows/s), takes no
                # headers, and leaves an exception behind where it refuses a row.
                for record in records[place:] if place else records:
                    topic, value, key, partition, timestamp_ms, headers = record
                    if headers:
                        produce(topic, value, key, partition, None, None, timestamp_ms, list(headers))
                    else:
                        produce(topic, value, key, partition, None, None, timestamp_ms)
                    place += 1
            except BufferError:
                deadline = deadline or time.monotonic() + _FULL_QUEUE_S
                self._wait_for_room(deadline)
            except client_error as error:
                self._refuse(error.args[0], records[place])
        self._serve(producer.poll, 0)

    def flush(self, timeout_s: float) -> None:
        """Wait until every row is stored. Raises KafkaUnavailable, MissingTopic or RejectedRow."""
        left = self._serve(self._running().flush, timeout_s)
        if left:
            raise KafkaUnavailable(
                f"{left} rows were not stored by Kafka at {self._servers} within {timeout_s:.0f} s"
            )

    def send_offsets(self, offsets: Sequence[Any], group: Any, timeout_s: float) -> None:
        """Add offsets of a consumer group to the transaction."""
        from confluent_kafka import KafkaException

        try:
            self._running().send_offsets_to_transaction(list(offsets), group, timeout_s)
        except KafkaException as error:
            raise self._explained(error, "offsets cannot be added to the transaction") from error

    def commit(self, timeout_s: float) -> None:
        """Commit the transaction of this producer."""
        from confluent_kafka import KafkaException

        try:
            self._running().commit_transaction(timeout_s)
        except KafkaException as error:
            raise self._explained(error, "the transaction cannot be committed") from error

    def abort(self, timeout_s: float) -> None:
        """Abort the transaction of this producer; one that has ended already is left as it is."""
        from confluent_kafka import KafkaException

        producer = self._running()
        producer.purge(in_queue=True, in_flight=True, blocking=False)
        try:
            producer.abort_transaction(timeout_s)
        except KafkaException as error:
            _logger.info("a transaction is left to its timeout or the next start: %s", error.args[0].str())

    def close(self) -> None:
        """Drop all rows on their way, and end the threads of librdkafka; the transaction stays open."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge(in_queue=True, in_flight=True, blocking=False)
            # Not producer.close(), which aborts the transaction: it may be pre-committed. The last reference
            # goes here, and with it the producer.

    # ---- internal

    def _running(self) -> Producer:
        assert self._producer is not None, "the producer is used after it was closed"
        return self._producer

    def _wait_for_room(self, deadline: float) -> None:
        self._serve(self._running().poll, _POLL_S)
        if time.monotonic() > deadline:
            raise KafkaUnavailable(
                f"Kafka at {self._servers} takes no rows for {_FULL_QUEUE_S:.0f} s, and the queue is full"
            )

    def _report(self, error: KafkaError | None, message: Message) -> None:
        """Keep the first row that was not delivered; called by ``poll`` and ``flush``."""
        if error is not None and self._failure is None:
            self._failure = error, message.topic() or "", message.value()

    def _serve(self, call: Callable[[float], int], timeout_s: float) -> int:
        """Call ``poll`` or ``flush``, and raise what has gone wrong by then.

        Where the producer has ended for good, the library raises out of the first call that notices; with
        delivery reports or log lines in the same call, what comes is a SystemError.
        """
        client_error = client_exception()
        try:
            left = call(timeout_s)
        except client_error as error:
            raise self._explained(error, "the producer can write nothing more") from error
        except SystemError as error:
            raise KafkaUnavailable(
                f"the producer at {self._servers} can write nothing more: another process has ended its"
                f" transaction ({error.__cause__ or 'fenced'})"
            ) from error
        if self._failure is not None:
            self._raise(*self._failure)
        return left

    def _refuse(self, error: KafkaError, record: ProducerRecord) -> None:
        """Raise for a row that the client does not take, or for an earlier one that was not delivered."""
        self._serve(self._running().poll, 0)
        self._raise(error, record.topic, record.value)

    def _raise(self, failure: KafkaError, topic: str, value: bytes | None) -> NoReturn:
        code = failure.code()
        if code in (ClientError.UNKNOWN_TOPIC_OR_PART, ClientError.UNKNOWN_TOPIC):
            raise missing_topic(topic, self._servers)
        if code in (ClientError.MSG_SIZE_TOO_LARGE, ClientError.INVALID_RECORD):
            raise RejectedRow(
                f"Kafka takes no row {value[:60] if value else value!r} of {len(value or b'')} bytes for"
                f" topic {topic!r}: {failure.str()}: raise message.max.bytes of the client and"
                " max.message.bytes of the topic, or make rows smaller"
            )
        if code == ClientError.UNKNOWN_PARTITION:
            raise MissingTopic(f"topic {topic!r} at {self._servers} has no such partition: {failure.str()}")
        raise KafkaUnavailable(f"a row for topic {topic!r} at {self._servers} is lost: {failure.str()}")

    def _explained(self, exception: Exception, what: str) -> Exception:
        error: KafkaError = exception.args[0]
        if error.code() == ClientError.TIMED_OUT:
            return no_broker(self._servers, f"{what}: {error.str()}")
        return KafkaUnavailable(f"{what} at {self._servers}: {error.str()}")
