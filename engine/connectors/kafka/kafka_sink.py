"""The sink for Kafka (PyFlink: KafkaSink), and its functions without transactions (Flink: KafkaWriter).

Its builder chooses the function that writes: `transaction_function.py` with transactions,
`batch_transactions.py` where the brokers take no requests of our own, and the two here without transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Self

from onceproof.engine.connectors.kafka.batch_transactions import WriteAheadKafkaFunction
from onceproof.engine.connectors.kafka.broker_transactions import FLUSH_TIMEOUT_S, BrokerTransactions
from onceproof.engine.connectors.kafka.kafka_errors import UnusableSetting
from onceproof.engine.connectors.kafka.record_schemas import KafkaRecordSerializationSchema
from onceproof.engine.connectors.kafka.row_producer import RowProducer
from onceproof.engine.connectors.kafka.transaction_function import KafkaTransactionFunction
from onceproof.engine.connectors.kafka.transactions import LONGEST_PREFIX_BYTES
from onceproof.engine.connectors.sink import DeliveryGuarantee, Sink
from onceproof.engine.extras import KAFKA, require
from onceproof.engine.functions import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
    SinkFunction,
)

_logger: Final = logging.getLogger(__name__)


class PlainKafkaFunction(SinkFunction, CheckpointedFunction):
    """Writes the rows of one subtask as they come; they are visible at once.

    Args:
        check: raises where no row could be written; called when the subtask starts.
        connect: makes the producer.
        serializer: makes rows out of values.
        flushes: whether a checkpoint waits until all rows are stored: then no failure loses one.
        logs_failures_only: whether a row that is not delivered is only logged.
    """

    def __init__(
        self,
        check: Callable[[], None],
        connect: Callable[[], RowProducer],
        serializer: KafkaRecordSerializationSchema,
        *,
        flushes: bool,
        logs_failures_only: bool = False,
    ) -> None:
        self._check = check
        self._connect = connect
        self._serializer = serializer
        self._flushes = flushes
        self._logs_failures_only = logs_failures_only
        self._producer: RowProducer | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Check the cluster and make the producer."""
        self._subtask = runtime_context.get_index_of_this_subtask()
        self._check()
        self._producer = self._connect()

    def invoke(self, value: Any, context: Any) -> None:
        """Hand the row of a value to the producer."""
        record = self._serializer.serialize(value, context.timestamp(), self._subtask)
        if record is not None:
            self._try(lambda producer: producer.produce((record,)))

    def finish(self) -> None:
        """Wait until all rows are stored."""
        self._try(lambda producer: producer.flush(FLUSH_TIMEOUT_S))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Wait until all rows are stored, if the sink promises them."""
        if self._flushes:
            self.finish()

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Restore nothing: rows are visible when they are written."""

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _try(self, write: Callable[[RowProducer], None]) -> None:
        assert self._producer is not None, "the sink is used before it is opened"
        try:
            write(self._producer)
        except Exception as error:
            if not self._logs_failures_only:
                raise
            # The first failure stands until the producer is replaced.
            self._producer.close()
            self._producer = self._connect()
            _logger.error("rows are lost, which set_log_failures_only(True) allows: %s", error)


DEFAULT_PREFIX: Final = "kafka-sink"
DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 3_600_000
"""One hour, as in Flink. Brokers allow 15 minutes by default: the sink then says so."""
TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
SERVERS: Final = "bootstrap.servers"
# Names of the Java client for what librdkafka calls otherwise.
_JAVA_NAMES: Final = {
    "max.request.size": "message.max.bytes",
    "buffer.memory": None,
    "max.block.ms": None,
    "key.serializer": None,
    "value.serializer": None,
}


