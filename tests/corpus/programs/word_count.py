"""Words of a text, counted and written to files."""

import argparse

from pyflink.common import Encoder, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors import FileSink, OutputFileConfig

TEXT = [
    "To be, or not to be, that is the question",
    "Whether tis nobler in the mind to suffer",
    "The slings and arrows of outrageous fortune",
    "Or to take arms against a sea of troubles",
    "And by opposing end them to die to sleep",
    "No more and by a sleep to say we end",
]


def words(line):
    yield from (word.strip(",").lower() for word in line.split())


def word_count(output):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    counts = (
        env.from_collection(TEXT, Types.STRING())
        .flat_map(words, Types.STRING())
        .map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .reduce(lambda first, second: (first[0], first[1] + second[1]))
    )
    counts.filter(lambda pair: pair[0] in ("to", "and", "end")).map(
        lambda pair: f"{pair[0]} {pair[1]}", Types.STRING()
    ).sink_to(
        FileSink.for_row_format(output, Encoder.simple_string_encoder())
        .with_output_file_config(
            OutputFileConfig.builder().with_part_prefix("words").with_part_suffix(".txt").build()
        )
        .build()
    )
    env.execute("word count")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    word_count(parser.parse_args().output)
