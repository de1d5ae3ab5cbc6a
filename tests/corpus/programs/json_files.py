"""JSON lines of a folder, counted by level and written to files."""

import argparse
import json

from pyflink.common import Encoder, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)


def parse(line):
    entry = json.loads(line)
    return entry["level"], entry["service"], 1


def main(input_path, output_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), input_path)
        .process_static_file_set()
        .build()
    )
    counts = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "log files")
        .map(parse, Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT()]))
        .filter(lambda entry: entry[0] != "DEBUG")
        .key_by(lambda entry: entry[0])
        .reduce(lambda a, b: (a[0], b[1], a[2] + b[2]))
        .map(json.dumps, Types.STRING())
    )
    counts.sink_to(
        FileSink.for_row_format(output_path, Encoder.simple_string_encoder())
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".json").build())
        .with_rolling_policy(RollingPolicy.default_rolling_policy())
        .build()
    )
    env.execute("levels")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--input")
    parser.add_argument("--output")
    given = parser.parse_args()
    main(given.input, given.output)
