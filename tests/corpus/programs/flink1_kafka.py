"""A program for Flink 1.12: FlinkKafkaConsumer, FlinkKafkaProducer, and the settings of that time."""

import argparse
import json

from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.typeinfo import Types
from pyflink.datastream import (
    CheckpointingMode,
    ExternalizedCheckpointCleanup,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from pyflink.datastream.connectors import FlinkKafkaConsumer, FlinkKafkaProducer
from pyflink.datastream.functions import MapFunction


class Score(MapFunction):
    def map(self, value):
        rating = json.loads(value)
        return json.dumps({"title": rating["title"], "score": 2 * rating["stars"]})


def main(broker, source, target):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_python_executable("python3")
    env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
    env.set_parallelism(1)
    env.enable_checkpointing(500, CheckpointingMode.AT_LEAST_ONCE)
    checkpoints = env.get_checkpoint_config()
    checkpoints.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
    checkpoints.set_prefer_checkpoint_for_recovery(True)
    env.add_jars("file:///opt/flink/lib/flink-sql-connector-kafka_2.11-1.12.0.jar")

    consumer = FlinkKafkaConsumer(
        topics=source,
        deserialization_schema=SimpleStringSchema(),
        properties={"bootstrap.servers": broker, "group.id": "ratings"},
    )
    consumer.set_start_from_earliest()
    producer = FlinkKafkaProducer(
        topic=target, serialization_schema=SimpleStringSchema(), producer_config={"bootstrap.servers": broker}
    )
    env.add_source(consumer).map(Score(), output_type=Types.STRING()).add_sink(producer)
    env.execute("scores")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--broker")
    parser.add_argument("--source")
    parser.add_argument("--target")
    main(**vars(parser.parse_args()))
