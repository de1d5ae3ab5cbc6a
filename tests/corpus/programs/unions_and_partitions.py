"""Streams are joined together, spread out, and partitioned by a rule of the program's own."""

import argparse

from pyflink.common import Encoder, Types
from pyflink.datastream import Partitioner, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink
from pyflink.datastream.functions import KeySelector


class ByParity(Partitioner):
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


class Itself(KeySelector):
    def get_key(self, value):
        return value


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    low = env.from_collection([0, 1, 2, 3], Types.INT())
    high = env.from_collection([10, 11, 12, 13], Types.INT())
    numbers = low.union(high).rebalance().map(lambda n: n * 3, Types.INT())
    numbers.partition_custom(ByParity(), Itself()).map(
        lambda n: f"{n} {'even' if n % 2 == 0 else 'odd'}", Types.STRING()
    ).sink_to(FileSink.for_row_format(parser.parse_args().output, Encoder.simple_string_encoder()).build())
    env.execute("parities")
