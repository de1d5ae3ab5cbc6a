"""A sequence of numbers goes to files by bucket; files are rolled at each checkpoint."""

import argparse

from pyflink.common import Encoder, WatermarkStrategy
from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
)
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.enable_checkpointing(200)
    numbers = env.from_source(
        NumberSequenceSource(1, 40), WatermarkStrategy.for_monotonous_timestamps(), "numbers", Types.LONG()
    )
    sink = (
        FileSink.for_row_format(parser.parse_args().output, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(OutputFileConfig.builder().with_part_prefix("squares").build())
        .build()
    )
    numbers.filter(lambda n: n % 4 == 0).map(lambda n: f"{n} {n * n}", Types.STRING()).sink_to(sink)
    env.execute("squares")
