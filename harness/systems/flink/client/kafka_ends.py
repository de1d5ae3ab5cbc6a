"""Topics of Kafka at the ends of a job on Flink: Flink's own source and sink.

The rules this module lives by:

- A partition of the input topic is a split of the scenario, whose records come while the job runs. The source
  has no bound, because one with a bound never ends behind a restore (FLINK-31006): the harness drains the job
  when all is read. It is wrapped by one in Java that logs what it passes.
- A row is a message of JSON. The sink writes with DeliveryGuarantee.EXACTLY_ONCE.
"""

from pyflink.common.serialization import DeserializationSchema, SimpleStringSchema
from pyflink.datastream.connectors import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.java_gateway import get_gateway

TRANSACTION_TIMEOUT_MS = "600000"
"""No transaction times out: that would be a loss, as the connector's documentation says."""


class InputTopic:
    """Stands for the source of a topic until the job reads it."""

    def __init__(self, kafka):
        self.kafka = kafka


class TopicSink:
    """Stands for the sink of rows into a topic until the job attaches it to a stream."""

    def __init__(self, kafka):
        self.kafka = kafka


def java_source(kafka, log):
    """Return Flink's source of the input topic, with a log of what it passes."""
    jvm = get_gateway().jvm
    topic = kafka["input_topic"]
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka["servers"])
        .set_topics(topic)
        .set_group_id(kafka["transactions"])
        .set_property("partition.discovery.interval.ms", "0")
        .set_property("commit.offsets.on.checkpoint", "false")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(DeserializationSchema(jvm.onceproof.LoggedSource.Messages()))
        .build()
        .get_java_function()
    )
    names = jvm.java.util.ArrayList()
    for split in kafka["splits"]:
        names.add(split)
    return jvm.onceproof.LoggedSource(source, log, topic, names)


def sink_of(kafka):
    """Return Flink's exactly-once sink into the output topic."""
    rows = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(kafka["output_topic"])
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(kafka["servers"])
        .set_record_serializer(rows)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(kafka["transactions"])
        .set_property("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
        .build()
    )
