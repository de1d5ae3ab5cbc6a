"""JSON rows of a topic, summed by minute and written back as JSON with a key."""

import argparse

from pyflink.common import Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows

SALE = Types.ROW_NAMED(["shop", "amount", "ts"], [Types.STRING(), Types.INT(), Types.LONG()])
TOTAL = Types.ROW_NAMED(["shop", "minute", "total"], [Types.STRING(), Types.LONG(), Types.INT()])


class SaleTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.ts


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value["amount"]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class WithMinute(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield Row(key, context.window().start // 60_000, next(iter(elements)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("--broker", "--source", "--target"):
        parser.add_argument(name)
    given = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(given.broker)
        .set_topics(given.source)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(SALE).build())
        .build()
    )
    totals = (
        env.from_source(
            source, WatermarkStrategy.no_watermarks().with_timestamp_assigner(SaleTime()), "sales"
        )
        .key_by(lambda sale: sale["shop"], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .aggregate(Sum(), WithMinute(), accumulator_type=Types.INT(), output_type=TOTAL)
    )
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(given.target)
        .set_value_serialization_schema(JsonRowSerializationSchema.builder().with_type_info(TOTAL).build())
        .build()
    )
    totals.sink_to(
        KafkaSink.builder()
        .set_bootstrap_servers(given.broker)
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(given.target)
        .set_property("transaction.timeout.ms", "60000")
        .build()
    )
    env.execute("totals by minute")
