"""Reads a topic of numbers and writes another topic: ``killed_kafka_job.py SERVERS CHECKPOINTS ROWS``.

Each row is a number and how many of its key have come, which is right only if each number is counted once.
"""

from __future__ import annotations

import sys
import time

from onceproof.engine import (
    Configuration,
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
    SimpleStringSchema,
    StreamExecutionEnvironment,
    Types,
)

NUMBERS, SUMS = "numbers", "sums"
PARTITIONS = 2
KEYS = 7
NUMBERS_PER_SECOND = 1000


def main(servers: str, checkpoints: str, rows: int) -> None:
    """Run the job to its end, which is behind the last row of each partition."""
    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.dir": checkpoints,
        "execution.checkpointing.interval": "200 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000000",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }.items():
        configuration.set_string(key, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(2)
    ends = {KafkaTopicPartition(NUMBERS, number): rows // PARTITIONS for number in range(PARTITIONS)}
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(NUMBERS)
        .set_group_id("sums")
        .set_bounded(KafkaOffsetsInitializer.offsets(ends))
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    schema = KafkaRecordSerializationSchema.builder().set_topic(SUMS)
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("sums")
        .set_property("transaction.timeout.ms", 600_000)
        .set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
        .build()
    )
    numbers = environment.from_source(source, None, "numbers").uid("numbers").map(slowly, Types.INT())
    pairs = numbers.map(lambda number: (number % KEYS, number, 1), Types.TUPLE([Types.INT()] * 3))
    sums = pairs.key_by(lambda pair: pair[0], Types.INT()).reduce(
        lambda one, other: (one[0], other[1], one[2] + other[2])
    )
    texts = sums.uid("sums").map(lambda row: f"{row[1]} {row[2]}", Types.STRING())
    texts.sink_to(sink).name("topic").uid("topic")
    environment.execute("sums")


def slowly(number: str) -> int:
    """Take the time that leaves the faults something to strike."""
    time.sleep(1 / NUMBERS_PER_SECOND)
    return int(number)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
