"""How fast the Kafka source and the exactly-once Kafka sink are, beside librdkafka without an engine.

The rules this module lives by:

- The broker is one of its own on this machine (`harness/services/kafka_broker.py`), as far away for both.
- The floor of the sink is a producer of librdkafka that writes the same rows in a loop of Python and flushes
  once, without transactions. Ours is a job that generates them, takes a checkpoint each second and commits.
- The floor of the source is a consumer of librdkafka that takes the values of all rows. Ours is a job that
  reads them as texts and counts them.
- Floor and job take turns; the best round of each counts, because other work on the machine only adds time.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.connectors.kafka.kafka_sink import KafkaSink
from onceproof.engine.connectors.kafka.kafka_source import KafkaSource
from onceproof.engine.connectors.kafka.offsets import KafkaOffsetsInitializer
from onceproof.engine.connectors.kafka.record_schemas import KafkaRecordSerializationSchema
from onceproof.engine.connectors.sequence_source import NumberSequenceSource
from onceproof.engine.connectors.sink import DeliveryGuarantee
from onceproof.engine.extras import KAFKA, require
from onceproof.engine.formats.message_schemas import SimpleStringSchema
from onceproof.engine.functions import SinkFunction
from onceproof.engine.types import Types
from onceproof.harness.reporting.report_builder import machine_text
from onceproof.harness.services.kafka_broker import KafkaBroker
from tests.benchmarks.measurement import Measurement

ROWS: Final = 400_000
ROUNDS: Final = 3
PARTITIONS: Final = 2
CHECKPOINT_MS: Final = 1000
SINK: Final = "exactly-once sink, rows/s"
SOURCE: Final = "source, rows/s"


class WrongCount(Exception):
    """A job has not read or written all rows; the message is one line."""


class Counter(SinkFunction):
    """Counts values; all subtasks of a process share the count."""

    count = 0

    def invoke_batch(self, values: list[Any]) -> bool:
        """Count values."""
        Counter.count += len(values)
        return True

    def invoke(self, value: Any, context: Any) -> None:
        """Count one value."""
        Counter.count += 1


def measure() -> Measurement:
    """Measure both ends of a job. Raises ServiceError or ExtraMissing without a broker or the client."""
    require("the benchmark kafka", KAFKA)
    folder = Path(tempfile.mkdtemp(prefix="onceproof-bench-kafka-"))
    broker = KafkaBroker(folder / "broker", dies_with_parent=True)
    try:
        broker.start()
        rates: dict[str, list[float]] = {name: [] for name in ("sink", "producer", "source", "consumer")}
        for number in range(ROUNDS):
            topics = [f"{name}{number}" for name in ("bare", "written")]
            make_topics(broker.address, topics)
            rates["producer"].append(rate_of(lambda: produce(broker.address, topics[0])))  # noqa: B023
            rates["sink"].append(rate_of(lambda: write(broker.address, topics[1])))  # noqa: B023
            rates["consumer"].append(rate_of(lambda: consume(broker.address, topics[1])))  # noqa: B023
            rates["source"].append(rate_of(lambda: read(broker.address, topics[0])))  # noqa: B023
    finally:
        broker.kill()
        shutil.rmtree(folder, ignore_errors=True)
    best = {name: max(each) for name, each in rates.items()}
    return Measurement(
        "kafka",
        {SINK: best["sink"], SOURCE: best["source"]},
        {SINK: best["producer"], SOURCE: best["consumer"]},
        {SINK: best["sink"] / best["producer"], SOURCE: best["source"] / best["consumer"]},
        machine_text(),
    )


def rate_of(run: Callable[[], None]) -> float:
    """Return rows a second of the clock on the wall."""
    begin = time.perf_counter()
    run()
    return ROWS / (time.perf_counter() - begin)


def make_topics(servers: str, topics: list[str]) -> None:
    """Make topics."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
        made.result(30)


def produce(servers: str, topic: str) -> None:
    """Write all rows with librdkafka alone."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": ROWS + 1}
    producer = Producer({**settings, "enable.idempotence": True})
    for number in range(ROWS):
        producer.produce(topic, row_of(number).encode())
    if producer.flush(120):
        raise WrongCount(f"librdkafka has not written all {ROWS} rows")


def consume(servers: str, topic: str) -> None:
    """Read all rows with librdkafka alone."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "bare", "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    count = 0
    while count < ROWS:
        for message in consumer.consume(1000, 10):
            if message.error() is None and message.value() is not None:
                count += 1
    consumer.close()


def write(servers: str, topic: str) -> None:
    """Write all rows by a job, exactly once."""
    environment = _environment()
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_property("transaction.timeout.ms", 600_000)
        .set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build())
        .build()
    )
    numbers = environment.from_source(NumberSequenceSource(0, ROWS - 1), None, "numbers")
    numbers.map(row_of, Types.STRING()).sink_to(sink)
    environment.execute("write")


def read(servers: str, topic: str) -> None:
    """Read all rows by a job."""
    environment = _environment()
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(topic)
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    Counter.count = 0
    environment.from_source(source, None, "rows").add_sink(Counter())
    environment.execute("read")
    if Counter.count != ROWS:
        raise WrongCount(f"the job has read {Counter.count} rows of {ROWS}")


def row_of(number: int) -> str:
    """Return a row of fifty bytes."""
    return f"{number:050d}"


def _environment() -> StreamExecutionEnvironment:
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.enable_checkpointing(CHECKPOINT_MS)
    return environment