class KafkaSink(Sink):
    """Writes values to topics of Kafka (PyFlink: KafkaSink). Build one with ``KafkaSink.builder()``."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        serializer: KafkaRecordSerializationSchema,
        guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE,
        prefix: str = DEFAULT_PREFIX,
        *,
        writes_ahead: bool = False,
        ignores_timeouts: bool = False,
        logs_failures_only: bool = False,
    ) -> None:
        self._properties = dict(properties)
        self._timeout_ms = _milliseconds(
            self._properties.pop(TRANSACTION_TIMEOUT, DEFAULT_TRANSACTION_TIMEOUT_MS)
        )
        self._serializer = serializer
        self._guarantee = guarantee
        self._prefix = prefix
        self._writes_ahead = writes_ahead
        self._ignores_timeouts = ignores_timeouts
        self._logs_failures_only = logs_failures_only

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Return a builder."""
        return KafkaSinkBuilder()

    def create_function(self) -> SinkFunction:
        """Return a function for one subtask. Raises ExtraMissing."""
        require("KafkaSink", KAFKA)
        connect = partial(BrokerTransactions, self._properties)
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return PlainKafkaFunction(
                partial(check_cluster, self._properties, self._serializer.topics),
                partial(RowProducer, self._properties),
                self._serializer,
                flushes=self._guarantee is DeliveryGuarantee.AT_LEAST_ONCE,
                logs_failures_only=self._logs_failures_only,
            )
        if self._writes_ahead:
            return WriteAheadKafkaFunction(self._properties, self._serializer, self._prefix, self._timeout_ms)
        function = KafkaTransactionFunction(connect, self._serializer, self._prefix, self._timeout_ms)
        if self._ignores_timeouts:
            function.ignore_failures_after_transaction_timeout()
        return function


class KafkaSinkBuilder:
    """Builds a sink (PyFlink: KafkaSinkBuilder)."""

    def __init__(self) -> None:
        self._properties: dict[str, Any] = {}
        self._serializer: KafkaRecordSerializationSchema | None = None
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix = DEFAULT_PREFIX
        self._writes_ahead = False
        self._ignores_timeouts = False

    def build(self) -> KafkaSink:
        """Return the sink. Raises UnusableSetting without servers or a serializer."""
        if not self._properties.get(SERVERS):
            raise UnusableSetting("a Kafka sink has no bootstrap.servers: call set_bootstrap_servers")
        if self._serializer is None:
            raise UnusableSetting("a Kafka sink has no record serializer: call set_record_serializer")
        return KafkaSink(
            self._properties,
            self._serializer,
            self._guarantee,
            self._prefix,
            writes_ahead=self._writes_ahead,
            ignores_timeouts=self._ignores_timeouts,
        )

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Set the brokers: host:port, several with commas between them."""
        self._properties[SERVERS] = bootstrap_servers
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Set what the sink promises; NONE by default, as in Flink."""
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> Self:
        """Set the beginning of all transactional ids; keep it when the job is started again.

        Two jobs may share one: ids carry the sink and the checkpoint folder as well.

        Raises:
            UnusableSetting: it is empty, or longer than 6,400 bytes.
        """
        length = len(transactional_id_prefix.encode())
        if not 0 < length <= LONGEST_PREFIX_BYTES:
            raise UnusableSetting(
                f"the transactional id prefix has {length} bytes: give 1 to {LONGEST_PREFIX_BYTES}"
            )
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> Self:
        """Set what makes rows out of values."""
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: Any) -> Self:
        """Set a property of Kafka's producer; transaction.timeout.ms is that of all transactions."""
        name = _JAVA_NAMES.get(key, key)
        if name is not None:
            self._properties[name] = value
        return self

    def set_write_ahead(self, write_ahead: bool = True) -> Self:
        """Keep rows in checkpoints until they are complete, for brokers that ask for TLS or SASL (ours)."""
        self._writes_ahead = write_ahead
        return self

    def ignore_failures_after_transaction_timeout(self) -> Self:
        """Let a restore log rows whose transaction has timed out, and go on without them (ours)."""
        self._ignores_timeouts = True
        return self


def check_cluster(properties: Mapping[str, Any], topics: tuple[str, ...]) -> None:
    """Raise where no broker answers or a topic is missing; brokers behind TLS or SASL are not asked."""
    if "security.protocol" in properties:
        return
    cluster = BrokerTransactions(properties)
    try:
        cluster.check_topics(topics)
    finally:
        cluster.close()


def _milliseconds(value: object) -> int:
    try:
        found = int(str(value))
    except ValueError:
        found = 0
    if found <= 0:
        raise UnusableSetting(f"{TRANSACTION_TIMEOUT} is {value!r}: give a whole number of milliseconds")
    return found
