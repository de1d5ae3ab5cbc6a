"""The mean temperature of the last ten seconds, every five."""

import argparse

from pyflink.common import Encoder, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction
from pyflink.datastream.window import SlidingEventTimeWindows

READINGS = [
    ("k", 10.0, 1_000),
    ("k", 20.0, 4_000),
    ("m", 1.0, 5_000),
    ("k", 60.0, 6_000),
    ("m", 3.0, 11_000),
    ("k", 0.0, 13_000),
]


class ReadingTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0.0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class AddWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield f"{key} [{window.start},{window.end}) {next(iter(elements)):.1f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ReadingTime())
    readings = env.from_collection(READINGS, Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.LONG()]))
    means = (
        readings.assign_timestamps_and_watermarks(strategy)
        .key_by(lambda reading: reading[0], Types.STRING())
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5)))
        .aggregate(
            Mean(),
            AddWindow(),
            accumulator_type=Types.TUPLE([Types.DOUBLE(), Types.INT()]),
            output_type=Types.STRING(),
        )
    )
    means.sink_to(
        FileSink.for_row_format(parser.parse_args().output, Encoder.simple_string_encoder()).build()
    )
    env.execute("sliding means")
