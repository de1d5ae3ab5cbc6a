"""Messages of one topic are written in upper case to another, exactly once."""

import argparse

from pyflink.common import SimpleStringSchema, WatermarkStrategy
from pyflink.common.typeinfo import Types
from pyflink.datastream import CheckpointingMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

parser = argparse.ArgumentParser()
parser.add_argument("--broker")
parser.add_argument("--source")
parser.add_argument("--target")
arguments = parser.parse_args()

env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(1000, CheckpointingMode.EXACTLY_ONCE)
source = (
    KafkaSource.builder()
    .set_bootstrap_servers(arguments.broker)
    .set_topics(arguments.source)
    .set_group_id("upper-case")
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_bounded(KafkaOffsetsInitializer.latest())
    .set_value_only_deserializer(SimpleStringSchema())
    .build()
)
sink = (
    KafkaSink.builder()
    .set_bootstrap_servers(arguments.broker)
    .set_record_serializer(
        KafkaRecordSerializationSchema.builder()
        .set_topic(arguments.target)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    .set_transactional_id_prefix(arguments.target)
    .set_property("transaction.timeout.ms", "60000")
    .build()
)
env.from_source(source, WatermarkStrategy.no_watermarks(), "messages").map(
    lambda text: text.upper(), Types.STRING()
).sink_to(sink)
env.execute("upper case")
