"""The sinks without transactions: at-least-once, and none (Flink: KafkaWriter)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from onceproof.engine.connectors.kafka.broker_transactions import FLUSH_TIMEOUT_S
from onceproof.engine.connectors.kafka.record_serializer import KafkaRecordSerializationSchema
from onceproof.engine.connectors.kafka.row_producer import RowProducer
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
