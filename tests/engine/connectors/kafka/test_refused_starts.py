"""A Kafka sink that its cluster refuses at the start; the task does not close what did not start."""

from __future__ import annotations

from typing import Any

import pytest

from onceproof.engine import KafkaRecordSerializationSchema, SimpleStringSchema
from onceproof.engine.connectors.kafka.kafka_errors import UnusableSetting
from onceproof.engine.connectors.kafka.transaction_function import KafkaTransactionFunction


class Refusing:
    """A cluster that refuses the settings of a sink."""

    is_closed = False

    def check(self, topics: object, timeout_ms: int) -> None:
        raise UnusableSetting("the timeout is too long")

    def close(self) -> None:
        self.is_closed = True


def test_sink_that_does_not_start_leaves_no_connection_open() -> None:
    rows = KafkaRecordSerializationSchema.builder().set_topic("topic")
    serializer = rows.set_value_serialization_schema(SimpleStringSchema()).build()
    cluster: Any = Refusing()
    context: Any = None
    function = KafkaTransactionFunction(lambda: cluster, serializer, "app-1", 60_000)
    with pytest.raises(UnusableSetting, match="the timeout is too long"):
        function.initialize_state(context)
    assert cluster.is_closed
